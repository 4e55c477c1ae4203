"""The scheduler that the engine and the simulator share.

    plan   = scheduler.plan(now_ns)             decides; the same state gives the same plan
    result = executor.run(plan)                 the engine computes, the simulator predicts
    scheduler.commit(plan, result)              tokens, endings and forks become known

A plan claims: blocks are taken and positions move on when a step is planned, since the next step
may be planned before this one is done. A commit confirms: only then is it known which requests
ended. The scheduler knows no clock but the stamps it is handed, no tensor, and no randomness.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence

from pagecast.engine.core.admission import Refusal, admit, refusal
from pagecast.engine.core.blocks import BlockPool
from pagecast.engine.core.cohort import Cohort
from pagecast.engine.core.events import DecisionLog
from pagecast.engine.core.forecasts import FORECAST
from pagecast.engine.core.growth import (
    admission_order,
    continue_prompts,
    grow_decodes,
    serve_decodes_first,
    serve_in_order,
    settle_decodes,
)
from pagecast.engine.core.limits import Limits
from pagecast.engine.core.padding import PaddedBatch
from pagecast.engine.core.policy import Policy
from pagecast.engine.core.queue import QUEUE_ORDER
from pagecast.engine.core.request import Request, State
from pagecast.engine.core.step import Chunk, Ending, Fork, StepPlan, StepResult
from pagecast.engine.core.swap_space import SwapSpace
from pagecast.engine.core.swapping import swap_in

Phase = Callable[["Scheduler", StepPlan], None]


def prefill_or_decode(s: Scheduler, plan: StepPlan) -> None:
    """Prompts first, those under way before new ones; decodes only where there are none."""
    continue_prompts(s, plan)
    admit(s, plan)
    if not plan.chunks:
        if s.cohort.size:
            grow_decodes(s, plan)
        settle_decodes(s, plan)
        swap_in(s, plan)


PHASES: dict[str, tuple[Phase, ...]] = {
    "running_in_order": (serve_in_order, settle_decodes, swap_in, admit),
    "decodes_partials_new": (serve_decodes_first, settle_decodes, swap_in, admit),
    "waiting_first": (prefill_or_decode,),
}
"""What a step does, in order, for each `service_order`."""


class Scheduler(Limits):
    """Decides each step from the state that earlier steps left.

    Args:
        policy: the rules.
        pool: the KV blocks.
        max_model_len: longest context, prompt and answer together, in tokens.
        swap_blocks: KV blocks that host memory has room for.
        log: where decisions are recorded, if anywhere.
    """

    def __init__(
        self,
        policy: Policy,
        pool: BlockPool,
        max_model_len: int,
        log: DecisionLog | None = None,
        *,
        swap_blocks: int = 0,
    ) -> None:
        super().__init__(policy, pool, max_model_len)
        self.log = log
        self.cohort = Cohort(pool.block_size)
        self.waiting = QUEUE_ORDER[policy.queue_order]()
        self.swap_space = SwapSpace(swap_blocks)
        self.swapped: deque[Request] = deque()
        """In the order in which they were swapped out."""
        self.running: dict[Request, None] = {}
        """In the order of admission."""
        self.partials: dict[Request, None] = {}
        """Those of the running that are not in the decode cohort."""
        self.prefix_query_tokens = 0
        self.prefix_hit_tokens = 0
        self.partial_tokens = 0
        """Tokens that the running outside the cohort have computed, all together."""
        self.reach_tokens = 0
        """What all that run may come to, where `max_total_tokens` bounds it."""
        make_forecast = FORECAST.get(policy.reserve)
        self.forecast = make_forecast(self) if make_forecast else None
        self.waits_for_leavers = bool(self.forecast and self.forecast.waits_for_leavers)
        self.short_of_blocks: Request | None = None
        """Who was not admitted in the last step for want of blocks."""
        self.short_to_return: Request | None = None
        """The same of those who are swapped out."""
        self.next_try_clock = 0
        """The decode clock from which on admission is tried, while anybody runs."""
        self.departures = 0
        """How many of the running have left for good, in whatever way."""
        self.preempted_again = 0
        """Preemptions of requests since whose last one nobody had left: thrash."""
        self.padded = PaddedBatch() if policy.padding == "longest" else None
        phases = PHASES[policy.service_order]
        self._phases = [phase for phase in phases if swap_blocks or phase is not swap_in]
        self.steps = self.just_finished = self._arrivals = self._admissions = 0

    def submit(self, request: Request) -> Refusal | None:
        """Take in an arrival; returns why it was refused, if it was."""
        request.order = self._arrivals
        self._arrivals += 1
        refused = refusal(self, request)
        if refused is None:
            self.waiting.push(request)
        else:
            request.state = State.DONE
        if self.log:
            self.log.arrived(request, refused.reason if refused else None)
        return refused

    def cancel(self, request: Request) -> None:
        """Let a request go, wherever it stands; one that already left is ignored."""
        if request.state is State.DONE:
            return
        if self.log:
            self.log.cancelled(request)
        if request.state is State.WAITING:
            self.waiting.remove(request)
        elif request.state is State.SWAPPED:
            self.drop_swapped(request)
        else:
            self._leave(request)
        request.state = State.DONE

    def plan(self, now_ns: int) -> StepPlan:
        """Decide the next step; an empty plan means that nothing can be computed now."""
        plan = StepPlan(self.steps, now_ns, self.pool.free, self.budget)
        if self.forecast and not (self.running or self.swapped):
            self.forecast.idle()
        if not self.waits_for_leavers:
            self.short_of_blocks = None
        for phase in self._phases:
            phase(self, plan)
        if plan.failed:
            self._go_on_without(plan)
        if self.forecast and plan.preempted:
            self.forecast.preempted()
        if plan.ticks or plan.chunks:
            self.steps += 1
            self._advance(plan)
        plan.free_after = self.pool.free
        return plan

    def _go_on_without(self, plan: StepPlan) -> None:
        """Whoever fails may leave the step empty, though his blocks now serve another."""
        failed = 0
        while plan.empty and failed < len(plan.failed):
            failed = len(plan.failed)
            for phase in self._phases:
                phase(self, plan)
        if self.log:
            self.log.failed(plan)

    def commit(self, plan: StepPlan, result: StepResult) -> None:
        """Learn what came of a step: identities of new tokens, forks, endings.

        Raises:
            ValueError: if the result does not name an identity for each request that is owed one.
        """
        if self.log:
            self.log.step(self, plan, result)
        if self.pool.caching:
            self._learn_identities(plan, result)
        for fork in result.forks:
            self._fork(fork)
        self.release(result.finished)
        if self.log:
            self.log.committed(self.pool.free)

    def release(self, endings: Sequence[Ending]) -> None:
        """Let those go who ended with the last step, in the order of their admission."""
        if len(endings) > 1:
            endings = sorted(endings, key=lambda ending: admission_order(ending.request))
        for request, _ in endings:
            self._leave(request)
            request.state = State.DONE
        self.just_finished = len(endings)

    def learn(self, requests: Sequence[Request], identities: Sequence[int]) -> None:
        """Take in the identities of blocks that the newest tokens of requests complete."""
        for request, identity in zip(requests, identities, strict=True):
            request.identities.append(identity)

    def scheduled(self, plan: StepPlan) -> Iterator[Chunk]:
        """Everyone whom a plan serves, in the order of admission: valid until its commit."""
        chunks = {chunk.request: chunk for chunk in plan.chunks}
        for request in self.running:
            if request in chunks:
                yield chunks[request]
            elif plan.ticks and request.state is State.DECODING:
                yield Chunk(request, self.cohort.computed(request) - 1, 1)

    def kv_tokens(self) -> int:
        """Tokens of running requests in the KV cache."""
        return self.cohort.tokens() + self.partial_tokens

    def growing(self) -> Collection[Request]:
        """Decodes that need a block of the pool for their next token."""
        if not self.grows:
            return ()
        due, lead = self.cohort.due(), self.lead_tokens
        if lead:
            return [request for request in due if self.cohort.computed(request) >= lead]
        return due

    def rule_state(self) -> list[int]:
        """What a forecast remembers, for the log."""
        return list(self.forecast.state()) if self.forecast else []

    # What the rules ask.

    def swap_fits(self, request: Request) -> bool:
        """Whether host memory has room for a request that runs, and the step order for its return.

        Where prompts and decodes do not share steps, a prompt under way could not return in one of
        decodes: it is recomputed.
        """
        computed = self.cohort.computed(request)
        if self.policy.mix == "prefill_first" and self.cohort.known(request) - computed > 1:
            return False
        return 0 < self.blocks_for(computed) <= self.swap_space.free

    def may_return(self, request: Request) -> bool:
        """Whether a preempted request may run again already."""
        if request.left_with < self.departures or not self.running:
            return True
        at_once = self.policy.readmit == "at_once"
        return at_once and not (self.may_take_turns and request.preempted_again)

    def count_hits(self, request: Request) -> int:
        """Blocks that a waiting request would find cached."""
        return len(self.pool.match(request))

    # What the phases of a step do to a request.

    def place(self, request: Request) -> None:
        """Put a request at the end of the running, outside the cohort."""
        request.seq = self._admissions
        self._admissions += 1
        self.running[request] = None
        self.partials[request] = None
        self.partial_tokens += request.computed
        if self.total_cap:
            self.reach_tokens += self.reach(request)

    def rejoin(self, request: Request) -> None:
        """Let a request just placed decode with the others in this very step."""
        self.partial_tokens -= request.computed
        del self.partials[request]
        self.cohort.join(request)

    def compute(self, plan: StepPlan, request: Request, start: int, tokens: int) -> None:
        """Plan a run of positions for a request that holds the blocks for them."""
        end = start + tokens
        plan.left -= tokens
        plan.chunks.append(Chunk(request, start, tokens))
        plan.shape.add_chunk(start, tokens)
        if start < request.high:
            request.recomputed_tokens += min(end, request.high) - start
        if self.publishes_at_plan:
            self.pool.publish(request, end)

    def set_apart(self, request: Request) -> None:
        """Take a decoding request out of lockstep: it did not advance with the others."""
        self.cohort.leave(request)
        request.state = State.PARTIAL
        self.partials[request] = None
        self.partial_tokens += request.computed

    def fail(self, plan: StepPlan, request: Request, reason: str) -> None:
        """Give up on a request that can never be served."""
        if request in self.running:
            self._leave(request)
        request.state = State.DONE
        plan.failed.append(Ending(request, reason))

    def drop_swapped(self, request: Request) -> None:
        """Let go what host memory holds of a request."""
        self.swapped.remove(request)
        self.swap_space.give_back(request.host_blocks)
        request.host_blocks = []

    def withdraw(self, request: Request) -> None:
        """Take a request out of the running; it keeps its blocks for the moment."""
        if request.state is State.DECODING:
            self.cohort.leave(request)
        else:
            del self.partials[request]
            self.partial_tokens -= request.computed
        del self.running[request]
        self.short_of_blocks = self.short_to_return = None
        if self.total_cap:
            self.reach_tokens -= self.reach(request)

    def _advance(self, plan: StepPlan) -> None:
        """Move positions on: the clock ticks, and who computed all known tokens joins it."""
        cohort, shape = self.cohort, plan.shape
        if plan.ticks:
            cohort.tick(shape)
            plan.decodes = shape.decode_seqs
            for request in plan.rejoined:
                request.known += 1
        plan.clock = cohort.clock
        if plan.chunks:
            for request, start, tokens in plan.chunks:
                self._move_on(plan, request, start + tokens)
            shape.sampled_rows += len(plan.completing)
            shape.admitted = len(plan.admitted)
            shape.copied_blocks = len(plan.copies)
        if self.just_finished:
            shape.finished = self.just_finished
        if self.padded:
            self.padded.charge(plan)
        if self.pool.caching:
            self._note_filling(plan)

    def _move_on(self, plan: StepPlan, request: Request, end: int) -> None:
        self.partial_tokens += end - request.computed
        request.computed = end
        if end == request.known:
            self.partial_tokens -= end
            del self.partials[request]
            request.known += 1
            self.cohort.join(request)
            plan.completing.append(request)

    def _note_filling(self, plan: StepPlan) -> None:
        """Whose next token completes a block: decodes if they ticked, and those who joined."""
        due = self.cohort.due(ahead=1)
        plan.filling = list(due) if plan.ticks else [r for r in plan.completing if r in due]

    def _learn_identities(self, plan: StepPlan, result: StepResult) -> None:
        if len(result.identities) != len(plan.filling):
            raise ValueError(
                f"step {plan.step}: {len(result.identities)} identities for {len(plan.filling)} "
                "requests that complete a block"
            )
        if not self.publishes_at_plan:
            for request, start, tokens in plan.chunks:
                self.pool.publish(request, start + tokens)
            if plan.ticks:
                self.publish_computed()
        self.learn(plan.filling, result.identities)

    def publish_computed(self) -> None:
        """Offer the blocks that decodes have just filled."""
        for request in self.cohort.due():
            self.pool.publish(request, self.cohort.computed(request))

    def _fork(self, fork: Fork) -> None:
        """Let the child run beside its parent if it may, else wait first in line."""
        parent, child = fork
        child.order = self._arrivals
        self._arrivals += 1
        full = len(self.running) >= self.max_seqs
        if full or not self.pool.sharing or parent not in self.running:
            self.waiting.push_front(child)
            return
        if parent.state is State.DECODING:
            self.set_apart(parent)
        child.computed = parent.computed
        child.state = State.PARTIAL
        self.place(child)
        self.pool.fork(parent, child)

    def _leave(self, request: Request) -> None:
        """Take a request out of the running for good, its blocks given back."""
        self.withdraw(request)
        self.pool.release(request)
        self.departures += 1

"""What a step is: its plan, its shape, its result.

`StepPlan` says what one engine step does, `StepShape` says what its latency may depend on, and
`StepResult` says what came of it. All three are the same types for the engine, which carries a
plan out on a device, and for the simulator, which predicts its duration. Nothing here knows how
long anything takes.

A plan names what changes. Decoding requests advance by one token each, in lockstep, and are only
counted (`StepPlan.decodes`); whoever needs them one by one asks `Scheduler.scheduled(plan)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from pagecast.engine.core.request import Request
    from pagecast.engine.core.swap_space import Transfer


class Chunk(NamedTuple):
    """A run of `tokens` positions of one request, from position `start`, computed in a step."""

    request: Request
    start: int
    tokens: int


class BlockCopy(NamedTuple):
    """Copy-on-write: block `source` is copied to block `target` before anything is computed."""

    source: int
    target: int


class Fork(NamedTuple):
    """`child` continues from all that `parent` has computed, sharing its blocks.

    The executor makes the child, with a token of its own in place of the parent's last one.
    """

    parent: Request
    child: Request


class Ending(NamedTuple):
    """A request left, and why: `stop`, `length`, `capacity`, `context`, ..."""

    request: Request
    reason: str


@dataclass(init=False)
class StepShape:
    """All that a step's latency may depend on; the integers are sums over the step's requests.

    A decode at position p attends to p + 1 tokens, its context. A prefill chunk of q tokens after
    c computed ones makes q·c + q·(q + 1)/2 attention pairs and reads c earlier tokens again.
    Fields keep their class default, 0, until something sets them: most steps touch few of them.
    """

    decode_seqs: int = 0
    decode_context_tokens: int = 0
    decode_context_sq: int = 0
    decode_context_max: int = 0
    prefill_seqs: int = 0
    prefill_tokens: int = 0
    prefill_pairs: int = 0
    prefill_context_tokens: int = 0
    sampled_rows: int = 0
    admitted: int = 0
    finished: int = 0
    swapped_out_blocks: int = 0
    swapped_in_blocks: int = 0
    copied_blocks: int = 0
    dead_rows: int = 0
    padded_tokens: int = 0
    padded_context_tokens: int = 0
    verify_rows: int = 0
    graph_rows: int = 0

    @property
    def kind(self) -> str:
        """`decode`, `prefill`, `mixed`, or `idle` for a step that computes nothing."""
        if self.decode_seqs:
            return "mixed" if self.prefill_seqs else "decode"
        return "prefill" if self.prefill_seqs else "idle"

    def add_chunk(self, start: int, tokens: int) -> None:
        """Count a chunk of `tokens` positions that follows `start` computed ones."""
        self.prefill_seqs += 1
        self.prefill_tokens += tokens
        self.prefill_pairs += tokens * start + tokens * (tokens + 1) // 2
        self.prefill_context_tokens += start


class StepPlan:
    """One step, decided: who computes what, who was admitted, who had to give way.

    `decodes` requests advance by one token if `ticks`; `clock` is the decode clock after that.
    `completing` are the requests whose chunk reaches the last known token, so that the step
    samples a token for them. `filling` are those whose next token completes a block: the result
    owes an identity for each, if blocks are cached by content. `rejoined` were swapped in and decode
    at once, among the others. `wake_ns` is set on an empty plan if something waits for that time.

    Within a step the order is: `swapped_out`, `copies`, `swapped_in`, then what is computed.
    """

    __slots__ = (
        "admitted", "chunks", "clock", "completing", "copies", "decodes", "failed", "filling",
        "free_after", "free_before", "left", "now_ns", "preempted", "rejoined", "shape", "step",
        "swapped_in", "swapped_out", "ticks", "wake_ns",
    )  # fmt: skip

    def __init__(self, step: int, now_ns: int, free_before: int, budget: int) -> None:
        self.step = step
        self.now_ns = now_ns
        self.free_before = free_before
        self.free_after = free_before
        self.left = budget
        """Tokens of the step's budget that are not spent yet."""
        self.shape = StepShape()
        self.ticks = False
        self.clock = 0
        self.decodes = 0
        self.chunks: list[Chunk] = []
        self.admitted: list[Request] = []
        self.preempted: list[Request] = []
        self.completing: list[Request] = []
        self.filling: list[Request] = []
        self.failed: list[Ending] = []
        self.copies: list[BlockCopy] = []
        self.swapped_out: list[Transfer] = []
        self.swapped_in: list[Transfer] = []
        self.rejoined: list[Request] = []
        self.wake_ns: int | None = None

    @property
    def empty(self) -> bool:
        """Whether the step computes nothing, so that no executor needs to run it."""
        return not (self.ticks or self.chunks)


@dataclass
class StepResult:
    """What came of a step, by exception: all that is not listed advanced as planned.

    `finished` in any order; `identities` one per request of `StepPlan.filling`, in that order.
    """

    duration_ns: int
    finished: Sequence[Ending] = ()
    identities: Sequence[int] = ()
    forks: Sequence[Fork] = ()


class Executor(Protocol):
    """Carries plans out: the engine on a device, the simulator by prediction."""

    def run(self, plan: StepPlan) -> StepResult:
        """Carry out one plan that is not empty."""
        ...

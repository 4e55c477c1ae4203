"""The rules that axes of a policy name: plain functions, one table per axis.

To add a rule, write the function and give it a name in its table. Rules that own state are classes,
made anew for each run: see `forecasts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pagecast.engine.core.request import Request

if TYPE_CHECKING:
    from pagecast.engine.core.scheduler import Scheduler


def reserve_chunk(request: Request, end: int, max_model_len: int) -> int:
    """Room for the first chunk only (vLLM 0.11): more is taken as it is needed."""
    return end


def reserve_known(request: Request, end: int, max_model_len: int) -> int:
    """Room for all tokens that exist (vLLM)."""
    return request.known


def reserve_known_and_new(request: Request, end: int, max_model_len: int) -> int:
    """Prompt and longest answer: nothing is ever preempted (TensorRT-LLM)."""
    if request.max_tokens is None:
        return max_model_len
    return min(request.prompt_tokens + request.max_tokens, max_model_len)


def reserve_max_len(request: Request, end: int, max_model_len: int) -> int:
    """The model's context (Orca, and static batching)."""
    return max_model_len


RESERVE: dict[str, Callable[[Request, int, int], int]] = {
    "chunk": reserve_chunk,
    "known": reserve_known,
    "known+max_new": reserve_known_and_new,
    "max_len": reserve_max_len,
    "ratio": reserve_known,
    "peak": reserve_known,
}
"""Tokens that must have room before a request is admitted.

Called with the request, the tokens computed once its first chunk has run, and the longest context.
`ratio` and `peak` ask for more, by a forecast of all that run (`forecasts.FORECAST`).
"""

RESERVES_ALL = ("known+max_new", "max_len")
"""Reserves that leave nothing to be taken later."""


def last_admitted(candidates: Sequence[Request], s: Scheduler) -> Request:
    """The request admitted last (vLLM)."""
    return candidates[-1]


def least_urgent(candidates: Sequence[Request], s: Scheduler) -> Request:
    """The largest priority number; of equals the one that arrived last (vLLM)."""
    return max(candidates, key=lambda request: (request.priority, request.order))


def least_output(candidates: Sequence[Request], s: Scheduler) -> Request:
    """Fewest output tokens; of equals the longest prompt, then the one admitted last (SGLang)."""
    return min(
        reversed(candidates),
        key=lambda r: (s.cohort.known(r) - r.prompt_tokens, -r.prompt_tokens),
    )


def least_computed(candidates: Sequence[Request], s: Scheduler) -> Request:
    """Fewest tokens in the KV cache; of equals the one admitted last."""
    return min(reversed(candidates), key=s.cohort.computed)


def most_blocks(candidates: Sequence[Request], s: Scheduler) -> Request:
    """Most blocks, so that few have to give way; of equals the one admitted last."""
    return max(reversed(candidates), key=lambda request: request.held)


def cheapest(candidates: Sequence[Request], s: Scheduler) -> Request:
    """Cheapest to bring back for each block it frees; of equals the one admitted last."""

    def picoseconds_per_block(request: Request) -> int:
        cost, computed = s.cost(), s.cohort.computed(request)
        ns = cost.recompute_ns(computed)
        if s.swap_fits(request):
            ns = min(ns, cost.swap_ns(s.blocks_for(computed)))
        return ns * 1000 // max(1, request.held)

    return min(reversed(candidates), key=picoseconds_per_block)


VICTIM: dict[str, Callable[[Sequence[Request], Scheduler], Request]] = {
    "last": last_admitted,
    "priority": least_urgent,
    "least_output": least_output,
    "least_computed": least_computed,
    "most_blocks": most_blocks,
    "cost": cheapest,
}
"""Who gives way, of those that run and have nothing planned yet that others may build on; in the
order of their admission, never empty."""


def never_swap(request: Request, s: Scheduler) -> bool:
    """Drop the blocks and compute them again."""
    return False


def always_swap(request: Request, s: Scheduler) -> bool:
    """Keep the blocks in host memory."""
    return True


def swap_at_first(request: Request, s: Scheduler) -> bool:
    """Swap a request the first few times, then recompute it."""
    return request.swaps < s.policy.hybrid_swaps


def swap_if_cheaper(request: Request, s: Scheduler) -> bool:
    """Whichever costs less by the policy's `PreemptCost`, from what the request has computed."""
    blocks = s.blocks_for(request.computed)
    return s.cost().swap_ns(blocks) < s.cost().recompute_ns(request.computed)


PREEMPTION: dict[str, Callable[[Request, Scheduler], bool]] = {
    "recompute": never_swap,
    "swap": always_swap,
    "hybrid": swap_at_first,
    "auto": swap_if_cheaper,
    "never": never_swap,
}
"""Whether a request that gives way, and whose blocks fit into host memory, is swapped out. What does
not fit is recomputed."""

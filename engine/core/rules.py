"""The rules that axes of a policy name: plain functions, one table per axis.

To add a rule, write the function and give it a name in its table.
"""

from __future__ import annotations

from collections.abc import Callable

from pagecast.engine.core.request import Request


def reserve_chunk(request: Request, end: int, max_model_len: int) -> int:
    """Room for the first chunk only (vLLM 0.11): more is taken as it is needed."""
    return end


def reserve_known(request: Request, end: int, max_model_len: int) -> int:
    """Room for all tokens that exist, though only the chunk's blocks are taken (vLLM 0.24+)."""
    return request.known


def reserve_known_and_new(request: Request, end: int, max_model_len: int) -> int:
    """Prompt and longest answer, taken at once: nothing is ever preempted (TensorRT-LLM)."""
    if request.max_tokens is None:
        return max_model_len
    return min(request.prompt_tokens + request.max_tokens, max_model_len)


def reserve_max_len(request: Request, end: int, max_model_len: int) -> int:
    """The model's context, taken at once (Orca, and static batching)."""
    return max_model_len


RESERVE: dict[str, Callable[[Request, int, int], int]] = {
    "chunk": reserve_chunk,
    "known": reserve_known,
    "known+max_new": reserve_known_and_new,
    "max_len": reserve_max_len,
}
"""Tokens that must have room before a request is admitted.

Called with the request, the tokens computed once its first chunk has run, and the longest context.
"""

CLAIMED_AT_ADMISSION = ("known+max_new", "max_len")
"""Reserves whose blocks are taken when the request is admitted, not as it grows."""


def last_admitted(running: dict[Request, None]) -> Request:
    """The request admitted last gives way (vLLM)."""
    return next(reversed(running))


VICTIM: dict[str, Callable[[dict[Request, None]], Request]] = {
    "last": last_admitted,
}
"""Who is preempted, of those that run (in the order of their admission, never empty)."""

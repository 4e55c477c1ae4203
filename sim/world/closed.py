"""Arrivals in a closed loop: so many clients, each of which asks again when it has its answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from pagecast.engine.core.errors import UserError
from pagecast.engine.core.request import Request
from pagecast.sim.world.inbox import FOREVER_NS, Inbox, PromptIdentities
from pagecast.traces.schema import Trace


class ClosedInbox(Inbox):
    """Lets in the requests of a trace one by one, never more than `concurrency` at a time.

    A request takes the place that was left first, at that very moment, but not before its own
    stamp: a trace whose stamps are all 0 keeps every place taken, and where places are never short
    the trace arrives as it would without. Latencies count from when a request is let in, as with a
    load generator that does not send it before.

    Args:
        trace, identities, max_tokens_default: as for `Inbox`.
        concurrency: places, from 1.

    Raises:
        UserError: if there is no place.
    """

    def __init__(
        self,
        trace: Trace,
        identities: PromptIdentities | None,
        max_tokens_default: int | None = None,
        *,
        concurrency: int,
    ) -> None:
        if concurrency < 1:
            raise UserError(f"load.closed: {concurrency} requests at a time; accepted: from 1")
        self._free_since_ns = deque([0] * min(concurrency, len(trace)))
        """Since when each free place is free, in order."""
        super().__init__(trace, identities, max_tokens_default)

    def drain(self, now_ns: int) -> Iterator[Request]:
        """All requests let in until `now_ns` that were not handed out before."""
        while self.next_ns <= now_ns:
            row = self._next
            self._arrival_ns[row] = self.next_ns
            self._free_since_ns.popleft()
            self._next += 1
            self.next_ns = self._stamp(self._next)
            yield self._make(row)

    def left(self, requests: int, now_ns: int) -> None:
        """Note that so many requests left the system at `now_ns`, so that as many can come."""
        self._free_since_ns.extend([now_ns] * requests)
        self.next_ns = self._stamp(self._next)

    def _stamp(self, row: int) -> int:
        if not self._free_since_ns or row >= len(self._arrival_ns):
            return FOREVER_NS
        return max(super()._stamp(row), self._free_since_ns[0])


def inbox_of(
    trace: Trace,
    identities: PromptIdentities | None,
    max_tokens_default: int | None,
    concurrency: int | None,
) -> Inbox:
    """The inbox of a closed loop, or without a concurrency that of an open load."""
    if concurrency is None:
        return Inbox(trace, identities, max_tokens_default)
    return ClosedInbox(trace, identities, max_tokens_default, concurrency=concurrency)

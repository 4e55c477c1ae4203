"""Arrivals: a trace, handed out request by request as its time comes."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Protocol

from pagecast.engine.core.request import Request
from pagecast.traces.schema import NOT_GIVEN, Trace

FOREVER_NS = 1 << 62
"""Later than anything."""


class PromptIdentities(Protocol):
    """Names the contents of prompt blocks."""

    def prompt_blocks(self, request_id: int, prompt_tokens: int) -> list[int]:
        """Identities of the full blocks of a prompt."""


class Inbox:
    """Requests of a trace that have not been seen yet; ids are rows of the trace.

    Args:
        trace: what was asked.
        identities: contents of prompt blocks, or None where nothing is cached by content.
        max_tokens_default: longest answer of a request for which the trace names none.
    """

    def __init__(
        self,
        trace: Trace,
        identities: PromptIdentities | None,
        max_tokens_default: int | None = None,
    ) -> None:
        self._arrival_ns = array("q", trace.arrival_ns.tobytes())
        self._prompt_tokens = array("q", trace.prompt_tokens.tobytes())
        self._trace = trace
        self._identities = identities
        self._max_tokens_default = max_tokens_default
        self._next = 0
        self.next_ns = self._stamp(0)
        """When the next request arrives; FOREVER_NS after the last."""

    def drain(self, now_ns: int) -> Iterator[Request]:
        """All requests whose stamp is at most `now_ns` and that were not handed out before."""
        while self.next_ns <= now_ns:
            row = self._next
            self._next += 1
            self.next_ns = self._stamp(self._next)
            yield self._make(row)

    def _stamp(self, row: int) -> int:
        return self._arrival_ns[row] if row < len(self._arrival_ns) else FOREVER_NS

    def _max_tokens(self, row: int) -> int | None:
        """The limit that the trace names, if it names one for this request."""
        given = NOT_GIVEN if self._trace.max_tokens is None else int(self._trace.max_tokens[row])
        return self._max_tokens_default if given == NOT_GIVEN else given

    def _make(self, row: int) -> Request:
        trace, prompt_tokens = self._trace, self._prompt_tokens[row]
        return Request(
            row,
            prompt_tokens,
            arrival_ns=self._arrival_ns[row],
            max_tokens=self._max_tokens(row),
            predicted_tokens=None
            if trace.predicted_tokens is None
            else int(trace.predicted_tokens[row]),
            priority=0 if trace.priority is None else int(trace.priority[row]),
            identities=self._identities.prompt_blocks(row, prompt_tokens)
            if self._identities
            else None,
        )

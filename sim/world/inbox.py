"""Arrivals: a trace, handed out request by request as its time comes."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from pagecast.engine.core.request import Request
from pagecast.traces.schema import NOT_GIVEN, Ints, Trace

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
        self._given = [
            (name, array("q", column.tobytes()))
            for name in ("max_tokens", "predicted_tokens", "priority")
            if (column := getattr(trace, name)) is not None
        ]
        """What the trace says of requests, where it says it."""
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

    def left(self, requests: int, now_ns: int) -> None:
        """Note that so many requests left the system at `now_ns`; an open load does not care."""

    def arrival_ns(self) -> Ints:
        """When each request arrives, by row."""
        return np.array(self._arrival_ns, dtype=np.int64)

    def _stamp(self, row: int) -> int:
        return self._arrival_ns[row] if row < len(self._arrival_ns) else FOREVER_NS

    def _make(self, row: int) -> Request:
        prompt_tokens = self._prompt_tokens[row]
        request = Request(row, prompt_tokens, arrival_ns=self._arrival_ns[row])
        request.max_tokens = self._max_tokens_default
        for name, column in self._given:
            if column[row] != NOT_GIVEN:
                setattr(request, name, column[row])
        if self._identities:
            request.identities = self._identities.prompt_blocks(row, prompt_tokens)
        return request

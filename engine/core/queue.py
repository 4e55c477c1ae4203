"""The waiting queue: who is tried next. One class for each way of ordering."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Protocol

from pagecast.engine.core.request import Request

LONG_QUEUE = 128
"""Queues longer than this are not ordered by cached prefix, which costs a look-up for each request
(SGLang does the same)."""


class Queue(Protocol):
    """What the scheduler asks of a queue."""

    def __len__(self) -> int:
        """How many wait."""

    def head(self) -> Request:
        """Who is tried next; the queue must not be empty."""

    def take(self) -> Request:
        """Take the head out; the queue must not be empty."""

    def push(self, request: Request) -> None:
        """Join where the order says."""

    def push_front(self, request: Request) -> None:
        """Go back to the head, before all others."""

    def remove(self, request: Request) -> None:
        """Leave, from wherever; the request must be in the queue."""

    def arrange(self, hits: Callable[[Request], int]) -> None:
        """Put in order what may have changed since the last step, given the blocks cached."""


class WaitingQueue(deque[Request]):
    """First come, first served."""

    def head(self) -> Request:
        """Who is tried next; the queue must not be empty."""
        return self[0]

    def take(self) -> Request:
        """Take the head out; the queue must not be empty."""
        return self.popleft()

    def push(self, request: Request) -> None:
        """Join at the end."""
        self.append(request)

    def push_front(self, request: Request) -> None:
        """Go back to the head, before all others."""
        self.appendleft(request)

    def arrange(self, hits: Callable[[Request], int]) -> None:
        """Nothing changes the order."""


class PrefixQueue(WaitingQueue):
    """Longest cached prefix first, in blocks; among equals, and in long queues, first come first."""

    def arrange(self, hits: Callable[[Request], int]) -> None:
        """Look up all that wait, unless they are many."""
        if 1 < len(self) <= LONG_QUEUE:
            ordered = sorted(self, key=lambda request: -hits(request))
            self.clear()
            self.extend(ordered)


class SortedQueue:
    """Smallest key first; among equals the one that arrived first.

    Who goes back to the head stands before all keys.

    Args:
        key: of a request, fixed while it waits.
    """

    def __init__(self, key: Callable[[Request], int]) -> None:
        self._key = key
        self._front: deque[Request] = deque()
        self._heap: list[tuple[int, int, Request]] = []

    def __len__(self) -> int:
        return len(self._front) + len(self._heap)

    def __iter__(self) -> Iterator[Request]:
        yield from self._front
        yield from (request for _, _, request in sorted(self._heap))

    def head(self) -> Request:
        """Who is tried next; the queue must not be empty."""
        return self._front[0] if self._front else self._heap[0][2]

    def take(self) -> Request:
        """Take the head out; the queue must not be empty."""
        return self._front.popleft() if self._front else heappop(self._heap)[2]

    def push(self, request: Request) -> None:
        """Join by key."""
        heappush(self._heap, (self._key(request), request.order, request))

    def push_front(self, request: Request) -> None:
        """Go back to the head, before all others."""
        self._front.appendleft(request)

    def remove(self, request: Request) -> None:
        """Leave, from wherever; the request must be in the queue."""
        if request in self._front:
            self._front.remove(request)
            return
        self._heap = [entry for entry in self._heap if entry[2] is not request]
        heapify(self._heap)

    def arrange(self, hits: Callable[[Request], int]) -> None:
        """Nothing changes the order."""


def urgency(request: Request) -> int:
    """Smaller is more urgent, as in vLLM."""
    return request.priority


def answer_tokens(request: Request) -> int:
    """Length of the answer as far as it is predicted, else of the prompt."""
    if request.predicted_tokens is None:
        return request.prompt_tokens
    return request.predicted_tokens


def remaining_tokens(request: Request) -> int:
    """What is left of the predicted answer, else the tokens that are to be computed."""
    if request.predicted_tokens is None:
        return request.known
    return request.predicted_tokens - (request.known - request.prompt_tokens)


QUEUE_ORDER: dict[str, Callable[[], Queue]] = {
    "fcfs": WaitingQueue,
    "sjf": lambda: SortedQueue(answer_tokens),
    "srpt": lambda: SortedQueue(remaining_tokens),
    "priority": lambda: SortedQueue(urgency),
    "lpm": PrefixQueue,
}
"""Who is admitted first of those that wait."""

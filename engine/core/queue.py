"""The waiting queue: first come, first served, with a way back to the head."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from pagecast.engine.core.request import Request


class WaitingQueue:
    """Requests that wait to be admitted, in the order in which they will be tried."""

    def __init__(self) -> None:
        self._line: deque[Request] = deque()

    def __len__(self) -> int:
        return len(self._line)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._line)

    def head(self) -> Request:
        """Who is tried next; the queue must not be empty."""
        return self._line[0]

    def pop(self) -> Request:
        """Take the head out; the queue must not be empty."""
        return self._line.popleft()

    def push(self, request: Request) -> None:
        """Join at the end."""
        self._line.append(request)

    def push_front(self, request: Request) -> None:
        """Go back to the head, before all others."""
        self._line.appendleft(request)

    def remove(self, request: Request) -> None:
        """Leave from anywhere in the queue."""
        self._line.remove(request)

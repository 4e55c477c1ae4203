"""The waiting queue: first come, first served, with a way back to the head."""

from __future__ import annotations

from collections import deque

from pagecast.engine.core.request import Request


class WaitingQueue(deque[Request]):
    """Requests that wait to be admitted, in the order in which they will be tried."""

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

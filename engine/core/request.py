"""A request as the scheduler knows it.

The scheduler never learns how long the answer will be: it sees the prompt, what the caller said
about the answer (`max_tokens`, `predicted_tokens`) and the tokens made so far.
"""

from __future__ import annotations

from enum import IntEnum


class State(IntEnum):
    """Where a request stands. A preempted request waits again."""

    WAITING = 0
    PARTIAL = 1
    """Running, with more than the next token still to compute (or set apart for one step)."""
    DECODING = 2
    """Running in lockstep with the decode cohort."""
    DONE = 3
    SWAPPED = 4
    """Out of the KV pool, its blocks in host memory."""


class Request:
    """One request and its progress; lengths in tokens.

    `known` tokens exist (prompt and answer so far), `computed` of them are in the KV cache. While
    the request decodes in lockstep both follow from `base` and the decode clock, and the fields
    are stale: ask `Cohort.computed`. `identities` name the full blocks of the known tokens by
    content, for the prefix cache.
    """

    __slots__ = (
        "arrival_ns",
        "base",
        "blocks",
        "cached_tokens",
        "computed",
        "held",
        "high",
        "hits",
        "host_blocks",
        "id",
        "identities",
        "known",
        "left_clock",
        "left_with",
        "max_tokens",
        "order",
        "phase",
        "predicted_tokens",
        "preempted_again",
        "preemptions",
        "priority",
        "prompt_tokens",
        "published",
        "recomputed_tokens",
        "seq",
        "stamp",
        "state",
        "swaps",
    )  # fmt: skip

    def __init__(
        self,
        id: int,
        prompt_tokens: int,
        *,
        arrival_ns: int = 0,
        max_tokens: int | None = None,
        predicted_tokens: int | None = None,
        priority: int = 0,
        identities: list[int] | None = None,
    ) -> None:
        self.id = id
        self.prompt_tokens = prompt_tokens
        self.arrival_ns = arrival_ns
        self.max_tokens = max_tokens
        self.predicted_tokens = predicted_tokens
        self.priority = priority
        self.identities = identities if identities is not None else []
        self.known = prompt_tokens
        self.computed = 0
        self.high = 0
        """Most tokens ever computed: what lies below it and is computed again was lost."""
        self.state = State.WAITING
        self.order = -1
        """Place in the order of arrival, given by the scheduler."""
        self.seq = -1
        """Place in the order of admission: the running batch is served in this order."""
        self.base = 0
        self.phase = -1
        self.stamp = -1
        self.left_clock = -1
        """What the decode clock showed when the request last left the cohort."""
        self.hits = 0
        """Blocks found cached when the request was last admitted."""
        self.held = 0
        self.blocks: list[int] = []
        self.published = 0
        self.preemptions = 0
        self.swaps = 0
        self.host_blocks: list[int] = []
        self.left_with = -1
        """How many requests had left for good when this one was preempted last."""
        self.preempted_again = False
        """Whether nobody had left since its preemption before that: thrash."""
        self.cached_tokens = 0
        self.recomputed_tokens = 0

    def __repr__(self) -> str:
        return f"Request({self.id}, {self.prompt_tokens} prompt, {self.state.name.lower()})"

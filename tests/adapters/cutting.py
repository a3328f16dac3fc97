"""Streams that come in parts, or break off: what holds then whichever engine sends them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from adapters.answer import Outcome
from adapters.plan import Plan
from tests.adapters.cases import client_bytes, streamed


def assert_reads_the_same_however_it_is_cut(plan: Plan, body: bytes, points: Iterable[int]) -> None:
    """Byte by byte, and in two parts at each of the points."""
    pieces, whole = streamed(plan, body)
    client = client_bytes(pieces, whole)
    for cuts in [tuple(range(1, len(body))), *((point,) for point in points)]:
        pieces, outcome = streamed(plan, body, *cuts)
        assert (outcome.completion, outcome.verdict) == (whole.completion, whole.verdict)
        assert outcome.finished == whole.finished
        assert client_bytes(pieces, outcome) == client


def broken_off(plan: Plan, body: bytes, points: Iterable[int]) -> Iterator[tuple[Outcome, Outcome]]:
    """What is read where the stream breaks off at each of the points, which is a part of what is read of the whole."""
    _, whole = streamed(plan, body)
    full = {choice.index: choice for choice in whole.completion.choices}
    for end in points:
        _, outcome = streamed(plan, body[:end], cut=True)
        for choice in outcome.completion.choices:
            if choice.token_ids is not None:
                sampled = full[choice.index].token_ids
                assert sampled is not None
                assert sampled.startswith(choice.token_ids)
            assert (full[choice.index].text or "").startswith(choice.text or "")
        yield outcome, whole

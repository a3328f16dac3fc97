from __future__ import annotations

import json
import random

from storage.bases import MAX_DEPTH, Base, Bases
from storage.codec import Payload


def words(count: int, seed: int) -> str:
    rng = random.Random(seed)
    return " ".join(str(rng.getrandbits(24)) for _ in range(count))


def body(*messages: str) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": message} for message in messages]}).encode()


def base(trace_id: str, text: bytes, depth: int = 0) -> Base:
    return Base(trace_id, depth, text, b"")


def picked(text: bytes, *known: Base, parent: str | None = None) -> str | None:
    found = Bases(known).pick(Payload(text), parent)
    return None if found is None else found.trace_id


SYSTEM, TASK, MORE, OTHER = (words(800, seed) for seed in range(4))


def test_a_growing_conversation_stands_on_its_last_turn() -> None:
    first, second = base("first", body(SYSTEM, TASK)), base("second", body(SYSTEM, TASK, MORE))
    assert picked(body(SYSTEM, TASK, MORE, OTHER), first, second) == "second"


def test_interleaved_agents_stand_on_their_own_turns() -> None:
    one, other = base("one", body(TASK, MORE)), base("other", body(OTHER, SYSTEM))
    assert picked(body(TASK, MORE, SYSTEM), one, other) == "one"
    assert picked(body(OTHER, SYSTEM, TASK), one, other) == "other"


def test_the_parent_comes_before_others_as_like() -> None:
    known = [base(name, body(SYSTEM, TASK)) for name in ("first", "second", "third")]
    assert picked(body(SYSTEM, TASK, MORE), *known, parent="first") == "first"


def test_a_system_prompt_that_changes_in_each_call_does_not_hide_the_rest() -> None:
    like, unlike = base("like", body("monday " + SYSTEM, TASK)), base("unlike", body(OTHER))
    assert picked(body("tuesday " + SYSTEM, TASK, MORE), like, unlike) == "like"


def test_a_history_rendered_anew_is_still_like_itself() -> None:
    as_parts = json.dumps({"input": [{"type": "text", "text": part} for part in (SYSTEM, TASK)]}, indent=1).encode()
    assert picked(as_parts, base("unlike", body(OTHER)), base("like", body(SYSTEM, TASK))) == "like"


def test_nothing_alike_is_no_base() -> None:
    assert picked(body(SYSTEM), base("unlike", body(OTHER))) is None
    assert picked(body(SYSTEM)) is None


def test_a_keyframe_stands_behind_so_many_links() -> None:
    assert picked(body(SYSTEM, TASK), base("last", body(SYSTEM), depth=MAX_DEPTH - 1)) == "last"
    assert picked(body(SYSTEM, TASK), base("last", body(SYSTEM), depth=MAX_DEPTH)) is None


def test_a_turn_takes_the_place_of_the_one_that_it_extends() -> None:
    bases = Bases()
    text = body(SYSTEM)
    previous = None
    for turn in range(50):
        text = body(SYSTEM, *(words(20, seed) for seed in range(turn)))
        now = base(str(turn), text)
        bases.add(now, extended=previous)
        previous = now
    assert len(bases) == len(text)


def test_the_candidates_are_bounded() -> None:
    bases = Bases()
    for number in range(100):
        bases.add(base(str(number), words(100, seed=number).encode()), extended=None)
    assert len(bases) < 10_000


def test_bodies_that_begin_otherwise_are_alike_by_their_ids() -> None:
    ids = bytes(range(200))
    known = [Base("unlike", 0, body(SYSTEM), ids[::-1]), Base("like", 0, body(TASK), ids)]
    found = Bases(known).pick(Payload(body(MORE), ids + b"more"), None)
    assert found is known[1]

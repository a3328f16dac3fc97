from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.schema import Trace
from adapters.token_ids import TokenIds
from storage.samples.chosen import Chosen, choose
from storage.samples.forest import Forest, forest_of
from storage.samples.node import Node
from storage.samples.options import SampleOptions
from tests.storage.samples.examples import SESSION, turn
from tests.storage.samples.sessions import sessions


def chosen(traces: list[Trace]) -> Chosen:
    return choose(SESSION, traces, SampleOptions())


def forest(*traces: Trace) -> Forest:
    return forest_of(chosen(list(traces)).nodes)


def names(forest: Forest) -> list[str]:
    return [" ".join(f"{node.trace_id}.{node.choice.index}" for node in path) for path in forest.paths()]


def test_paths_part_in_the_order_of_the_calls() -> None:
    assert names(
        forest(
            turn(0, [1], [2], [3]),
            turn(1, [1, 2, 4], [5]),
            turn(2, [1, 3, 4], [5]),
            turn(3, [1, 2, 6], [7]),
            turn(4, [9], [9]),
            turn(5, [1, 2, 4, 5, 6], [7]),
        )
    ) == ["t0.0 t1.0 t5.0", "t0.0 t3.0", "t0.1 t2.0", "t4.0"]


def test_the_longest_end_is_the_parent_whatever_its_prompt() -> None:
    long_answer, short_answer = turn(0, [1], [2, 3, 4]), turn(1, [1, 2], [3])
    assert names(forest(long_answer, short_answer, turn(2, [1, 2, 3, 4, 5], [6]))) == ["t0.0 t2.0", "t1.0"]


def test_a_parent_may_have_been_called_later() -> None:
    """Turns order for people; a call that another gateway's spool kept gets its turn at the drain."""
    assert names(forest(turn(0, [1, 2, 3], [4]), turn(1, [1], [2]))) == ["t1.0 t0.0"]


def ends_before(node: Node, nodes: tuple[Node, ...], lost: list[TokenIds]) -> int | None:
    """By comparing with all."""
    ends = [(other.prompt + other.token_ids, place) for place, other in enumerate(nodes)]
    longest = max((len(end) for end, _ in ends if node.prompt.startswith(end)), default=None)
    longest_lost = max((len(end) for end in lost if node.prompt.startswith(end)), default=-1)
    if longest is None or longest < longest_lost:
        return None
    equal = [place for end, place in ends if len(end) == longest and node.prompt.startswith(end)]
    earlier = [place for place in equal if place < nodes.index(node)]
    return earlier[-1] if earlier else equal[0]


@settings(deadline=None, max_examples=150)
@given(sessions())
def test_parents_are_those_that_comparing_all_would_find(traces: list[Trace]) -> None:
    nodes = chosen(traces).nodes
    assert forest_of(nodes).parents == tuple(ends_before(node, nodes, []) for node in nodes)


@settings(deadline=None, max_examples=150)
@given(sessions(), st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), max_size=3))
def test_what_goes_on_from_a_lost_end_is_a_root(traces: list[Trace], lost: list[list[int]]) -> None:
    nodes = chosen(traces).nodes
    ends = [turn(100 + number, ids[:-1], ids[-1:], fidelity="partial") for number, ids in enumerate(lost)]
    expected = tuple(ends_before(node, nodes, [TokenIds(ids) for ids in lost]) for node in nodes)
    assert forest_of(nodes, ends).parents == expected

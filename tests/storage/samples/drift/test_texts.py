"""When two texts are the same but for what templates and harnesses change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.samples.drift import texts


@pytest.mark.parametrize(
    ("text", "rest", "thought"),
    [
        ("Hello.", "Hello.", ""),
        ("<think>\nHm.\n</think>\n\nHello.", "\n\nHello.", "\nHm.\n"),
        ("Hm.\n</think>\n\nHello.", "\n\nHello.", "Hm.\n"),
        ("[THINK]Hm.[/THINK]Hello.", "Hello.", "Hm."),
        ("<think>One.</think>Hello.<think>Two.</think>", "Hello.", "One.\nTwo."),
        ("<think>never closed", "<think>never closed", ""),
        ("<|channel|>analysis<|message|>Hm.<|end|>Hello.", "Hello.", "Hm."),
    ],
)
def test_a_thought_between_marks_is_no_part_of_the_text(text: str, rest: str, thought: str) -> None:
    assert texts.without_thought(text) == (rest, thought)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1}', '{"a":1}'),
        ("{'a': False}", '{"a": false}'),
        ('{"a": null}', "{'a': None}"),
        ('{"a": "\\u00e9"}', '{"a": "é"}'),
    ],
)
def test_spellings_of_one_value_are_the_same(one: str, other: str) -> None:
    assert texts.same_but_spelling(one, other)


def test_other_values_and_names_that_only_look_like_python_are_not_the_same() -> None:
    assert not texts.same_but_spelling('{"a": 1}', '{"a": 2}')
    assert not texts.same_but_spelling('{"a": "Trueish"}', '{"a": "trueish"}')
    assert not texts.same_json('{"a": 1}', "{'a': 1}")


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [('{"a": 1}', True), ('{"a":1}', False), ('{"a": "é"}', True), ('{"a": "\\u00e9"}', True), ("{half", True)],
)
def test_arguments_as_templates_print_them_are_known(arguments: str, printed: bool) -> None:
    assert texts.as_printed(arguments) is printed


@pytest.mark.parametrize(
    ("part", "cut"),
    [
        ("line one, line two", True),
        ("line one, line t [...] line six", True),
        ("line two, line three, line four, line five, line six", False),  # Eight characters less.
        ("line one, line 2, line three, line four, line five, line six", False),
        ("something else", False),
        ("", False),
    ],
)
def test_a_text_with_a_piece_cut_out_is_known_from_an_edit(part: str, cut: bool) -> None:
    assert texts.cut_from("line one, line two, line three, line four, line five, line six", part) is cut


@given(st.text(max_size=40), st.text(max_size=40))
def test_what_two_texts_begin_with_alike_is_counted(one: str, other: str) -> None:
    alike = texts.common_prefix(one, other)
    assert one[:alike] == other[:alike]
    assert one[alike : alike + 1] != other[alike : alike + 1] or alike == min(len(one), len(other))


def test_both_texts_are_shown_from_a_little_before_they_differ() -> None:
    one, other = texts.around("a" * 100 + "b" * 300, "a" * 100 + "c")
    assert one == "…" + "a" * 40 + "b" * 160 + "…"
    assert other == "…" + "a" * 40 + "c"

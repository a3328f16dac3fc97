"""Ids made from text are marked so, and counts are made only where everything can be counted."""

from __future__ import annotations

from dataclasses import replace

from adapters.request import CanonicalRequest
from adapters.retokenize import retokenize, with_usage
from adapters.schema import Choice, Completion, Usage
from adapters.token_ids import TokenIds
from tests.adapters.cases import canonical


class Characters:
    """A tokenizer of one token a character."""

    def prompt(self, request: CanonicalRequest, index: int) -> TokenIds:
        return TokenIds([index] * 3)

    def reply(self, request: CanonicalRequest, choice: Choice) -> TokenIds:
        return TokenIds(map(ord, choice.text or ""))


TEXT = Completion(choices=(Choice(0, text="ab"), Choice(1, text="c")), logprobs_mode="raw")
CHAT = canonical({"messages": []})


def test_text_becomes_ids_that_say_where_they_are_from() -> None:
    made = retokenize(TEXT, CHAT, Characters())
    assert [choice.token_ids for choice in made.choices] == [TokenIds([97, 98]), TokenIds([99])]
    assert made.prompt_token_ids == TokenIds([0, 0, 0])
    assert made.source == "tokenizer"
    assert made.logprobs_mode is None
    assert made.logprobs_reason == "the token ids were made from text"


def test_an_engines_own_ids_are_never_mixed_with_made_ones() -> None:
    told = replace(TEXT, choices=(Choice(0, token_ids=TokenIds([1])), Choice(1, text="c")))
    assert retokenize(told, CHAT, Characters()) is told


def test_prompts_sent_together_are_made_each_for_itself() -> None:
    request = canonical({"prompt": ["a", "b"]}, "completions")
    made = retokenize(TEXT, request, Characters())
    assert [choice.prompt_token_ids for choice in made.choices] == [TokenIds([0, 0, 0]), TokenIds([1, 1, 1])]
    assert made.prompt_token_ids is None


def test_usage_is_counted_from_ids_where_the_engine_counted_nothing() -> None:
    told = Completion(choices=(Choice(0, token_ids=TokenIds([1, 2])),), prompt_token_ids=TokenIds([1]))
    counted = with_usage(told, CHAT)
    assert counted.usage == Usage(1, 2, 3)
    assert counted.usage_estimated


def test_made_ids_count_for_usage_where_the_server_counted_nothing() -> None:
    assert retokenize(TEXT, CHAT, Characters()).usage == Usage(3, 3, 6)
    counted = retokenize(replace(TEXT, usage=Usage(7, 8)), CHAT, Characters())
    assert (counted.usage, counted.usage_estimated) == (Usage(7, 8), False)


def test_an_engines_own_count_stands() -> None:
    told = replace(TEXT, usage=Usage(9, None))
    assert with_usage(told, CHAT) is told


def test_what_cannot_be_counted_is_not_made_up() -> None:
    assert with_usage(TEXT, CHAT).usage is None
    half = Completion(choices=(Choice(0, token_ids=TokenIds([1])), Choice(1, text="x")), prompt_token_ids=TokenIds([1]))
    assert with_usage(half, CHAT).usage is None


def test_the_prompts_of_a_batch_are_counted_once_each() -> None:
    request = canonical({"prompt": ["a", "b"], "n": 2}, "completions")
    first, second = TokenIds([1]), TokenIds([2, 3])
    told = Completion(
        choices=tuple(
            Choice(index, token_ids=TokenIds([5]), prompt_token_ids=first if index < 2 else second)
            for index in range(4)
        )
    )
    assert with_usage(told, request).usage == Usage(3, 4, 7)
    sent = canonical({"prompt": [[1], [2, 3]]}, "completions")
    bare = Completion(choices=tuple(Choice(index, token_ids=TokenIds([5])) for index in range(2)))
    assert with_usage(bare, sent).usage == Usage(3, 2, 5)

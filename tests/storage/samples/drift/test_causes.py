"""Each cause of drift, with and without a tokenizer: what an agent sent otherwise, what a template wrote otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapters.schema import Trace
from adapters.scripts.speech import Called, Speech, cut, say
from adapters.scripts.vocabulary import THINK, THINK_END, encode
from adapters.token_ids import TokenIds
from tests.storage.samples.drift.conversations import (
    Message,
    chat,
    choice,
    completion,
    drift,
    only_break,
    sent_back,
    system,
    tool,
    user,
    words,
)

ASKED = user("What is the weather in Paris?")
RULES = system("You are a helpful agent.")
HELLO = say("Hello there, friend of mine.")
LOOK = say("Let me check.", reasoning="I should call the tool.", calls=[Called("look", '{"city": "Paris"}')])
COMPACT = say(calls=[Called("look", '{"city":"Paris","now":true}')])
KNOWN_OR_NOT = pytest.mark.parametrize("tokenizer", [False, True], ids=["without a tokenizer", "with a tokenizer"])


def arguments(spelled: str) -> list[dict[str, Any]]:
    return [{"id": "call_0", "type": "function", "function": {"name": "look", "arguments": spelled}}]


def after(speech: Speech, sent: Message, *more: Message, rendered: Message | None = None) -> tuple[Trace, Trace]:
    """A call that was answered so, and the next one, whose history has `sent` as that answer."""
    rest = more or (user("Go on."),)
    written = [ASKED, rendered, *rest] if rendered is not None else None
    return chat(0, [ASKED], speech), chat(1, [ASKED, sent, *rest], rendered=written)


@KNOWN_OR_NOT
def test_a_thought_that_the_agent_leaves_out(tokenizer: bool) -> None:
    broken = only_break(*after(LOOK, sent_back(LOOK, reasoning_content=None), tool("21")), tokenizer=tokenizer)
    assert (broken.cause, broken.region) == ("stripped_reasoning", "boundary")
    assert broken.detail == "the reasoning of call 0 was left out of the history"
    assert broken.position == len(chat(0, [ASKED]).prompt_token_ids or ())
    assert (broken.earlier.differing, broken.later.differing) == (len(encode("I should call the tool.")) + 2, 0)
    assert "I should call the tool." in (broken.earlier.text or "")
    assert "I should call the tool." not in (broken.later.text or "")
    assert "Let me check." in (broken.later.text or "")


@KNOWN_OR_NOT
def test_a_thought_that_the_template_leaves_out(tokenizer: bool) -> None:
    without = sent_back(LOOK, reasoning_content=None)
    broken = only_break(*after(LOOK, sent_back(LOOK), tool("21"), rendered=without), tokenizer=tokenizer)
    assert broken.cause == "stripped_reasoning"
    assert broken.detail == "the reasoning of call 0 was sent back, and the template leaves it out"


@KNOWN_OR_NOT
def test_a_thought_of_an_earlier_turn_that_the_template_leaves_out_once_the_user_speaks_again(tokenizer: bool) -> None:
    answer = say("It is 21.")
    in_loop = [ASKED, sent_back(LOOK), tool("21")]
    then = [sent_back(answer), user("Thanks.")]
    traces = (
        chat(0, [ASKED], LOOK),
        chat(1, in_loop, answer),
        chat(2, [*in_loop, *then], rendered=[ASKED, sent_back(LOOK, reasoning_content=None), tool("21"), *then]),
    )
    assert words(*traces) == ["starts", "extends", "breaks"]
    broken = only_break(*traces, tokenizer=tokenizer)
    assert (broken.cause, broken.region, broken.earlier_turn) == ("stripped_reasoning", "prompt", 1)


def test_a_thought_that_stands_in_the_text_between_marks() -> None:
    speech = say("<think>Hm, a greeting.</think>Hello there.")
    broken = only_break(*after(speech, sent_back(say("Hello there."))))
    assert broken.cause == "stripped_reasoning"


@KNOWN_OR_NOT
def test_an_empty_thought_that_the_template_put_before_the_answer(tokenizer: bool) -> None:
    """As Qwen3's does with `enable_thinking: false`, and writes it into no history."""
    first, later = after(HELLO, sent_back(HELLO))
    empty = TokenIds([THINK, *encode("\n\n"), THINK_END, *encode("\n\n")])
    put = replace(first, prompt_token_ids=(first.prompt_token_ids or TokenIds()) + empty)
    broken = only_break(put, later, tokenizer=tokenizer)
    assert (broken.cause, broken.region) == ("stripped_reasoning", "prompt")
    assert "empty thought" in broken.detail


@KNOWN_OR_NOT
def test_arguments_that_the_agent_parses_and_writes_again(tokenizer: bool) -> None:
    sent = sent_back(COMPACT, tool_calls=arguments('{"city": "Paris", "now": true}'))
    broken = only_break(*after(COMPACT, sent, tool("21")), tokenizer=tokenizer)
    assert (broken.cause, broken.region) == ("reserialised_tool_arguments", "sampled")
    assert broken.detail == "the arguments of look in call 0 were written anew, spelled otherwise"
    assert '{"city":"Paris"' in (broken.earlier.text or "")
    assert '{"city": "Paris"' in (broken.later.text or "")


@KNOWN_OR_NOT
def test_arguments_that_the_template_writes_again(tokenizer: bool) -> None:
    written = sent_back(COMPACT, tool_calls=arguments('{"city": "Paris", "now": true}'))
    broken = only_break(*after(COMPACT, sent_back(COMPACT), tool("21"), rendered=written), tokenizer=tokenizer)
    assert broken.cause == "reserialised_tool_arguments"
    assert "the template" in broken.detail


@KNOWN_OR_NOT
def test_white_space_before_a_tool_call_is_none_of_its_arguments(tokenizer: bool) -> None:
    """As Dynamo's parser leaves it in the text, and a template then writes it twice."""
    look = say("Look.\n", calls=[Called("look", '{"city": "Paris"}')])
    twice = sent_back(look, content="Look.\n\n")
    broken = only_break(*after(look, sent_back(look), tool("21"), rendered=twice), tokenizer=tokenizer)
    assert broken.cause == "whitespace"


def test_arguments_as_python_prints_them() -> None:
    sent = sent_back(COMPACT, tool_calls=arguments("{'city': 'Paris', 'now': True}"))
    assert only_break(*after(COMPACT, sent, tool("21"))).cause == "reserialised_tool_arguments"


def test_arguments_that_mean_something_else_are_an_edit() -> None:
    sent = sent_back(COMPACT, tool_calls=arguments('{"city":"London","now":true}'))
    assert only_break(*after(COMPACT, sent, tool("21"))).cause == "message_edited"


@KNOWN_OR_NOT
def test_white_space_that_the_agent_trims(tokenizer: bool) -> None:
    speech = say("Hello there. ")
    broken = only_break(*after(speech, sent_back(speech, content="Hello there.")), tokenizer=tokenizer)
    assert (broken.cause, broken.region) == ("whitespace", "sampled")


@KNOWN_OR_NOT
def test_white_space_that_the_template_trims(tokenizer: bool) -> None:
    speech = say("Hello there.\n\n")
    trimmed = sent_back(speech, content="Hello there.")
    assert only_break(*after(speech, sent_back(speech), rendered=trimmed), tokenizer=tokenizer).cause == "whitespace"


@KNOWN_OR_NOT
def test_the_same_text_in_other_tokens(tokenizer: bool) -> None:
    first = chat(0, [ASKED], say("Hello there."))
    apart = (*b"Hello", *encode(" there."), *say("").ids)
    sampled = replace(choice(say("Hello there.")), token_ids=TokenIds(apart))
    traces = replace(first, choices=(sampled,)), chat(1, [ASKED, sent_back(say("Hello there.")), user("Go on.")])
    broken = only_break(*traces, tokenizer=tokenizer)
    assert broken.cause == "retokenized"
    assert broken.region == "boundary"


@KNOWN_OR_NOT
def test_a_system_prompt_that_tells_the_time(tokenizer: bool) -> None:
    early, late = system("It is 10:01. Be brief."), system("It is 10:02. Be brief.")
    traces = chat(0, [early, ASKED], HELLO), chat(1, [late, ASKED, sent_back(HELLO), user("Go on.")])
    broken = only_break(*traces, tokenizer=tokenizer)
    assert (broken.cause, broken.region) == ("system_prompt_changed", "prompt")
    assert broken.detail == "the system prompt changed after 10 characters"
    assert "10:01" in (broken.earlier.text or "")
    assert "10:02" in (broken.later.text or "")


def test_a_date_that_the_template_writes() -> None:
    """With a tokenizer alone: the messages do not tell of it."""
    later = [ASKED, sent_back(HELLO), user("Go on.")]
    traces = (
        chat(0, [ASKED], HELLO, rendered=[system("Today is the 20th."), ASKED]),
        chat(1, later, rendered=[system("Today is the 21st."), *later]),
    )
    broken = only_break(*traces, tokenizer=True)
    assert (broken.cause, broken.region) == ("system_prompt_changed", "prompt")
    assert "before the first question" in broken.detail
    assert only_break(*traces).cause == "unknown"


def test_tools_that_are_other_ones() -> None:
    look, see = ({"tools": [{"type": "function", "function": {"name": name}}]} for name in ("look", "see"))
    first = chat(0, [ASKED], HELLO, body=look)
    # The ids of the system prompt follow the tools, as they do in every template.
    later = chat(1, [ASKED, sent_back(HELLO), user("Go on.")], body=see)
    ids = (later.prompt_token_ids or TokenIds()).tolist()
    broken = only_break(first, replace(later, prompt_token_ids=TokenIds([*ids[:3], 7, *ids[3:]])))
    assert broken.cause == "system_prompt_changed"
    assert broken.detail == "`tools` changed, which the system prompt is rendered with"


def test_a_message_that_was_changed() -> None:
    other = user("What was the weather in Paris?")
    broken = only_break(chat(0, [RULES, ASKED], HELLO), chat(1, [RULES, other, sent_back(HELLO), user("Go on.")]))
    assert (broken.cause, broken.detail) == ("message_edited", "the text of message 1 was changed")


def test_a_tool_result_that_was_cleared_later() -> None:
    before = [ASKED, sent_back(LOOK), tool("Sunny, 21 degrees.")]
    cleared = [ASKED, sent_back(LOOK), tool("[old result cleared]"), sent_back(HELLO), user("Go on.")]
    traces = chat(0, [ASKED], LOOK), chat(1, before, HELLO), chat(2, cleared)
    assert words(*traces) == ["starts", "extends", "breaks"]
    broken = only_break(*traces)
    assert (broken.cause, broken.detail, broken.earlier_turn) == (
        "message_edited",
        "the text of message 2 was changed",
        1,
    )


def test_an_answer_that_was_changed() -> None:
    broken = only_break(*after(HELLO, sent_back(HELLO, content="Hello there, foe.")))
    assert (broken.cause, broken.region) == ("message_edited", "sampled")


def test_a_message_that_was_put_in() -> None:
    traces = (
        chat(0, [RULES, ASKED], HELLO),
        chat(1, [RULES, user("Mind the budget."), ASKED, sent_back(HELLO), user("Go on.")]),
    )
    broken = only_break(*traces)
    assert (broken.cause, broken.detail) == ("message_edited", "one user message was put in before message 1")


def test_an_answer_that_was_left_out() -> None:
    broken = only_break(chat(0, [RULES, ASKED], HELLO), chat(1, [RULES, ASKED, user("Properly, please.")]))
    assert broken.cause == "message_dropped"
    assert broken.detail == "the answer of call 0 was left out of the history"


def long_session(last: list[Message]) -> list[Trace]:
    """Three calls that extend each other, and one with these messages."""
    one, two, three = say("First, I look."), say("Then, I think."), say("Last, I speak.")
    second = [RULES, ASKED, sent_back(one), user("Go on.")]
    third = [*second, sent_back(two), user("More.")]
    return [chat(0, [RULES, ASKED], one), chat(1, second, two), chat(2, third, three), chat(3, last)]


END = [sent_back(say("Last, I speak.")), user("Thanks.")]


def test_messages_left_out_of_the_middle() -> None:
    traces = long_session([RULES, ASKED, sent_back(say("Then, I think.")), user("More."), *END])
    assert words(*traces) == ["starts", "extends", "extends", "breaks"]
    broken = only_break(*traces)
    assert (broken.cause, broken.earlier_turn) == ("message_dropped", 2)
    assert broken.detail == "2 messages were left out from message 2 on"


def test_a_history_cut_from_the_front() -> None:
    broken = only_break(*long_session([RULES, user("More."), *END]))
    assert (broken.cause, broken.earlier_turn) == ("truncation", 2)
    assert broken.detail == "4 messages were cut from the front of the history"


def test_a_summary_in_place_of_messages_that_the_last_answers_outlive() -> None:
    broken = only_break(*long_session([RULES, user("Summary: we looked and thought."), *END]))
    assert broken.cause == "message_dropped"
    assert broken.detail == "from message 1 on 5 messages were replaced by 1"


def test_a_tool_result_cut_to_a_length() -> None:
    long = "line of output, and another one, " * 8
    before = [ASKED, sent_back(LOOK), tool(long)]
    cut_short = [ASKED, sent_back(LOOK), tool(long[:64] + "… [truncated]"), sent_back(HELLO), user("Go on.")]
    broken = only_break(chat(0, [ASKED], LOOK), chat(1, before, HELLO), chat(2, cut_short))
    assert broken.cause == "truncation"
    assert broken.detail == f"the text of message 2 was cut from {len(long)} to 77 characters"


def test_a_prompt_that_the_engine_cut_from_the_front() -> None:
    first = chat(0, [RULES, ASKED], HELLO)
    later = chat(1, [RULES, ASKED, sent_back(HELLO), user("Go on.")])
    kept = (later.prompt_token_ids or TokenIds())[6:]
    broken = only_break(first, replace(later, prompt_token_ids=kept))
    assert (broken.cause, broken.position) == ("truncation", 0)


def test_a_stop_string_whose_tokens_were_sampled() -> None:
    stopped = cut(say("One two three four."), max_tokens=None, stops=["four"])
    broken = only_break(*after(stopped, sent_back(stopped)))
    assert broken.cause == "truncation"
    assert "stop string" in broken.detail


def test_a_tool_call_that_a_limit_cut_is_no_part_of_the_text() -> None:
    broken_off = cut(COMPACT, max_tokens=9, stops=())
    broken = only_break(*after(broken_off, sent_back(broken_off)))
    assert broken.cause == "truncation"
    assert "the limit of tokens cut call 0 off" in broken.detail


def test_what_nobody_can_explain_is_unknown() -> None:
    same = sent_back(say("Hello there, friend of mine, and of everybody."))
    other = sent_back(say("Bonjour à tous, les amis, et bienvenue."))
    traces = after(say("Hello there, friend of mine, and of everybody."), same, rendered=other)
    assert only_break(*traces, tokenizer=True).cause == "unknown"


def test_an_answer_that_comes_back_between_the_marks_of_a_thought() -> None:
    """As a parser leaves it that takes an answer without a thought for one."""
    taken = replace(choice(say("It is 24.")), text=None, reasoning="It is 24.")
    first = replace(chat(0, [ASKED]), choices=(taken,))
    marked = {"role": "assistant", "content": "<think>\nIt is 24.\n</think>\n\n"}
    sent = {"role": "assistant", "content": "", "reasoning_content": "It is 24."}
    later = chat(1, [ASKED, sent, user("Go on.")], rendered=[ASKED, marked, user("Go on.")])
    broken = only_break(first, later, tokenizer=True)
    assert (broken.cause, "marks of a thought" in broken.detail) == ("unknown", True)


# Prompts without messages.

FIRST = "user: What is the weather?\nassistant:"


def continued(speech: Speech, text: str) -> tuple[Trace, Trace]:
    return completion(0, FIRST, speech), completion(1, f"{FIRST}{text}\nuser: Go on.\nassistant:", say(" Yes."))


def test_a_prompt_that_goes_on_from_its_text_token_for_token_extends_it() -> None:
    assert words(*continued(say(" It is sunny.", end=None), " It is sunny.")) == ["starts", "extends"]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (" It is sunny.", "retokenized"),
        (" It  is sunny.", "whitespace"),
        (" It is sunny, mostly, all day.", "message_edited"),
    ],
)
def test_a_prompt_that_repeats_its_text(text: str, cause: str) -> None:
    # The sampled end of the turn is no part of the text.
    sampled = say(" It is sunny, mostly, all the night.") if cause == "message_edited" else say(" It is sunny.")
    assert only_break(*continued(sampled, text)).cause == cause


def test_a_prompt_that_repeats_its_text_without_the_thought() -> None:
    speech = say("<think>Hm, the weather of today.</think> It is sunny.")
    assert only_break(*continued(speech, " It is sunny.")).cause == "stripped_reasoning"


def test_prompts_of_ids_alone_say_where_they_part() -> None:
    answer = say("One two three four five six seven eight nine ten.")
    first = completion(0, [5, 6, 7], answer)
    broken = only_break(first, completion(1, [5, 6, 7, *answer.ids[:-2], 99, 98, 97], say("x")))
    assert (broken.position, broken.region) == (3 + len(answer.ids) - 2, "sampled")
    assert broken.cause == "unknown"


def test_sums_are_of_calls_that_had_something_to_extend() -> None:
    counts = drift(*after(LOOK, sent_back(LOOK, reasoning_content=None), tool("21"))).counts
    assert (counts.calls, counts.starts, counts.extends, counts.breaks) == (2, 1, 0, 1)
    assert counts.exact_share == 0.0
    assert counts.causes == {"stripped_reasoning": 1}
    assert drift(chat(0, [ASKED])).counts.exact_share is None

"""What is no drift: a conversation of its own, a branch, a second answer, and calls that can't be judged."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from adapters.schema import RecordedRequest
from adapters.scripts.speech import Called, say
from adapters.token_ids import TokenIds
from tests.storage.samples.drift.conversations import (
    STARTED,
    chat,
    completion,
    drift,
    sent_back,
    system,
    tool,
    user,
    words,
)

RULES = system("You are a helpful agent, and these are your long rules, which every call begins with.")
ASKED = user("What is the weather in Paris?")
HELLO, BYE = say("Hello there."), say("Good bye, then.")
LOOK = say(calls=[Called("look", '{"city":"Paris"}')])


def test_a_sub_agent_with_the_same_system_prompt_starts_a_conversation() -> None:
    task = [RULES, user("Find the file.")]
    found = say("It is in the cellar.")
    traces = (
        chat(0, [RULES, ASKED], LOOK),
        chat(1, task, found),
        chat(2, [*task, sent_back(found), user("Which one?")], BYE),
        chat(3, [RULES, ASKED, sent_back(LOOK), tool("It is in the cellar.")]),
    )
    assert words(*traces) == ["starts", "starts", "extends", "extends"]
    assert words(*traces, tokenizer=True) == ["starts", "starts", "extends", "extends"]


def test_a_prompt_that_is_asked_twice_may_be_continued_from_either_answer() -> None:
    traces = (
        chat(0, [RULES, ASKED], HELLO),
        chat(1, [RULES, ASKED], BYE),
        chat(2, [RULES, ASKED, sent_back(HELLO), user("One.")]),
        chat(3, [RULES, ASKED, sent_back(BYE), user("Two.")]),
    )
    assert words(*traces) == ["starts", "starts", "extends", "extends"]


def test_one_of_several_choices_is_continued() -> None:
    traces = chat(0, [ASKED], HELLO, BYE), chat(1, [ASKED, sent_back(BYE), user("Go on.")])
    assert words(*traces) == ["starts", "extends"]


def test_of_several_choices_the_one_that_was_sent_back_is_the_one_that_is_broken_with() -> None:
    thought = say("Good bye, then.", reasoning="Enough of this.")
    [broken] = drift(
        chat(0, [ASKED], HELLO, thought),
        chat(1, [ASKED, sent_back(thought, reasoning_content=None), user("Go on.")]),
    ).breaks
    assert (broken.earlier_index, broken.cause) == (1, "stripped_reasoning")


def test_a_branch_at_an_earlier_place_extends_that_place() -> None:
    begun = [ASKED, sent_back(HELLO)]
    traces = (
        chat(0, [ASKED], HELLO),
        chat(1, [*begun, user("One.")], BYE),
        chat(2, [*begun, user("Two.")], say("Fine.")),
        chat(3, [*begun, user("One."), sent_back(BYE), user("More.")]),
    )
    assert words(*traces) == ["starts", "extends", "extends", "extends"]


def test_the_same_answer_many_times_is_continued_from_where_it_was_given() -> None:
    messages = [ASKED]
    traces = []
    for turn in range(5):
        traces.append(chat(turn, messages, LOOK))
        messages = [*messages, sent_back(LOOK), tool("wait")]
    assert words(*traces) == ["starts", *["extends"] * 4]


def test_a_history_that_a_summary_replaces_whole_starts_anew() -> None:
    summary = say("We looked at the weather of Paris, which is fine.")
    traces = (
        chat(0, [RULES, ASKED], HELLO),
        chat(1, [RULES, ASKED, sent_back(HELLO), user("Sum up what was done.")], summary),
        chat(2, [RULES, user("So far: We looked at the weather of Paris, which is fine. Go on.")]),
    )
    assert words(*traces) == ["starts", "extends", "starts"]


def test_examples_that_no_call_has_said_are_part_of_a_prompt() -> None:
    shots = [user("2+2?"), {"role": "assistant", "content": "4."}]
    traces = chat(0, [*shots, ASKED], HELLO), chat(1, [*shots, user("Another thing.")], BYE)
    assert words(*traces) == ["starts", "starts"]


def test_a_request_made_while_another_runs_is_no_reply_to_it() -> None:
    """A harness asks for a title with the same messages and one more, before the answer is there."""
    main = chat(0, [ASKED], HELLO, duration_ms=5000.0)
    title = chat(1, [ASKED, user("A title for this, please.")], started_at=STARTED + timedelta(seconds=1))
    assert words(main, title) == ["starts", "starts"]


def test_auxiliary_calls_and_superseded_attempts_are_left_out() -> None:
    traces = (
        chat(0, [ASKED], HELLO),
        chat(1, [ASKED, user("A title, please.")], purpose="aux"),
        chat(2, [ASKED, sent_back(HELLO), user("Go on.")]),
        chat(3, [ASKED, sent_back(HELLO), user("Go on.")], retry_of="t2"),
        chat(4, [ASKED], status="running"),
    )
    assert [call.turn for call in drift(*traces).calls] == [0, 3]
    assert words(*traces) == ["starts", "extends"]


def test_the_calls_of_an_earlier_rollout_under_the_same_id_are_left_out() -> None:
    earlier = chat(0, [ASKED], HELLO)
    later = chat(1, [ASKED, sent_back(say("Hello to you.")), user("Go on.")], attempt=1)
    assert words(earlier, later) == ["starts"]


def test_attempts_are_superseded_here_as_they_are_for_samples() -> None:
    """A call that names itself has superseded none; an attempt that still runs has."""
    itself = chat(0, [ASKED], HELLO, retry_of="t0")
    tried = chat(1, [ASKED, sent_back(HELLO), user("Go on.")])
    again = chat(2, [ASKED, sent_back(HELLO), user("Go on.")], retry_of="t1", status="running")
    assert [call.turn for call in drift(itself, tried, again).calls] == [0]


def test_what_follows_a_call_without_exact_ids_is_not_judged() -> None:
    partial = chat(0, [ASKED], HELLO, fidelity="partial", fidelity_reason="fewer than counted")
    [first, later] = drift(partial, chat(1, [ASKED, sent_back(HELLO), user("Go on.")])).calls
    assert (first.continuity, later.continuity, later.earlier_trace_id) == ("unjudged", "unjudged", "t0")


def test_a_request_that_is_no_json_is_judged_by_its_ids() -> None:
    first = replace(chat(0, [ASKED], HELLO), request=RecordedRequest(b"\xff"))
    later = replace(chat(1, [ASKED, sent_back(HELLO), user("Go on.")]), request=RecordedRequest(None))
    assert words(first, later) == ["starts", "extends"]


def test_prompts_of_ids_that_share_their_beginning_alone_are_two_conversations() -> None:
    rules = list(range(40))
    traces = completion(0, [*rules, 50, 51], HELLO), completion(1, [*rules, 60, 61, 62], BYE)
    assert words(*traces) == ["starts", "starts"]


def test_the_order_in_which_traces_come_does_not_matter() -> None:
    thought = say("Hello there.", reasoning="A greeting.")
    stripped = [ASKED, sent_back(thought, reasoning_content=None), user("Go on.")]
    traces = [chat(0, [ASKED], thought), chat(1, stripped, BYE), chat(2, [*stripped, sent_back(BYE), user("More.")])]
    assert drift(*traces) == drift(*reversed(traces))
    assert words(*reversed(traces)) == ["starts", "breaks", "extends"]


def test_a_prompt_without_ids_or_messages_breaks_nothing() -> None:
    traces = chat(0, [], say("")), chat(1, [], say("")), completion(2, [], say(""))
    empty = [replace(trace, prompt_token_ids=TokenIds(), choices=()) for trace in traces]
    assert words(*empty) == ["starts"] * 3

"""What holds of any session: what goes on unchanged never breaks, and what is changed breaks where it was changed."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.schema import Trace
from adapters.scripts.speech import Called, Speech, say
from tests.storage.samples.drift.conversations import Message, chat, drift, sent_back, system, user

# Few and alike, so that calls say what others said.
SPEECHES = (
    say("Yes."),
    say("Yes.", reasoning="Why not?"),
    say(calls=[Called("look", '{"at": 1}')]),
    say("No.", calls=[Called("look", '{"at":1}')]),
)
BEGINNINGS = ([user("Go.")], [system("Rules."), user("Go.")], [system("Rules."), user("Other.")])


@dataclass(frozen=True)
class Step:
    """What the next call does: begins anew, or goes on from an earlier call's answer."""

    onto: int | None
    beginning: int
    speeches: tuple[int, ...]
    words: str


steps = st.builds(
    Step,
    st.none() | st.integers(0, 30),
    st.integers(0, len(BEGINNINGS) - 1),
    st.lists(st.integers(0, len(SPEECHES) - 1), min_size=1, max_size=2).map(tuple),
    st.sampled_from(["Go on.", "And?"]),
)


def session(plan: list[Step]) -> tuple[list[Trace], list[tuple[list[Message], Speech]]]:
    """The traces, and every answer with the messages that it answers."""
    traces: list[Trace] = []
    answers: list[tuple[list[Message], Speech]] = []
    for turn, step in enumerate(plan):
        if step.onto is None or not answers:
            messages = BEGINNINGS[step.beginning]
        else:
            before, speech = answers[step.onto % len(answers)]
            messages = [*before, sent_back(speech), user(step.words)]
        said = [SPEECHES[number] for number in step.speeches]
        traces.append(chat(turn, messages, *said))
        answers += [(messages, speech) for speech in said]
    return traces, answers


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, min_size=1, max_size=12))
def test_branches_sub_agents_and_second_answers_never_break(plan: list[Step]) -> None:
    traces, _ = session(plan)
    told = drift(*traces)
    begun = [step.onto is None or turn == 0 for turn, step in enumerate(plan)]
    assert [call.continuity for call in told.calls] == ["starts" if each else "extends" for each in begun]


@settings(max_examples=100, deadline=None)
@given(st.lists(steps, min_size=1, max_size=8), st.integers(0, 30), st.booleans())
def test_the_call_that_leaves_a_thought_out_is_the_one_that_breaks(plan: list[Step], at: int, tokenizer: bool) -> None:
    traces, answers = session(plan)
    messages, _ = answers[at % len(answers)]
    thought = say("A thing that nobody else says.", reasoning="For a reason.")
    stripped = [*messages, sent_back(thought, reasoning_content=None), user("Go on.")]

    told = drift(*traces, chat(100, messages, thought), chat(101, stripped), tokenizer=tokenizer)
    assert [call.continuity == "breaks" for call in told.calls] == [False] * (len(traces) + 1) + [True]
    [broken] = told.breaks
    assert (broken.cause, broken.earlier_turn, broken.turn) == ("stripped_reasoning", 100, 101)

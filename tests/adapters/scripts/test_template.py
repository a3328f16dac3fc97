"""The chat template: a session of unedited messages is one sequence of tokens."""

from adapters.scripts.speech import Called, say
from adapters.scripts.template import CalledTool, ContentPart, Function, Message, prompt_ids
from adapters.scripts.vocabulary import decode


def test_a_prompt_ends_where_the_assistant_is_to_speak() -> None:
    written = decode(prompt_ids([Message("system", "Be short."), Message("user", "Hi")]), specials=True)
    assert written == "<|turn|>system\nBe short.<|end|>\n<|turn|>user\nHi<|end|>\n<|turn|>assistant\n"


def test_the_next_turns_prompt_begins_with_this_turns_prompt_and_answer() -> None:
    first = (Message("user", "What is the weather in Paris?"),)
    answer = say("Let me look.", calls=[Called("get_weather", '{"city":  "Paris"}')])
    history = Message(
        "assistant", "Let me look.", tool_calls=(CalledTool(Function("get_weather", '{"city":  "Paris"}'), "call_1"),)
    )
    second = prompt_ids([*first, history, Message("tool", "18 °C")])
    sampled = (*prompt_ids(first), *answer.ids)
    assert second[: len(sampled)] == sampled


def test_a_thought_that_is_sent_back_is_part_of_the_next_prompt() -> None:
    first = (Message("user", "Hi"),)
    sampled = (*prompt_ids(first), *say("Hello.", reasoning="A greeting.").ids)
    kept = prompt_ids([*first, Message("assistant", "Hello.", reasoning="A greeting."), Message("user", "And?")])
    dropped = prompt_ids([*first, Message("assistant", "Hello."), Message("user", "And?")])
    assert kept[: len(sampled)] == sampled
    assert dropped[: len(sampled)] != sampled


def test_content_in_parts_is_written_as_one_text() -> None:
    parts = (ContentPart(text="Hello "), ContentPart(text="there"))
    assert prompt_ids([Message("user", parts)]) == prompt_ids([Message("user", "Hello there")])

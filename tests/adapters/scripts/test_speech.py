"""What is said, token by token, and where a request cuts it."""

from adapters.scripts.speech import Called, cut, say, say_ids
from adapters.scripts.vocabulary import END, encode

PARIS = Called("get_weather", '{"city": "Paris"}')


def test_a_speech_is_its_thought_its_text_its_calls_and_its_end() -> None:
    speech = say("Let me look.", reasoning="Where?", calls=[PARIS, PARIS])
    assert speech.text("reasoning") == "Where?"
    assert speech.text("content") == "Let me look."
    assert speech.calls == (PARIS, PARIS)
    assert speech.finish == "tool_calls"
    assert speech.eos == END


def test_a_character_over_four_tokens_has_its_text_on_the_last_of_them() -> None:
    assert [token.text for token in say("🙂", end=None).tokens] == ["", "", "", "🙂"]


def test_every_token_has_a_logprob_of_its_own() -> None:
    speech = say("yes yes", logprobs=[-0.5, None, -0.25])
    assert speech.logprobs == (-0.5, None, -0.25)
    assert all(logprob is not None and logprob < 0 for logprob in say("Hello! 🙂").logprobs)


def test_max_tokens_cuts_a_speech_and_says_so() -> None:
    short = cut(say("one two three"), max_tokens=2, stops=())
    assert short.ids == encode("one two")
    assert short.finish == "length"


def test_a_speech_that_fits_is_left_as_it_is() -> None:
    speech = say("one two three")
    assert cut(speech, max_tokens=4, stops=("four",)) == speech


def test_a_stop_string_cuts_the_text_before_it_and_the_ids_after_it() -> None:
    speech = cut(say("one two three four"), max_tokens=None, stops=("wo th",))
    assert speech.text("content") == "one t"
    assert speech.ids == encode("one two three")
    assert (speech.finish, speech.stop) == ("stop", "wo th")


def test_the_first_of_several_stop_strings_counts() -> None:
    assert cut(say("one two three"), max_tokens=None, stops=("three", "two")).text("content") == "one "


def test_a_call_that_is_cut_is_no_call() -> None:
    assert cut(say(calls=[PARIS]), max_tokens=12, stops=()).calls == ()


def test_any_ids_can_be_said() -> None:
    speech = say_ids([5, 2_000_000_000], finish="length")
    assert speech.ids == (5, 2_000_000_000)
    assert speech.finish == "length"

"""A request and its reply rendered by a model's own tokenizer and template."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.schema import Choice, ToolCall
from adapters.token_ids import TokenIds
from gateway.text_encoder import TextEncoder, TokenizerUnavailable
from tests.adapters.cases import canonical
from tests.gateway.tiny_tokenizer import END, START, build

HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {}}}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> TextEncoder:
    return TextEncoder.load(build(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture(scope="module")
def words(encoder: TextEncoder) -> Callable[[TokenIds], str]:
    return encoder.decode


def test_a_chat_is_rendered_with_its_generation_prompt(encoder: TextEncoder, words: Callable[[TokenIds], str]) -> None:
    ids = encoder.prompt(canonical(HELLO), 0)
    assert words(ids) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert (ids[0], list(ids).count(START), list(ids).count(END)) == (START, 2, 1)


def test_tools_stand_in_the_prompt_where_they_may_be_called(
    encoder: TextEncoder, words: Callable[[TokenIds], str]
) -> None:
    body = {**HELLO, "tools": [WEATHER]}
    assert words(encoder.prompt(canonical(body), 0)).startswith("<|im_start|>system weather<|im_end|>\n")
    assert "weather" not in words(encoder.prompt(canonical({**body, "tool_choice": "none"}), 0))


def test_content_in_parts_and_earlier_calls_are_rendered(
    encoder: TextEncoder, words: Callable[[TokenIds], str]
) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    rendered = words(encoder.prompt(canonical({"messages": messages}), 0))
    assert "user\nab<|im_end|>" in rendered
    assert "<call>weather Paris</call><|im_end|>" in rendered


def test_a_reply_is_what_the_template_writes_for_it_to_the_end_of_the_turn(
    encoder: TextEncoder, words: Callable[[TokenIds], str]
) -> None:
    request = canonical(HELLO)
    assert words(encoder.reply(request, Choice(0, text="Ho 🙂", finish_reason="stop"))) == "Ho 🙂<|im_end|>"
    thought = Choice(0, text="4", reasoning="2+2", finish_reason="stop")
    assert words(encoder.reply(request, thought)) == "<think>2+2</think>4<|im_end|>"
    call = Choice(0, text="", tool_calls=(ToolCall("1", "weather", '{"city":"Rome"}'),), finish_reason="tool_calls")
    assert words(encoder.reply(request, call)) == "<call>weather Rome</call><|im_end|>"


@pytest.mark.parametrize(
    "choice",
    [
        Choice(0, text="Ho", finish_reason="length"),
        Choice(0, text="Ho"),
        Choice(0, text="Ho", finish_reason="stop", stop_reason="!"),
    ],
)
def test_a_reply_that_did_not_end_its_turn_has_no_end_token(
    encoder: TextEncoder, words: Callable[[TokenIds], str], choice: Choice
) -> None:
    assert words(encoder.reply(canonical(HELLO), choice)) == "Ho"


def test_an_agents_template_arguments_are_heeded_and_its_templates_are_not(
    encoder: TextEncoder, words: Callable[[TokenIds], str]
) -> None:
    off = canonical({**HELLO, "chat_template_kwargs": {"enable_thinking": False}})
    assert words(encoder.prompt(off, 0)).endswith("assistant\n<think></think>")
    # The template writes no such mark into a chat's history: what the reply was is then its text.
    assert words(encoder.reply(off, Choice(0, text="Ho", finish_reason="stop"))) == "Ho<|im_end|>"
    forged = {
        "chat_template": "{{ 7 * 6 }}",
        "tokenize": True,
        "messages": [],
        "conversation": [],
        "add_generation_prompt": False,
        "deep": {"a": 1},
    }
    assert encoder.prompt(canonical({**HELLO, "chat_template_kwargs": forged}), 0) == encoder.prompt(
        canonical(HELLO), 0
    )
    own = canonical({**HELLO, "chat_template": "{{ 7 * 6 }}"})
    assert encoder.prompt(own, 0) == encoder.prompt(canonical(HELLO), 0)


def test_completions_are_encoded_prompt_by_prompt(encoder: TextEncoder, words: Callable[[TokenIds], str]) -> None:
    request = canonical({"prompt": ["one", "two"]}, "completions")
    assert [words(encoder.prompt(request, index)) for index in (0, 1)] == ["one", "two"]
    assert words(encoder.reply(request, Choice(1, text="!", finish_reason="stop"))) == "!<|im_end|>"
    sent = canonical({"prompt": [[7, 8]]}, "completions")
    assert encoder.prompt(sent, 0) == TokenIds([7, 8])


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        {"messages": 5},
        {"messages": [5]},
        {"messages": [{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f"}}]}]},
    ],
)
def test_what_cannot_be_rendered_is_a_value_error(encoder: TextEncoder, body: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"not text|template|Expected"):
        encoder.prompt(canonical(body), 0)


def test_a_folder_that_is_not_there_or_holds_no_tokenizer_is_told(tmp_path: Path) -> None:
    with pytest.raises(TokenizerUnavailable, match="nothing is downloaded"):
        TextEncoder.load(str(tmp_path / "missing"))
    with pytest.raises(TokenizerUnavailable, match="cannot be loaded"):
        TextEncoder.load(str(tmp_path))


def test_a_model_without_a_template_renders_no_chat(tmp_path: Path) -> None:
    bare = TextEncoder.load(build(tmp_path, template=None))
    with pytest.raises(ValueError, match="template"):
        bare.prompt(canonical(HELLO), 0)
    assert len(bare.prompt(canonical({"prompt": "abc"}, "completions"), 0)) == 3


def test_ids_are_text_with_their_special_tokens_and_an_id_of_no_vocabulary_is_none(encoder: TextEncoder) -> None:
    asked = encoder.prompt(canonical(HELLO), 0)
    assert encoder.decode(asked + TokenIds([999_999])) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"

"""What a recorded request repeats of its conversation, in the forms of both APIs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.schema import RecordedRequest
from storage.formats.trainers.conversation import Conversation, Message, added, conversation


def read(body: Any) -> Conversation:
    return conversation(RecordedRequest(json.dumps(body).encode()))


def test_a_chat_is_its_messages_and_tools() -> None:
    asked = [{"role": "user", "content": "Weather?"}, {"role": "tool", "content": "rain", "tool_call_id": "c"}]
    assert read({"messages": asked, "tools": [{"a": 1}]}) == Conversation(
        (Message("user", "Weather?"), Message("tool", "rain", "c")), [{"a": 1}]
    )


def test_a_prompt_is_what_its_user_says() -> None:
    assert read({"prompt": "Once"}) == Conversation((Message("user", "Once"),))
    assert read({"prompt": [1, 2]}) == Conversation()


@pytest.mark.parametrize("body", [b"", b"[]", b'{"messages": 5}', b"[" * 100_000])
def test_what_is_no_request_has_no_conversation(body: bytes) -> None:
    assert conversation(RecordedRequest(body)) == Conversation()


def test_anthropics_system_prompt_is_the_first_message_and_results_of_tools_are_messages() -> None:
    told = read(
        {
            "system": [{"type": "text", "text": "Be brief."}],
            "messages": [
                {"role": "user", "content": "Weather?"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Where?", "signature": "s"},
                        {"type": "text", "text": "I look."},
                        {"type": "tool_use", "id": "c", "name": "look", "input": {}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "c", "content": "rain", "is_error": False},
                        {"type": "text", "text": "And?", "cache_control": {"type": "ephemeral"}},
                    ],
                },
            ],
        }
    )
    assert told.messages == (
        Message("system", [{"type": "text", "text": "Be brief."}]),
        Message("user", "Weather?"),
        Message("assistant", [{"type": "text", "text": "I look."}]),
        Message("tool", "rain", "c"),
        Message("user", [{"type": "text", "text": "And?"}]),
    )


def test_a_mark_for_a_cache_that_moves_on_makes_no_message_new() -> None:
    def said(*words: str) -> tuple[Message, ...]:
        parts: list[dict[str, Any]] = [{"type": "text", "text": word} for word in words]
        parts[-1]["cache_control"] = {"type": "ephemeral"}
        return read({"messages": [{"role": "user", "content": [part]} for part in parts]}).messages

    assert added(said("One"), said("One", "Two")) == (Message("user", [{"type": "text", "text": "Two"}]),)

"""A small agent with one tool. Of the gateway it knows a `base_url` and a key, as any black box would."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from openai import AsyncOpenAI

if TYPE_CHECKING:
    from openai.types.chat import (
        ChatCompletionAssistantMessageParam,
        ChatCompletionMessageParam,
        ChatCompletionToolParam,
    )
    from openai.types.chat.parsed_chat_completion import ParsedChatCompletionMessage

_MOST_TURNS: Final = 8

_TASK: Final = "What is the weather in Paris and in London? Use the tool for each city."

_TOOL: Final[ChatCompletionToolParam] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The current weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}

_WEATHER: Final = {"Paris": "18 °C and sunny", "London": "11 °C and rain"}


class AgentGaveUp(RuntimeError):
    """The model called tools for more turns than the agent has patience."""


async def run_agent(base_url: str, key: str, model: str, on_turn: Callable[[str], None]) -> str:
    """Work on the task until the model answers without a call. Raises AgentGaveUp, and what the SDK raises."""
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": "You are a helpful agent. Answer in one sentence."},
        {"role": "user", "content": _TASK},
    ]
    async with AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0) as client:
        for _ in range(_MOST_TURNS):
            async with client.chat.completions.stream(model=model, messages=messages, tools=[_TOOL]) as stream:
                message = (await stream.get_final_completion()).choices[0].message
            on_turn(_shown(message))
            messages.append(_history(message))
            if not message.tool_calls:
                return message.content or ""
            for call in message.tool_calls:
                result = _get_weather(call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    raise AgentGaveUp(f"no answer after {_MOST_TURNS} turns")


def _get_weather(arguments: str) -> str:
    try:
        city = json.loads(arguments)["city"]
    except (ValueError, KeyError, TypeError):
        return "the arguments could not be read"
    return _WEATHER.get(city, "not known")


def _history(message: ParsedChatCompletionMessage[None]) -> ChatCompletionAssistantMessageParam:
    """The message as the next request repeats it, its arguments letter by letter."""
    said: ChatCompletionAssistantMessageParam = {"role": "assistant", "content": message.content}
    if message.tool_calls:
        said["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in message.tool_calls
        ]
    return said


def _shown(message: ParsedChatCompletionMessage[None]) -> str:
    calls = [f"{call.function.name}({call.function.arguments})" for call in message.tool_calls or ()]
    return " ".join(part for part in (message.content, *calls) if part)

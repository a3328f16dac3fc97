"""The tools of an Anthropic request, and how they are to be used, as a chat offers them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from gateway.dialects.dialect import BadRequest
from gateway.dialects.messages.body import Tool, ToolChoice


class Function(Struct, frozen=True, omit_defaults=True):
    name: str
    description: str | None = None
    parameters: Raw = Raw(b"null")
    strict: bool | None = None


class ChatTool(Struct, frozen=True, tag="function"):
    function: Function


def chat_tools(tools: Sequence[Tool]) -> Raw:
    """Raises BadRequest for tools that only Anthropic's own servers know."""
    return Raw(msgspec.json.encode([_chat_tool(at, tool) for at, tool in enumerate(tools)]))


def _chat_tool(at: int, tool: Tool) -> ChatTool:
    if tool.type not in (None, "custom"):
        raise BadRequest(
            f"tools.{at}: `{tool.type}` is a tool that Anthropic's servers run or describe, and the backends of this "
            "gateway don't have it. Send a tool of your own, with an `input_schema`.",
            param=f"tools.{at}.type",
        )
    if not bytes(tool.input_schema).startswith(b"{"):
        where = f"tools.{at}.input_schema"
        raise BadRequest(f"{where}: a tool needs a JSON schema of its input, an object", param=where)
    return ChatTool(Function(tool.name, tool.description, tool.input_schema, tool.strict))


def chat_choice(choice: ToolChoice) -> dict[str, Raw]:
    """The fields of a chat that say the same."""
    fields: dict[str, Raw] = {}
    match choice.type:
        case "any":
            fields["tool_choice"] = Raw(b'"required"')
        case "tool":
            if choice.name is None:
                raise BadRequest("tool_choice.name: Field required", param="tool_choice.name")
            named = {"type": "function", "function": {"name": choice.name}}
            fields["tool_choice"] = Raw(msgspec.json.encode(named))
        case "auto" | "none":
            fields["tool_choice"] = Raw(msgspec.json.encode(choice.type))
    if choice.disable_parallel_tool_use and choice.type != "none":
        fields["parallel_tool_calls"] = Raw(b"false")
    return fields

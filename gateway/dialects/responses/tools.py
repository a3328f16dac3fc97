"""The tools of a Responses request, and how they are to be used, as a chat offers them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct

from gateway.dialects.dialect import BadRequest
from gateway.dialects.openai_request import Fields
from gateway.dialects.responses import custom
from gateway.dialects.responses.body import Tool, ToolChoice
from gateway.dialects.typed_fields import read

_flag: Final[msgspec.json.Decoder[bool]] = msgspec.json.Decoder(bool)
_tools: Final = msgspec.json.Decoder(list[Tool])
_choice: Final = msgspec.json.Decoder(Literal["none", "auto", "required"] | ToolChoice)


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool as the client knows it. The chat knows it by one name."""

    type: Literal["function", "custom"]
    name: str
    namespace: str | None
    tool: Tool
    where: str


class _Function(Struct, frozen=True, omit_defaults=True):
    name: str
    description: str | None = None
    parameters: Raw | None = None
    strict: bool | None = None


class _ChatTool(Struct, frozen=True, tag="function"):
    function: _Function


def chat_name(name: str, namespace: str | None) -> str:
    return f"{namespace}__{name}" if namespace else name


def offered(raw: Raw | None) -> Mapping[str, Offered]:
    """The tools by their names in the chat. Raises BadRequest for those that only OpenAI's own servers have."""
    found: dict[str, Offered] = {}
    given = read(raw, "tools", _tools)
    for one in _offered(given or (), "tools", None):
        name = chat_name(one.name, one.namespace)
        if name in found:
            raise BadRequest(f"{one.where}.name: there are two tools `{name}`", param=f"{one.where}.name")
        found[name] = one
    return found


def _offered(tools: Sequence[Tool], place: str, namespace: str | None) -> Iterable[Offered]:
    for at, tool in enumerate(tools):
        where = f"{place}[{at}]"
        if tool.type not in ("function", "custom", "namespace") or (namespace and tool.type == "namespace"):
            raise BadRequest(
                f"{where}.type: `{tool.type}` is a tool that OpenAI's servers run or describe, and the backends of "
                "this gateway don't have it. Send a `function` or a `custom` tool of your own.",
                param=f"{where}.type",
            )
        if not tool.name:
            raise BadRequest(f"{where}.name: a tool needs a name", param=f"{where}.name")
        if tool.type == "namespace":
            inner = read(tool.tools, f"{where}.tools", _tools)
            yield from _offered(inner or (), f"{where}.tools", tool.name)
        else:
            yield Offered("custom" if tool.type == "custom" else "function", tool.name, namespace, tool, where)


def chat_fields(tools: Mapping[str, Offered], given: Fields) -> Fields:
    """The fields of a chat that offer the same tools."""
    choice = read(given.get("tool_choice"), "tool_choice", _choice)
    if not tools:
        return {}  # A choice between no tools says nothing.
    fields: Fields = {}
    if isinstance(choice, ToolChoice):
        tools, said = _chosen(tools, choice)
    else:
        said = choice
    fields["tools"] = Raw(msgspec.json.encode([_chat_tool(name, one) for name, one in tools.items()]))
    if said is not None:
        fields["tool_choice"] = Raw(msgspec.json.encode(said))
    if read(given.get("parallel_tool_calls"), "parallel_tool_calls", _flag) is False:
        # True is every server's own, and some refuse the field.
        fields["parallel_tool_calls"] = Raw(b"false")
    return fields


def _chat_tool(name: str, one: Offered) -> _ChatTool:
    tool = one.tool
    if one.type == "function":
        parameters = tool.parameters if tool.parameters != Raw(b"null") else None
        if parameters is not None and not bytes(parameters).startswith(b"{"):
            where = f"{one.where}.parameters"
            raise BadRequest(f"{where}: a function needs a JSON schema of its parameters, an object", param=where)
        return _ChatTool(_Function(name, tool.description, parameters, tool.strict))
    try:
        description = custom.description_of(tool.description, tool.format)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        where = f"{one.where}.format"
        raise BadRequest(f"{where}: a custom tool's format is `text` or a `grammar`", param=where) from None
    return _ChatTool(_Function(name, description, custom.PARAMETERS))


def _chosen(tools: Mapping[str, Offered], choice: ToolChoice) -> tuple[Mapping[str, Offered], object]:
    """The tools that may be called, and the choice between them in the words of a chat."""
    if choice.type in ("function", "custom"):
        name = _named(tools, choice.name, "tool_choice.name")
        return tools, {"type": "function", "function": {"name": name}}
    if choice.type == "allowed_tools":
        # An engine knows no such limit, but it can't call what it isn't offered.
        names = {
            _named(tools, tool.name, f"tool_choice.tools[{at}].name") for at, tool in enumerate(choice.tools or ())
        }
        if not names:
            raise BadRequest("tool_choice.tools: name at least one of `tools`", param="tool_choice.tools")
        return {name: one for name, one in tools.items() if name in names}, choice.mode
    raise BadRequest(
        f"tool_choice.type: `{choice.type}` is a tool of OpenAI's servers; the backends of this gateway don't have it",
        param="tool_choice.type",
    )


def _named(tools: Mapping[str, Offered], name: str | None, where: str) -> str:
    found = next((chat for chat, one in tools.items() if name in (chat, one.name)), None)
    if found is None:
        raise BadRequest(f"{where}: there is no tool `{name}` in `tools`", param=where)
    return found

"""The conversation that a Responses request goes on with: what came before it by name, and its own items, as turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from adapters.schema import Choice, Trace
from gateway.dialects import thought
from gateway.dialects.conversation import Block, Called, Image, Result, Role, Text, Thought, Turn
from gateway.dialects.dialect import BadRequest
from gateway.dialects.openai_request import Fields, fields_of, read_field
from gateway.dialects.responses import names
from gateway.dialects.responses.body import (
    CustomToolCall,
    FunctionCall,
    InputImage,
    InputText,
    Item,
    ItemReference,
    Message,
    OutputText,
    Reasoning,
    Refusal,
    ToolOutput,
    items,
)
from gateway.dialects.responses.custom import arguments_of
from gateway.dialects.responses.tools import chat_name

Earlier = Mapping[str, Trace]
"""The traces that may be named, by their ids."""


def previous_of(given: Fields) -> str | None:
    return read_field(given, "previous_response_id", str, "a string")


def traces_named(given: Fields) -> Sequence[str]:
    """The traces without which a request can't be read. Raises BadRequest."""
    previous = names.trace_of(previous_of(given) or "")
    referred = [names.item_of(item.id) for item in items(given.get("input")) if isinstance(item, ItemReference)]
    named = [item.trace_id for item in referred if item is not None]
    return named if previous is None else [previous, *named]


def turns(given: Fields, earlier: Earlier) -> Iterable[Turn]:
    """All that was said, the oldest first. Instructions are each request's own. Raises BadRequest."""
    instructions = read_field(given, "instructions", str, "a string")
    yield Turn("system", [Text(instructions)] if instructions else [])
    for trace, fields in reversed(list(_chain(given, earlier))):
        yield from _own_turns(fields, earlier)
        yield Turn("assistant", _said(trace))
    yield from _own_turns(given, earlier)


def _chain(given: Fields, earlier: Earlier) -> Iterable[tuple[Trace, Fields]]:
    """The traces before a request and what was asked in them, the newest first."""
    while (response := previous_of(given)) is not None:
        trace = _answered(earlier, names.trace_of(response))
        if trace is None:
            raise BadRequest(
                f"Previous response with id '{response}' not found: it is the id of a response that this gateway gave "
                "in the same session, and whose session still exists.",
                param="previous_response_id",
                code="previous_response_not_found",
            )
        given = fields_of(trace.request.body or b"")
        yield trace, given


def _own_turns(given: Fields, earlier: Earlier) -> Iterable[Turn]:
    for at, item in enumerate(items(given.get("input"))):
        yield _turn(item, f"input[{at}]", earlier)


def _turn(item: Item, where: str, earlier: Earlier) -> Turn:
    match item:
        case Message():
            return _message(item, where)
        case Reasoning():
            return Turn("assistant", _thought(item, where))
        case FunctionCall():
            called = Called(item.call_id, chat_name(item.name, item.namespace), item.arguments)
            return Turn("assistant", [called])
        case CustomToolCall():
            name = chat_name(item.name, item.namespace)
            return Turn("assistant", [Called(item.call_id, name, arguments_of(item.input))])
        case ToolOutput():
            shown = [Text(item.output)] if isinstance(item.output, str) else item.output
            parts = [_shown(part, f"{where}.output[{at}]") for at, part in enumerate(shown)]
            return Turn("user", [Result(item.call_id, parts)])
        case ItemReference():
            return Turn("assistant", _referred(item, where, earlier))


def _message(message: Message, where: str) -> Turn:
    role: Role = "system" if message.role == "developer" else message.role
    if isinstance(message.content, str):
        return Turn(role, [Text(message.content)])
    parts = [_shown(part, f"{where}.content[{at}]") for at, part in enumerate(message.content)]
    for at, part in enumerate(parts):
        if isinstance(part, Image) and role != "user":
            place = f"{where}.content[{at}]"
            raise BadRequest(f"{place}: a message of the {message.role} has no `input_image`", param=place)
    return Turn(role, parts)


def _shown(part: Text | InputText | OutputText | Refusal | InputImage, where: str) -> Text | Image:
    match part:
        case Text():
            return part
        case InputText() | OutputText():
            return Text(part.text)
        case Refusal():
            return Text(part.refusal)
        case InputImage():
            if part.image_url is None:
                raise BadRequest(f"{where}: an image needs an `image_url`; this gateway keeps no files", param=where)
            return Image(part.image_url)


def _thought(item: Reasoning, where: str) -> Sequence[Block]:
    """The model's own words where they are there; else those that we put away; a summary is better than nothing."""
    if item.content:
        return [Thought("".join(part.text for part in item.content))]
    if item.encrypted_content:
        kept = thought.recall(item.encrypted_content)
        if kept is not None:
            return [Thought(kept)]
    if item.summary:
        return [Thought("\n".join(part.text for part in item.summary))]
    if item.encrypted_content:
        place = f"{where}.encrypted_content"
        raise BadRequest(f"{place}: it can be read by the server that made it alone", param=place)
    return []


def _referred(item: ItemReference, where: str, earlier: Earlier) -> Sequence[Block]:
    known = names.item_of(item.id)
    trace = _answered(earlier, known.trace_id) if known is not None else None
    if known is None or trace is None:
        raise BadRequest(
            f"Item with id '{item.id}' not found: it is the id of an item that this gateway gave in the same session.",
            param=f"{where}.id",
        )
    said = _said(trace)
    kind = {"rs": Thought, "msg": Text, "fc": Called, "ctc": Called}[known.kind]
    # A trace keeps an answer's texts as one, and its thoughts: the first has them all.
    return [block for block in said if isinstance(block, kind)][known.number :][:1]


def _answered(earlier: Earlier, trace_id: str | None) -> Trace | None:
    """The trace, where it is one that a response was given for."""
    trace = earlier.get(trace_id) if trace_id is not None else None
    given = trace is not None and trace.dialect == "responses" and trace.status == "ok"
    return trace if given else None


def _said(trace: Trace) -> Sequence[Block]:
    """An answer as it was sampled."""
    choice = next((choice for choice in trace.choices if choice.index == 0), Choice(0))
    blocks: list[Block] = []
    if choice.reasoning:
        blocks.append(Thought(choice.reasoning))
    if choice.text:
        blocks.append(Text(choice.text))
    taken: set[str] = set()
    for number, call in enumerate(choice.tool_calls or ()):
        call_id = names.call_id(call.id, trace.trace_id, number, taken)
        taken.add(call_id)
        blocks.append(Called(call_id, call.name or "", call.arguments or "{}"))
    return blocks

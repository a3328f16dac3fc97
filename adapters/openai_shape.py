"""The shape that nearly every engine answers in, OpenAI's: how a chunk and a body of it are opened.

An engine says in a `Shape` where it differs: the places of ids and logprobs, and how its own fields fold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import Raw

from adapters.answer_shape import Chunk, ChunkChoice, Delta, ToolFragment, WholeAnswer
from adapters.errors import error_of
from adapters.fold import MAX_CHOICES, OPENAI_RULES, FoldRules
from adapters.places import BadValue, Place, Source
from adapters.raw import Fields, NotJSON, integer, mend, open_object, open_objects, text, told
from adapters.tables import Read, Table, tables_of
from adapters.tools import fragments

REASONING: Final = ("reasoning", "reasoning_content")
"""The names that reasoning goes by in a delta or message; where both are told, the second is a copy."""
_CHOICES: Final = b'"choices":'
_LOGPROBS: Final = b'"logprobs":'
_CUT_OUT: Final = b'"cut out"'
_NO_TABLES: Final[Mapping[str, Table]] = {}


@dataclass(frozen=True, slots=True)
class Shape:
    """Where one engine's answers differ from OpenAI's."""

    sources: tuple[Source, ...] = ()
    """Completion ids, the surest first. What several places tell is taken once; if they differ it is odd."""
    prompt: tuple[Place, ...] = ()
    rules: FoldRules = field(default_factory=lambda: OPENAI_RULES)
    stop_reason: tuple[str, ...] = ("stop_reason", "matched_stop")
    events: frozenset[str] = frozenset()
    """Named server-sent events that are chunks like the unnamed ones."""
    tables: Mapping[str, Table] = field(init=False, repr=False, compare=False)
    """By its name, each member of a choice that holds several of the places."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", tables_of(self.sources))


def open_chunk(data: bytes, expected_choices: int) -> Chunk:
    """One event's data, opened. Raises NotJSON. What is odd in it is left out and told."""
    odd: list[str] = []
    try:
        root = open_object(data)
    except NotJSON:
        root = open_object(mend(data))
        odd.append("a chunk was not strict JSON")
    raw = root.get("choices")
    if not told(raw):
        return Chunk(root, error=error_of(root), odd=tuple(odd))
    try:
        opened = open_objects(raw)
    except NotJSON:
        return Chunk(root, error=error_of(root), odd=(*odd, "choices is not a list of objects"))
    choices: list[ChunkChoice] = []
    for fields in opened:
        index = integer(fields.get("index"))
        if index is None and expected_choices == 1 and not told(fields.get("index")):
            index = 0  # Some servers leave it out where there is one choice.
        if index is None or index < 0:
            odd.append("a choice without a valid index")
            continue
        delta = fields.get("delta")
        try:
            choices.append(ChunkChoice(index, fields, open_object(delta) if told(delta) else None))
        except NotJSON:
            odd.append(f"choice {index}: delta is not an object")
            choices.append(ChunkChoice(index, fields))
    error = error_of(root) if "error" in root else None
    return Chunk(root, tuple(choices), error, tuple(odd))


def open_answer(body: bytes, expected_choices: int, tables: Mapping[str, Table] = _NO_TABLES) -> WholeAnswer:
    """A whole body, opened. Raises NotJSON when it is no JSON object.

    `tables`: those of its shape, of which what one choice says may be read on the way.
    """
    odd: list[str] = []
    choices: dict[int, Fields] = {}
    read: Mapping[str, Read] = {}
    if (parted := _parted(body, tables)) is not None:
        root, opened, read = parted
    else:
        body, root, opened = _level_by_level(body, odd)
    error = error_of(root)
    for position, fields in enumerate(opened):
        index = integer(fields.get("index"))
        if index is None and not told(fields.get("index")) and len(opened) == expected_choices:
            index = position
        if index is None or index < 0:
            odd.append("a choice without a valid index")
        elif index in choices:
            odd.append(f"choice {index} stands twice")
        elif index >= max(MAX_CHOICES, expected_choices):
            odd.append(f"choice {index} was not asked for ({expected_choices} were)")
        else:
            if index >= expected_choices:
                odd.append(f"choice {index} was not asked for ({expected_choices} were)")
            choices[index] = fields
    return WholeAnswer(
        root=root,
        choices=tuple(_indexed(index, choices[index]) for index in sorted(choices)),
        error=error,
        anomalies=tuple(dict.fromkeys(odd)),
        body=body,
        read=read,
    )


def _parted(body: bytes, tables: Mapping[str, Table]) -> tuple[Fields, list[Fields], Mapping[str, Read]] | None:
    """The root and its choices of a body like nearly all, and which members of them were read; None for any other.

    They are most of it, so it is guessed where they end: what stands between is read as they, and what stands around as
    the root. Where both are JSON and `choices` is what was cut out, the guess was right.
    """
    start = body.find(_CHOICES) + len(_CHOICES)
    end = body.rfind(b"}]") + 2
    listed = body[start:end]
    try:
        opened, read = _with_logprobs(listed, tables) or (open_objects(listed), {})
        root = open_object(body[:start] + _CUT_OUT + body[end:])
    except NotJSON:
        return None
    if root.get("choices") != Raw(_CUT_OUT):
        return None
    root["choices"] = Raw(listed)
    return root, opened, read


def _with_logprobs(listed: bytes, tables: Mapping[str, Table]) -> tuple[list[Fields], Mapping[str, Read]] | None:
    """A single choice with logprobs, which are most of it, and what their table reads in the one pass over them.

    They are guessed as the choices are, and None is given where that was wrong.
    """
    start = listed.find(_LOGPROBS) + len(_LOGPROBS)
    end = listed.rfind(b"}]}") + 3
    if "logprobs" not in tables or end <= start:
        return None
    try:
        opened = open_objects(listed[:start] + _CUT_OUT + listed[end:])
    except NotJSON:
        return None
    if len(opened) != 1 or opened[0].get("logprobs") != Raw(_CUT_OUT):
        return None
    logprobs = Raw(listed[start:end])
    columns = tables["logprobs"].read(logprobs)
    if columns is None:
        return None
    opened[0]["logprobs"] = logprobs
    return opened, {"logprobs": (logprobs, columns)}


def _level_by_level(body: bytes, odd: list[str]) -> tuple[bytes, Fields, list[Fields]]:
    """The body, mended where it had to be, its root and its choices. Raises NotJSON."""
    try:
        root = open_object(body)
    except NotJSON:
        body = mend(body)
        root = open_object(body)
        odd.append("the answer was not strict JSON")
    raw = root.get("choices")
    try:
        return body, root, open_objects(raw) if told(raw) else []
    except NotJSON:
        odd.append("choices is not a list of objects")
        return body, root, []


@dataclass(frozen=True, slots=True)
class ToldIds:
    """The JSON lists of ids that one chunk brings."""

    prompt: Raw | None
    choices: Mapping[int, Raw]


def told_ids(chunk: Chunk, shape: Shape, before: Collection[int] = ()) -> ToldIds:
    """The ids that a chunk brings, wherever they stand in it. What cannot be read is left out: the fold tells.

    `before`: the choices of which earlier chunks have brought ids.
    """
    prompt = next((raw for choice in chunk.choices if (raw := _at_any(shape.prompt, chunk, choice)) is not None), None)
    choices: dict[int, Raw] = {}
    for source in shape.sources:
        for choice in chunk.choices or _unnamed(source.token_ids, chunk.root):
            if choice.index in choices or (source.once and choice.index in before):
                continue
            if (raw := _at(source.token_ids, chunk, choice)) is not None:
                choices[choice.index] = raw
    if prompt is None:
        prompt = _at_any(shape.prompt, chunk, ChunkChoice(0, {}))
    return ToldIds(prompt, choices)


def _unnamed(place: Place, root: Fields) -> Iterable[ChunkChoice]:
    """The choices of a chunk that names none but has a list of lists, one a choice."""
    if not place.by_choice:
        return []
    return [ChunkChoice(index, {}) for index in range(place.count(root))]


def _at_any(places: tuple[Place, ...], chunk: Chunk, choice: ChunkChoice) -> Raw | None:
    return next((raw for place in places if (raw := _at(place, chunk, choice)) is not None), None)


def _at(place: Place, chunk: Chunk, choice: ChunkChoice) -> Raw | None:
    if place.column is not None:
        return None
    try:
        return place.find(chunk.root, choice.fields, choice.index) or place.find({}, choice.beside, choice.index)
    except BadValue:
        return None


def deltas(chunk: Chunk, shape: Shape) -> tuple[Delta, ...]:
    """What a chunk adds to each choice, typed."""
    place = shape.sources[0].token_ids if shape.sources else None
    return tuple([_delta(choice, place, chunk, shape) for choice in chunk.choices])


def _delta(choice: ChunkChoice, place: Place | None, chunk: Chunk, shape: Shape) -> Delta:
    fields = choice.fields
    said: Mapping[str, Raw] = choice.delta if choice.delta is not None else fields
    finish = fields.get("finish_reason")
    ended = told(finish)
    logprobs = fields.get("logprobs")
    return Delta(
        choice.index,
        loose_text(said.get("content") if choice.delta is not None else said.get("text")),
        loose_text(reasoning_of(said)),
        _fragments(said.get("tool_calls")),
        None if place is None else _at(place, chunk, choice),
        logprobs if told(logprobs) else None,
        text(finish) if ended else None,
        stop_reason_of(fields, shape) if ended else None,
    )


def _fragments(raw: Raw | None) -> tuple[ToolFragment, ...]:
    if not told(raw):
        return ()
    try:
        return fragments(raw)
    except NotJSON:
        return ()  # The fold says that it was odd.


def reasoning_of(message: Mapping[str, Raw]) -> Raw | None:
    for name in REASONING:
        if told(raw := message.get(name)):
            return raw
    return None


def stop_reason_of(fields: Mapping[str, Raw], shape: Shape) -> str | int | None:
    for name in shape.stop_reason:
        raw = fields.get(name)
        if told(raw):
            number = integer(raw)
            return number if number is not None else text(raw)
    return None


def loose_text(raw: Raw | None) -> str | None:
    """A string, also one that ends in half a surrogate pair (which becomes `?`), or the text of content parts."""
    if not told(raw):
        return None
    said = text(raw)
    if said is not None:
        return said
    try:
        mended = mend(bytes(raw))
        return text(Raw(mended)) if mended.startswith(b'"') else _parts(Raw(mended))
    except NotJSON:
        return None


def _parts(raw: Raw) -> str | None:
    said = [text(part.get("text")) for part in open_objects(raw)]
    return "".join(part for part in said if part is not None) if any(part is not None for part in said) else None


def _indexed(index: int, fields: Fields) -> Fields:
    return fields if told(fields.get("index")) else {"index": Raw(str(index).encode()), **fields}

"""Whether an agent sees through the gateway what it sees without it. Each finding is a sentence; none is good news."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.engines.agent import Seen
from tests.engines.folding import Document, Folded

# What any OpenAI-compatible server may put into a chunk: those of a buffered plan are not the engine's own.
_PLAIN_CHUNK: Final = frozenset(
    f"choices[].{name}"
    for name in (
        *("index", "finish_reason", "text", "delta", "delta.role", "delta.content", "delta.refusal"),
        *(f"delta.tool_calls[].{name}" for name in ("index", "id", "type", "function", "function.name")),
        *("delta.tool_calls", "delta.tool_calls[].function.arguments", "logprobs", "logprobs.content"),
        *(f"logprobs.content[].{name}" for name in ("token", "logprob", "bytes", "bytes[]", "top_logprobs")),
        *(f"logprobs.content[].top_logprobs[].{name}" for name in ("token", "logprob", "bytes", "bytes[]")),
    )
) | {"id", "object", "created", "model", "choices", "choices[]", "usage", "system_fingerprint"}


@dataclass(frozen=True, slots=True)
class Views:
    """One request, answered to an agent without the gateway and with it."""

    request: Mapping[str, Any]
    direct: Seen
    through: Seen
    whole: Seen
    """What the backend answers the same request when it need not stream: a buffered plan's measure."""


def chunk_by_chunk(views: Views) -> bool:
    """Whether even the cuts between chunks are the same, which on most engines depends on the moment's load."""
    views = _without_alternatives(views)
    return bool(scrubbed(views.direct) == scrubbed(views.through))


def differences(views: Views, plan: str, *, sampled: bool) -> Iterator[str]:
    """What an agent would notice."""
    views = _without_alternatives(views)
    direct, through = views.direct, views.through
    if direct.status != through.status:
        yield f"status {through.status} instead of {direct.status}: {through.body[:200]!r}"
        return
    if (direct.error is None) != (through.error is None):
        yield f"the SDK says {through.error!r} instead of {direct.error!r}"
    if through.status != 200:
        return
    if _media_type(direct) != _media_type(through):
        yield f"content-type {_media_type(through)!r} instead of {_media_type(direct)!r}"
    if plan == "whole":
        yield from _whole(direct, through, sampled=sampled)
    else:
        if not through.done:
            yield "the stream does not end with [DONE]"
        if plan == "streamed":
            yield from _streamed(direct, through, sampled=sampled)
        else:
            yield from _buffered(views, sampled=sampled)


def _without_alternatives(views: Views) -> Views:
    """`logprobs` without `top_logprobs` asks for none; an engine that tells some all the same may be corrected."""
    asked = views.request.get("logprobs") is not True or "top_logprobs" in views.request
    if asked or any(path.endswith("top_logprobs[]") for path in paths(views.through.documents)):
        return views
    return replace(views, direct=_emptied(views.direct), whole=_emptied(views.whole))


def _emptied(seen: Seen) -> Seen:
    return replace(
        seen,
        documents=tuple(_empty(document) for document in seen.documents),
        parsed=tuple(_empty(document) for document in seen.parsed),
    )


def _empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: [] if name == "top_logprobs" else _empty(inner) for name, inner in value.items()}
    return [_empty(inner) for inner in value] if isinstance(value, list) else value


def _whole(direct: Seen, through: Seen, *, sampled: bool) -> Iterator[str]:
    yield from _fields(direct, through)
    if not sampled and scrubbed(direct) != scrubbed(through):
        yield from _where(scrubbed(direct), scrubbed(through), "the answer")
    if not sampled and _scrub(direct.parsed) != _scrub(through.parsed):
        yield "the SDK's objects differ"


def _streamed(direct: Seen, through: Seen, *, sampled: bool) -> Iterator[str]:
    yield from _fields(direct, through)
    if not sampled:
        yield from _where(_story(direct), _story(through), "the stream")
        yield from _same_folded(direct.folded, through.folded)


def _buffered(views: Views, *, sampled: bool) -> Iterator[str]:
    of_whole = {path for path in paths(views.whole.documents) if not path.startswith("choices")}
    allowed = paths(views.direct.documents) | _PLAIN_CHUNK | of_whole
    if added := paths(views.through.documents) - allowed:
        yield f"fields that nobody asked for: {', '.join(sorted(added))}"
    if not sampled:
        whole = views.whole.folded
        asked_usage = views.direct.folded.usage is not None
        yield from _same_folded(whole if asked_usage else replace(whole, usage=None), views.through.folded)


def _same_folded(expected: Folded, got: Folded) -> Iterator[str]:
    """Text, reasoning, tool calls, finish reasons, logprobs, usage and model."""
    if expected != got:
        yield from _where(expected, got, "folded")


# vLLM puts it on a stream's last chunk, which is that of the usage where the gateway alone asked for it.
_GOES_WITH_USAGE: Final = frozenset({"system_fingerprint"})


def _fields(direct: Seen, through: Seen) -> Iterator[str]:
    """A null that is left out is no loss: vLLM says `token_ids: null` to whoever did not ask for them."""
    if added := paths(through.documents) - paths(direct.documents):
        yield f"fields that nobody asked for: {', '.join(sorted(added))}"
    if missing := paths(direct.documents, nulls=False) - paths(through.documents) - _GOES_WITH_USAGE:
        yield f"fields that are missing: {', '.join(sorted(missing))}"


def _where(expected: object, got: object, what: str) -> Iterator[str]:
    if expected != got:
        one, other = repr(expected), repr(got)
        at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        begin = max(0, at - 60)
        yield f"{what} differs: …{one[begin : at + 120]}… became …{other[begin : at + 120]}…"


def _media_type(seen: Seen) -> str:
    return seen.headers.get("content-type", "").partition(";")[0].strip()


def paths(documents: Sequence[Document], *, nulls: bool = True) -> frozenset[str]:
    """Every field that occurs, e.g. `choices[].delta.content`. Objects in lists share their names."""
    return frozenset(
        path for document in documents for path, value in _paths(document, "") if nulls or value is not None
    )


def _paths(value: object, at: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            path = f"{at}.{name}" if at else name
            yield path, inner
            yield from _paths(inner, path)
    elif isinstance(value, list):
        for inner in value:
            yield f"{at}[]", inner
            yield from _paths(inner, f"{at}[]")


def scrubbed(seen: Seen) -> Any:
    """Its JSON without what is new in every answer, and without nulls."""
    return _scrub(seen.documents)


def _scrub(value: Any) -> Any:
    if isinstance(value, Mapping):
        told = ((name, inner) for name, inner in value.items() if name not in _NEW_EACH_TIME and inner is not None)
        return {name: _scrub(inner) for name, inner in told}
    if isinstance(value, list | tuple):
        return [_scrub(inner) for inner in value]
    return value


# Ids of answers and of tool calls, the clock, and Dynamo's routing and timings.
_NEW_EACH_TIME: Final = frozenset({"id", "created", "timing"})


def _story(seen: Seen) -> Any:
    """A stream as the order of what was said, per choice, with neighbouring pieces of one kind joined.

    An engine that is behind puts several tokens into one chunk, so the cuts between pieces are nobody's promise.
    """
    told: dict[int, list[tuple[str, Any]]] = {}
    roots: list[tuple[str, Any]] = []
    for document in seen.documents:
        for choice in document.get("choices") or ():
            for kind, value in _events(choice):
                _join(told.setdefault(choice["index"], []), kind, value)
        if not document.get("choices"):
            roots.append(("no choices", _scrub(document)))
    return {**{index: told[index] for index in sorted(told)}, "rest": roots}


def _events(choice: Document) -> Iterator[tuple[str, Any]]:
    delta = choice.get("delta") or {}
    if "role" in delta:
        yield "role", delta["role"]
    for name in ("reasoning", "reasoning_content", "content"):
        if delta.get(name):
            yield name, delta[name]
    if choice.get("text"):
        yield "text", choice["text"]
    for call in delta.get("tool_calls") or ():
        function = call.get("function") or {}
        place = f"call {call.get('index')}"
        if function.get("name"):
            yield f"{place} begins", [function["name"], call.get("type")]
        if function.get("arguments"):
            yield f"{place} arguments", function["arguments"]
    if choice.get("finish_reason"):
        ending = {name: value for name, value in choice.items() if name in ("stop_reason", "matched_stop")}
        yield "finish", [choice["finish_reason"], ending]


def _join(told: list[tuple[str, Any]], kind: str, value: Any) -> None:
    if told and told[-1][0] == kind and isinstance(value, str):
        told[-1] = (kind, told[-1][1] + value)
    else:
        told.append((kind, value))

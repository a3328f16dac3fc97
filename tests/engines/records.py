"""Whether a trace tells of its call what was asked and what the agent got: everything but the tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.engines.agent import Seen
from tests.engines.cases import Case
from tests.engines.tokens import Trace


def differences(
    trace: Trace, case: Case, request: Mapping[str, Any], seen: Seen, *, engine: str, version: str
) -> Iterator[str]:
    expected = {
        "dialect": case.endpoint,
        "model": "tiny",
        "engine": engine,
        "status": "ok",
        "http_status": seen.status,
        "trace_id": seen.headers.get("x-trace-id"),
        "session_id": seen.headers.get("x-session-id"),
    }
    for name, value in expected.items():
        if trace[name] != value:
            yield f"{name} {trace[name]!r} is not {value!r}"
    if trace["engine_version"] not in (version, None):  # Dynamo's frontend does not tell.
        yield f"engine_version {trace['engine_version']!r} is not {version!r}"
    if trace["request"]["body"] != request:
        yield "the request was not recorded as it was sent"
    if (trace["plan"] == "whole") == bool(request.get("stream")):
        yield f"plan {trace['plan']!r} for stream={request.get('stream', False)}"
    yield from _choices(trace, seen)


def _choices(trace: Trace, seen: Seen) -> Iterator[str]:
    folded = seen.folded
    recorded = [
        (
            choice["index"],
            choice["text"] or "",
            choice["reasoning"] or "",
            tuple((call["name"], call["arguments"]) for call in choice["tool_calls"] or ()),
            choice["finish_reason"],
        )
        for choice in trace["choices"]
    ]
    given = [
        (spoken.index, spoken.text, spoken.reasoning, spoken.tool_calls, spoken.finish_reason)
        for spoken in folded.choices
    ]
    if recorded != given:
        yield f"recorded {recorded}, but the agent got {given}"
    if folded.usage is not None:
        counted = {name: (trace["usage"] or {}).get(name) for name in ("prompt_tokens", "completion_tokens")}
        if any(folded.usage[name] != value for name, value in counted.items()):
            yield f"usage {counted} is not the agent's {folded.usage}"

"""Sessions for the drift report: what an agent sent and a model said, as ids of the scripted servers' vocabulary."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from adapters.raw import NotJSON, open_object
from adapters.request import CanonicalRequest
from adapters.schema import Choice, RecordedRequest, Session, ToolCall, Trace
from adapters.scripts.speech import Speech, say
from adapters.scripts.template import Message as Templated
from adapters.scripts.template import prompt_ids
from adapters.scripts.vocabulary import decode, encode
from adapters.token_ids import TokenIds
from storage.samples.drift import Break, SessionDrift, drift_of

STARTED = datetime(2026, 11, 20, 8, tzinfo=UTC)
SESSION = Session("s", STARTED, run_id="run-1", metadata={"agent": "tester"})
Message = dict[str, Any]


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def tool(text: str) -> Message:
    return {"role": "tool", "tool_call_id": "call_0", "content": text}


def sent_back(speech: Speech, **changes: Any) -> Message:
    """An answer as an agent sends it back that changes nothing."""
    message: Message = {"role": "assistant", "content": speech.text("content")}
    if speech.text("reasoning"):
        message["reasoning_content"] = speech.text("reasoning")
    if speech.calls:
        message["tool_calls"] = [
            {"id": "call_0", "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in speech.calls
        ]
    return {key: value for key, value in {**message, **changes}.items() if value is not None}


def choice(speech: Speech, index: int = 0) -> Choice:
    return Choice(
        index,
        token_ids=TokenIds(speech.ids),
        text=speech.text("content"),
        reasoning=speech.text("reasoning") or None,
        tool_calls=tuple(ToolCall("call_0", call.name, call.arguments) for call in speech.calls) or None,
        finish_reason=speech.finish,
        stop_reason=speech.stop,
    )


def chat(
    turn: int,
    messages: Sequence[Message],
    *speeches: Speech,
    rendered: Sequence[Message] | None = None,
    body: dict[str, Any] | None = None,
    **fields: Any,
) -> Trace:
    """A call. `rendered`: the messages as the template writes them, where those are not the ones that were sent."""
    asked = {"model": "m", "messages": list(messages), **(body or {})}
    templated = msgspec.convert(list(messages if rendered is None else rendered), tuple[Templated, ...])
    values: dict[str, Any] = {
        "trace_id": f"t{turn}",
        "session_id": "s",
        "dialect": "chat",
        "status": "ok",
        "turn": turn,
        "started_at": STARTED + timedelta(seconds=turn),
        "duration_ms": 100.0,
        "request": RecordedRequest(json.dumps(asked).encode(), {"user-agent": "SDK/1.0"}),
        "prompt_token_ids": TokenIds(prompt_ids(templated, [msgspec.Raw(b"{}")] if asked.get("tools") else ())),
        "choices": tuple(choice(speech, index) for index, speech in enumerate(speeches or [say("Yes.")])),
        "fidelity": "exact",
    }
    return Trace(**{**values, **fields})


def completion(turn: int, prompt: str | Sequence[int], speech: Speech, **fields: Any) -> Trace:
    """A call of the endpoint that has no messages."""
    ids = encode(prompt) if isinstance(prompt, str) else tuple(prompt)
    asked = {"model": "m", "prompt": prompt if isinstance(prompt, str) else list(prompt)}
    return replace(
        chat(turn, [user("")], speech, **fields),
        dialect="completions",
        request=RecordedRequest(json.dumps(asked).encode()),
        prompt_token_ids=TokenIds(ids),
    )


def drift(*traces: Trace, tokenizer: bool = False, session: Session = SESSION) -> SessionDrift:
    return drift_of(session, traces, request_of, lambda trace: _decoded if tokenizer else None)


def request_of(trace: Trace) -> CanonicalRequest | None:
    """Of agents that speak chat or completions: as it stands."""
    try:
        fields = open_object(trace.request.body or b"")
    except NotJSON:
        return None
    return CanonicalRequest("chat" if "messages" in fields else "completions", fields, None)


def words(*traces: Trace, tokenizer: bool = False) -> list[str]:
    """What each call is."""
    return [call.continuity for call in drift(*traces, tokenizer=tokenizer).calls]


def only_break(*traces: Trace, tokenizer: bool = False) -> Break:
    [broken] = drift(*traces, tokenizer=tokenizer).breaks
    return broken


def _decoded(ids: TokenIds) -> str:
    return decode(ids.tolist())

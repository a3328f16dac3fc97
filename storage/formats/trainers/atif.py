"""A session as one ATIF 1.8 document (Harbor's Agent Trajectory Interchange Format), valid for the `atif` package.

A step for each call, with its ids and logprobs in `metrics`, and for each message that is new to it; what tools
answered is the `observation` of the step that called them. The first row is the document, further rows (sub-agents,
what came after a compaction, choices) are its `subagent_trajectories`. A call that another row trains is
`is_copied_context` in this one, as ATIF asks of what is not to be trained.

`metrics.logprobs` is absent where one was not told, `metrics.extra.logprobs` then has those that were. The agent's name
is what the session, the harness or the user agent says, else "unknown", as is a version that nobody told: ATIF wants
both. A tool call's `arguments` are {} where the model wrote no JSON object; its own text is in `extra`. What is no text
in a message stands in `extra.content`. The flat row without its arrays is each document's `extra.rollout`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from adapters.schema import Choice, Session, ToolCall, Trace
from storage.formats.row import Row
from storage.formats.trainers.conversation import Message, added, conversation
from storage.formats.trainers.parts import CannotShape, beside
from storage.samples.agents import agent_of, user_agent
from storage.samples.sample import Sample, SampledSpan

SCHEMA_VERSION: Final = "ATIF-v1.8"
_UNKNOWN: Final = "unknown"
_SYSTEM: Final = ("system", "developer")
_TOOL: Final = ("tool", "function")
_VERSION: Final = re.compile(r"[^/\s]+/([^\s;()]+)")


def trajectory(session: Session, traces: Sequence[Trace], samples: Sequence[Sample]) -> Row:
    """Of the session's samples, of which there is one at least. Raises CannotShape where one's trace is not given."""
    told = {trace.trace_id: trace for trace in traces}
    first, *others = (_document(session, told, sample) for sample in samples)
    return first | {"subagent_trajectories": others} if others else first


def _document(session: Session, traces: Mapping[str, Trace], sample: Sample) -> Row:
    calls = [(span, _trace_of(sample, span, traces)) for span in sample.spans]
    steps = _steps(sample, calls)
    return {
        "schema_version": SCHEMA_VERSION,
        "session_id": session.session_id,
        "trajectory_id": f"{session.session_id}/{sample.branch}",
        "agent": _agent(session, calls[-1][1]),
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": {
            "total_prompt_tokens": sum(span.start for span in sample.spans),
            "total_completion_tokens": sum(span.end - span.start for span in sample.spans),
            "total_steps": len(steps),
            "extra": {"reward": sample.reward},
        },
        "extra": {"rollout": beside(sample)},
    }


def _trace_of(sample: Sample, span: SampledSpan, traces: Mapping[str, Trace]) -> Trace:
    if span.trace_id not in traces:
        raise CannotShape(sample, f"ATIF tells what was said, and trace {span.trace_id} was not given")
    return traces[span.trace_id]


def _agent(session: Session, trace: Trace) -> Row:
    version = _VERSION.match(user_agent(trace))
    return _without_none(
        name=agent_of(session, trace) or _UNKNOWN,
        version=version.group(1) if version else _UNKNOWN,
        model_name=trace.served_model or trace.model,
        tool_definitions=conversation(trace.request).tools,
    )


def _steps(sample: Sample, calls: Sequence[tuple[SampledSpan, Trace]]) -> list[Row]:
    steps: list[Row] = []
    earlier: tuple[Message, ...] = ()
    for span, trace in calls:
        messages = conversation(trace.request).messages
        for message in added(earlier, messages):
            _add(steps, message)
        steps.append(_answer(sample, span, trace))
        earlier = messages
    return steps


def _add(steps: list[Row], message: Message) -> None:
    text, extra = _content(message.content)
    if message.role in _TOOL and steps and steps[-1]["source"] == "agent":
        called = {call["tool_call_id"] for call in steps[-1].get("tool_calls", ())}
        by = message.tool_call_id if message.tool_call_id in called else None
        results = steps[-1].setdefault("observation", {"results": []})["results"]
        results.append(_without_none(source_call_id=by, content=text, extra=extra))
    elif message.role == "assistant":
        steps.append(_without_none(source="agent", message=text, is_copied_context=True, extra=extra))
    else:
        source = "system" if message.role in _SYSTEM else "user"
        steps.append(_without_none(source=source, message=text, extra=extra))


def _answer(sample: Sample, span: SampledSpan, trace: Trace) -> Row:
    choice = next(choice for choice in trace.choices if choice.index == span.index)
    return _without_none(
        timestamp=trace.started_at.isoformat(),
        source="agent",
        model_name=trace.served_model or trace.model,
        message=choice.text or "",
        reasoning_content=choice.reasoning,
        tool_calls=[_tool_call(call) for call in choice.tool_calls] if choice.tool_calls else None,
        metrics=_metrics(sample, span, trace, choice),
        llm_call_count=1,
        is_copied_context=None if span.trained else True,
    )


def _tool_call(call: ToolCall) -> Row:
    return {
        "tool_call_id": call.id or "",
        "function_name": call.name or "",
        "arguments": _object(call.arguments),
        "extra": {"arguments": call.arguments},
    }


def _metrics(sample: Sample, span: SampledSpan, trace: Trace, choice: Choice) -> Row:
    ids = sample.token_ids.numpy()
    logprobs = choice.logprobs
    whole = logprobs is not None and None not in logprobs
    return _without_none(
        prompt_tokens=span.start,
        completion_tokens=span.end - span.start,
        cached_tokens=None if trace.usage is None else trace.usage.cached_tokens,
        prompt_token_ids=ids[: span.start],
        completion_token_ids=ids[span.start : span.end],
        logprobs=logprobs if whole else None,
        extra=_without_none(
            trace_id=trace.trace_id,
            index=span.index,
            fidelity=trace.fidelity,
            finish_reason=choice.finish_reason,
            stop_reason=choice.stop_reason,
            logprobs=None if whole else logprobs,
            first_token_ms=trace.first_token_ms,
            duration_ms=trace.duration_ms,
        ),
    )


def _content(content: object) -> tuple[str | list[Row], Row | None]:
    """As ATIF has it, and what it has no place for."""
    if content is None or isinstance(content, str):
        return content or "", None
    parts = content if isinstance(content, list) else []
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    beside = None if parts and len(texts) == len(parts) else {"content": content}
    return [{"type": "text", "text": text} for text in texts], beside


def _object(text: str | None) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text or "", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}


def _without_none(**told: Any) -> Row:
    return {name: value for name, value in told.items() if value is not None}

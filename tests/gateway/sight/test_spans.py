"""Spans of calls: what they say, whose children they are, and that they go out where that was asked for alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from starlette.types import Receive, Scope, Send

from gateway.asgi import headers_of, read_body, send_whole
from gateway.scripted import Fault, ScriptedServer, listening, running
from gateway.settings import load
from gateway.sight.tracing import spans_for
from tests.gateway.harness import gateway

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CANARY = "canary-91d2"
TRACEPARENT = "traceparent"


@dataclass
class Receiver:
    """An OTLP receiver, over HTTP."""

    spans: list[Span] = field(default_factory=list)
    services: set[str] = field(default_factory=set)
    bodies: bytes = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["path"] == "/v1/traces"
        body = await read_body(receive, headers_of(scope), 1 << 20, seconds=5)
        self.bodies += body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            told = {each.key: each.value.string_value for each in resource.resource.attributes}
            self.services.add(told["service.name"])
            self.spans += [span for scope_ in resource.scope_spans for span in scope_.spans]
        await send_whole(send, 200, b"", [("content-type", "application/x-protobuf")])


@asynccontextmanager
async def receiving() -> AsyncIterator[tuple[Receiver, str]]:
    receiver = Receiver()
    async with listening(receiver) as url:
        yield receiver, url


def facts(span: Span) -> dict[str, object]:
    told: dict[str, object] = {}
    for each in span.attributes:
        kind = each.value.WhichOneof("value")
        assert kind is not None
        value = getattr(each.value, kind)
        told[each.key] = [one.string_value for one in value.values] if kind == "array_value" else value
    return told


async def test_a_call_is_a_span_by_the_conventions_and_the_backend_is_told_to_go_on_from_it(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as url, receiving() as (receiver, collector):
        backend = f"{url},engine=vllm,version=0.32.0,name=a"
        async with gateway(tmp_path, backend, otlp_endpoint=collector) as served:
            said = {"messages": [{"role": "user", "content": CANARY}], "temperature": 0.5, "stream": True}
            secrets = {"cookie": CANARY, "authorization": f"Bearer {CANARY}", "x-api-key": CANARY}
            answer = await served.chat(session="s1", headers={"traceparent": PARENT, **secrets}, **said)
            trace = await served.trace(answer)
    [span] = receiver.spans
    assert receiver.services == {"rollout-gateway"}
    assert span.name == "chat scripted"
    assert span.kind == Span.SPAN_KIND_CLIENT
    assert span.trace_id.hex() in PARENT
    assert span.parent_span_id.hex() in PARENT
    assert dict(server.calls[-1].headers)[TRACEPARENT] == f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"
    told = facts(span)
    assert {name: told[name] for name in told if name.startswith("gen_ai.")} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm",
        "gen_ai.conversation.id": "s1",
        "gen_ai.request.model": "scripted",
        "gen_ai.request.max_tokens": 32,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.response.model": "scripted",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.response.time_to_first_chunk": trace["first_token_ms"] / 1e3,
        "gen_ai.usage.input_tokens": trace["usage"]["prompt_tokens"],
        "gen_ai.usage.output_tokens": trace["usage"]["completion_tokens"],
        "gen_ai.usage.reasoning.output_tokens": 0,
    }
    assert told["rollout_gateway.trace_id"] == trace["trace_id"]
    assert told["rollout_gateway.fidelity"] == "exact"
    assert [event.name for event in span.events] == ["rollout_gateway.attempt"]
    assert CANARY.encode() not in receiver.bodies


async def test_a_call_that_fails_is_an_error_without_the_words_of_it(tmp_path: Path) -> None:
    server = ScriptedServer("vllm", fault=Fault(status=500, body=f'{{"message": "{CANARY}"}}'.encode()))
    async with running(server) as url, receiving() as (receiver, collector):
        settings = f"{url},engine=vllm,version=0.32.0"
        async with gateway(tmp_path, settings, otlp_endpoint=collector) as served:
            assert CANARY in (await served.chat()).text
    [span] = receiver.spans
    assert span.status.code == span.status.STATUS_CODE_ERROR
    assert not span.status.message
    assert facts(span)["error.type"]
    assert facts(span)["http.response.status_code"] == 500
    assert CANARY.encode() not in receiver.bodies


async def test_a_receiver_that_is_away_costs_no_call_anything(tmp_path: Path) -> None:
    async with receiving() as (_, collector):
        pass
    async with (
        running(ScriptedServer("vllm")) as url,
        gateway(tmp_path, f"{url},engine=vllm,version=0.32.0", otlp_endpoint=collector) as served,
        asyncio.timeout(5),
    ):
        assert (await served.chat()).status_code == 200


async def test_without_spans_what_the_agent_sent_goes_on_as_it_came(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as url, gateway(tmp_path, f"{url},engine=vllm,version=0.32.0") as served:
        await served.chat(headers={"traceparent": PARENT})
    assert dict(server.calls[-1].headers)[TRACEPARENT] == PARENT


def test_there_are_spans_only_where_they_were_asked_for() -> None:
    settings = load(environ={})
    assert spans_for(settings, {}) is None
    asked = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    assert spans_for(settings, asked | {"OTEL_SDK_DISABLED": "true"}) is None
    spans = spans_for(settings, asked)
    assert spans is not None
    spans.close()

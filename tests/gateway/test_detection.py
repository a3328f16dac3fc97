"""Detection over real sockets: what each scripted engine is found to be, and by how little asking."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.backend import Backend
from gateway.detection import Detection
from gateway.scripted.faults import Fault
from gateway.scripted.server import ScriptedServer, running
from gateway.settings.backend import BackendSettings
from gateway.upstream import Upstream, UpstreamError


@pytest.fixture
async def detection() -> AsyncIterator[Detection]:
    async with Upstream(connect_timeout=2.0) as upstream:
        yield Detection(upstream, timeout=2.0)


@pytest.mark.parametrize(
    ("engine", "version", "variant", "features", "found"),
    [
        ("vllm", "0.33.0", None, {"token_ids", "weight_versions"}, "detected"),
        ("vllm", "0.11.0", None, {"token_ids"}, "detected"),
        ("sglang", "0.5.23", None, {"token_ids", "sglext"}, "detected"),
        ("sglang", "0.5.9", "agentcore", {"patched_token_ids"}, "probed"),
        ("sglang", "0.5.11", "llm360", {"completion_token_ids"}, "probed"),
        ("dynamo", None, "vllm", {"completion_token_ids", "engine_data", "completion_logprobs"}, "probed"),
        ("openai", None, None, {"usage"}, "assumed"),
    ],
)
async def test_a_server_is_found_to_be_what_it_is(
    detection: Detection, engine: str, version: str | None, variant: str | None, features: set[str], found: str
) -> None:
    given = None if engine == "dynamo" else variant
    server = ScriptedServer(engine, version=version, variant=given, model="m")
    async with running(server) as url:
        detected = await detection.detect(Backend(BackendSettings(url=url)))
    assert (detected.engine, detected.variant, detected.known, detected.models) == (engine, variant, found, ("m",))
    if version is not None:
        assert detected.version == version
    assert features <= detected.features


async def test_a_configured_server_is_not_sampled_from(detection: Detection) -> None:
    server = ScriptedServer("dynamo", model="m")
    async with running(server) as url:
        settings = BackendSettings(url=url, engine="dynamo", variant="vllm")
        detected = await detection.detect(Backend(settings))
    assert (detected.variant, detected.known) == ("vllm", "configured")
    assert not server.calls


async def test_a_server_that_cannot_be_reached_is_an_error(detection: Detection) -> None:
    with pytest.raises(UpstreamError):
        await detection.detect(Backend(BackendSettings(url="http://127.0.0.1:9")))


async def test_a_probe_that_fails_leaves_what_was_heard(detection: Detection) -> None:
    server = ScriptedServer("dynamo", model="m", fault=Fault(status=500))
    async with running(server) as url:
        detected = await detection.detect(Backend(BackendSettings(url=url)))
    assert (detected.engine, detected.variant, detected.known) == ("dynamo", None, "detected")
    assert "completion_token_ids" in detected.features

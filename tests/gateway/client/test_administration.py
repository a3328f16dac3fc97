"""Backends and the gateway's own state."""

from __future__ import annotations

import pytest

from adapters.server import Server
from gateway.client import Conflict, InvalidCall, NotFound, Unavailable
from tests.gateway.client.harness import Reached


def test_backends_are_added_probed_listed_and_removed(gateway: Reached) -> None:
    gateway.api.detector.servers["http://gpu-1:8000"] = Server("vllm", version="0.32.0", known="detected")
    added = gateway.client.add_backend("http://gpu-1:8000", name="a/b", models=["qwen*"])
    assert (added.name, added.engine, added.version, added.models) == ("a/b", "vllm", "0.32.0", ("qwen*",))
    assert gateway.client.probe_backend("a/b").health == "up"
    assert [backend.name for backend in gateway.client.backends()] == ["a/b"]
    with pytest.raises(Conflict, match="exists already"):
        gateway.client.add_backend("http://gpu-1:8000", name="a/b")
    gateway.client.remove_backend("a/b")
    assert gateway.client.backends() == ()
    with pytest.raises(NotFound):
        gateway.client.remove_backend("a/b")


def test_a_backend_that_is_not_there_is_told_as_such(gateway: Reached) -> None:
    with pytest.raises(Unavailable) as caught:
        gateway.client.add_backend("http://gpu-2:8000")
    assert (caught.value.status, caught.value.code) == (502, "backend_unreachable")
    with pytest.raises(InvalidCall, match="url"):
        gateway.client.add_backend("gpu-2:8000")


def test_a_gateway_tells_how_it_does(gateway: Reached) -> None:
    status = gateway.client.status()
    assert status.gateway_id == "gateway-1"
    assert (status.calls.answered, status.calls.recorded, status.calls.in_flight) == (3, 3, 0)
    assert status.store["writer_alive"] is True

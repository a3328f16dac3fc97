"""What is sent to each engine so that it pauses, goes on and empties its caches (wire formats of each version)."""

from __future__ import annotations

import pytest

from adapters.control import Action, Command, EnginePause, NotOffered
from adapters.engines import ENGINES, adapter_for


def command(engine: str, version: str | None, action: Action, mode: EnginePause = "wait") -> Command:
    adapter = adapter_for(engine)
    return adapter.control(action, mode, adapter.server(version))


@pytest.mark.parametrize(
    ("engine", "version", "mode", "path", "body"),
    [
        ("vllm", "0.33.0", "wait", "/pause?mode=wait&clear_cache=true", b""),
        ("vllm", "0.33.0", "keep", "/pause?mode=keep&clear_cache=true", b""),
        ("vllm", "0.16.0", "abort", "/pause?mode=abort&clear_cache=true", b""),
        ("vllm", "0.12.0", "wait", "/pause?wait_for_inflight_requests=true&clear_cache=true", b""),
        ("vllm", "0.15.1", "abort", "/pause?wait_for_inflight_requests=false&clear_cache=true", b""),
        ("vllm", None, "wait", "/pause?mode=wait&wait_for_inflight_requests=true&clear_cache=true", b""),
        ("sglang", "0.5.23", "keep", "/pause_generation", b'{"mode":"in_place"}'),
        ("sglang", "0.5.23", "abort", "/pause_generation", b'{"mode":"abort"}'),
        ("dynamo", "1.6.1", "keep", "/engine/pause_generation", b'{"mode":"keep","clear_cache":true}'),
        ("dynamo", None, "wait", "/engine/pause_generation", b'{"mode":"wait","clear_cache":true}'),
    ],
)
def test_a_pause_is_asked_for_as_the_engines_version_has_it(
    engine: str, version: str | None, mode: EnginePause, path: str, body: bytes
) -> None:
    asked = command(engine, version, "pause", mode)
    assert (asked.path, asked.body) == (path, body)


@pytest.mark.parametrize(
    ("engine", "resume", "flush"),
    [
        ("vllm", ("/resume", b""), ("/reset_prefix_cache", b"")),
        ("sglang", ("/continue_generation", b"{}"), ("/flush_cache", b"")),
        ("dynamo", ("/engine/resume_generation", b"{}"), ("/engine/flush_cache", b"{}")),
    ],
)
def test_going_on_and_empty_caches_have_a_path_of_their_own(
    engine: str, resume: tuple[str, bytes], flush: tuple[str, bytes]
) -> None:
    for action, told in (("resume", resume), ("flush", flush)):
        asked = command(engine, None, action)  # type: ignore[arg-type]
        assert (asked.path, asked.body) == told


@pytest.mark.parametrize(
    ("engine", "version", "mode", "words"),
    [
        ("vllm", "0.11.0", "wait", "came with 0.12"),
        ("vllm", "0.15.1", "keep", "can't keep requests"),
        ("vllm", None, "keep", "can't keep requests"),
        ("sglang", "0.5.23", "wait", "no pause that waits"),
        ("openai", None, "wait", "no way to pause"),
    ],
)
def test_what_an_engine_does_not_have_is_said_and_nothing_else_is_sent(
    engine: str, version: str | None, mode: EnginePause, words: str
) -> None:
    with pytest.raises(NotOffered, match=words):
        command(engine, version, "pause", mode)


def test_no_engine_without_a_way_to_pause_is_sent_one() -> None:
    with_one = set()
    for engine in ENGINES:
        try:
            command(engine, None, "resume")
            with_one.add(engine)
        except NotOffered:
            pass
    assert with_one == {"vllm", "sglang", "dynamo"}

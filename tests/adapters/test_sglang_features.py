"""How an SGLang is known, and its versions, fork and patch are told apart, by its replies."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from adapters.detect import Configured, Reply
from adapters.engines import corrected, identify, probes
from adapters.server import Server

NOTHING = Configured()
NOT_FOUND = Reply(404, body=b'{"detail":"Not Found"}')
# The models as recorded from the real 0.5.9 and 0.5.23; the rest as its source has it.
MODELS = Reply(
    200,
    {"server": "uvicorn"},
    b'{"object":"list","data":[{"id":"tiny","object":"model","created":1795254926,"owned_by":"sglang","root":"tiny",'
    b'"parent":null,"max_model_len":2048}]}',
)


def replies(version: str) -> Mapping[str, Reply]:
    info = {"model_path": "tiny", "tool_call_parser": "qwen25", "internal_states": [{}], "version": version}
    return {
        "/v1/models": MODELS,
        "/version": NOT_FOUND,
        "/server_info": Reply(200, body=json.dumps(info).encode()),
        "/model_info": Reply(200, body=b'{"model_path":"tiny","weight_version":"default"}'),
        "/health": Reply(200),
    }


def answer(choice: dict[str, object], **root: object) -> Reply:
    body = {"choices": [{"index": 0, "message": {"content": "H"}, **choice}], **root}
    return Reply(200, body=json.dumps(body).encode())


def known(version: str, whole: Reply, sglext: Reply) -> Server:
    server = identify(replies(version), NOTHING)
    asked, other = probes(server)
    return corrected(server, {asked.key: whole, other.key: sglext})


def test_an_sglang_is_known_by_the_owner_of_its_models_and_tells_its_version() -> None:
    server = identify(replies("0.5.23"), NOTHING)
    assert (server.engine, server.version, server.variant) == ("sglang", "0.5.23", None)
    assert (server.models, server.known) == (("tiny",), "detected")
    assert {"token_ids", "sglext", "meta_info"} <= server.features
    assert probes(server) == ()


@pytest.mark.parametrize("left", ["/server_info", "/model_info"])
def test_an_sglang_whose_models_have_another_owner_is_known_by_what_it_says_of_itself(left: str) -> None:
    models = Reply(200, body=MODELS.body.replace(b'"sglang"', b'"acme"'))
    server = identify({"/v1/models": models, "/health": Reply(200), left: replies("0.5.23")[left]}, NOTHING)
    assert (server.engine, server.models) == ("sglang", ("tiny",))
    assert server.version == ("0.5.23" if left == "/server_info" else None)


@pytest.mark.parametrize(
    "info", [b"", b"{}", b"[]", b'{"version":"0.33.0"}', b'{"vllm_config":"","version":"0.33.0"}', b"<html>", b"\xff"]
)
def test_other_servers_information_is_not_taken_for_an_sglangs(info: bytes) -> None:
    server = identify({"/server_info": Reply(200, body=info), "/model_info": Reply(200, body=info)}, NOTHING)
    assert server.engine != "sglang"


@pytest.mark.parametrize("version", ["0.5.9", "0.5.12.post1", "0.5.14.dev20+g0a1b2c3", "0.0.0.dev1+g0a1b2c3", "main"])
def test_where_the_version_leaves_it_open_two_whole_chats_are_asked(version: str) -> None:
    whole, sglext = probes(identify(replies(version), NOTHING))
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    assert json.loads(whole.body or b"") == {
        **chat,
        "return_token_ids": True,
        "return_prompt_token_ids": True,
        "return_completion_token_ids": True,
        "return_meta_info": True,
    }
    assert json.loads(sglext.body or b"") == {
        **chat,
        "return_input_ids_in_sglext": True,
        "return_output_ids_in_sglext": True,
    }


def test_ids_that_nobody_asked_for_show_the_agentcore_patch() -> None:
    told = answer({"token_ids": [9707]}, prompt_token_ids=[1, 2])
    server = known("0.5.9", told, told)
    assert (server.variant, server.version, server.known) == ("agentcore", "0.5.9", "probed")
    assert server.features == {"logprobs", "usage", "patched_token_ids"}
    assert server.models == ("tiny",)


def test_completion_token_ids_show_llm360s_fork() -> None:
    told = answer({"completion_token_ids": [9707], "prompt_token_ids": [1, 2], "meta_info": {"id": "r"}})
    server = known("0.5.11.dev3", told, answer({}))
    assert (server.variant, server.known) == ("llm360", "probed")
    assert server.features == {"logprobs", "usage", "prompt_token_ids", "meta_info", "completion_token_ids"}


def test_an_upstream_below_0_5_13_that_tells_nothing_is_taken_at_its_word() -> None:
    server = known("0.5.12", answer({}), answer({}))
    assert (server.variant, server.known, server.features) == (None, "probed", {"logprobs", "usage"})
    assert probes(server) == ()


def test_a_build_of_no_release_is_known_by_what_it_answers() -> None:
    told = answer({"response_token_ids": [1], "prompt_token_ids": [2], "meta_info": {"id": "r"}})
    with_sglext = known("main", told, answer({}, sglext={"output_ids": [[1]]}))
    without = known("main", told, answer({}))
    assert with_sglext.features - without.features == {"sglext"}
    assert without.features == {"logprobs", "usage", "token_ids", "prompt_token_ids", "meta_info"}


@pytest.mark.parametrize(
    "reply", [Reply(500), Reply(400, body=b'{"object":"error","message":"no"}'), Reply(200, body=b"[]"), Reply(200)]
)
def test_a_probe_that_failed_teaches_nothing(reply: Reply) -> None:
    server = identify(replies("0.5.9"), NOTHING)
    assert known("0.5.9", reply, reply) == server
    assert corrected(server, {}) == server


def test_the_configured_variant_is_not_asked_for() -> None:
    server = identify(replies("0.5.9"), Configured(engine="sglang", variant="agentcore"))
    assert (server.version, server.variant, server.known) == ("0.5.9", "agentcore", "configured")
    assert "patched_token_ids" in server.features
    assert probes(server) == ()


def test_a_configured_version_needs_no_server_that_answers() -> None:
    server = identify({}, Configured(engine="sglang", version="0.5.20", models=("m",)))
    assert "sglext" in server.features
    assert probes(server) == ()

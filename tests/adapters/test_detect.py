"""Which engine a server is, by its replies to the plain questions and to its engine's probes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from adapters.detect import QUESTIONS, Configured, Question, Replies, Reply
from adapters.engines import ENGINES, UnknownEngine, corrected, identify, probes
from adapters.server import Server

EMPTY = Reply(200)
NOT_FOUND = Reply(404, body=b'{"detail":"Not Found"}')
NOTHING = Configured()

# As recorded from the real 0.32.0; its models as its source has them.
VLLM: Mapping[str, Reply] = {
    "/v1/models": Reply(
        200,
        {"server": "uvicorn"},
        b'{"object":"list","data":[{"id":"tiny","object":"model","created":1795253488,"owned_by":"vllm","root":"tiny",'
        b'"parent":null,"max_model_len":2048,"permission":[]}]}',
    ),
    "/version": Reply(200, {"server": "uvicorn"}, b'{"version":"0.32.0"}'),
    "/server_info": NOT_FOUND,
    "/health": EMPTY,
}
TEXT_ONLY: Mapping[str, Reply] = {
    "/v1/models": Reply(200, body=b'{"object":"list","data":[{"id":"local","object":"model","owned_by":"me"}]}'),
}


def asked(question: Question) -> dict[str, object]:
    assert question.body is not None
    fields: dict[str, object] = msgspec.json.decode(question.body)
    return fields


def test_the_plain_questions_change_nothing_at_a_server() -> None:
    assert all(question.body is None for question in QUESTIONS)


def test_a_vllm_is_known_by_the_owner_of_its_models_and_its_version() -> None:
    server = identify(VLLM, NOTHING)
    assert (server.engine, server.version, server.models) == ("vllm", "0.32.0", ("tiny",))
    assert server.known == "detected"
    assert {"token_ids", "silent_token_ids"} <= server.features
    assert "weight_versions" not in server.features


def test_a_released_vllm_needs_no_probe() -> None:
    assert probes(identify(VLLM, NOTHING)) == ()


def test_a_vllm_whose_models_have_another_owner_is_known_by_its_version_and_asked_for_ids() -> None:
    models = VLLM["/v1/models"].body.replace(b'"vllm"', b'"acme"')
    server = identify({**VLLM, "/v1/models": Reply(200, body=models)}, NOTHING)
    assert (server.engine, server.known) == ("vllm", "assumed")
    [probe] = probes(server)
    assert asked(probe) == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 1,
        "return_token_ids": True,
    }


def test_a_vllm_built_from_source_is_asked_for_ids_and_taken_at_its_answer() -> None:
    built = identify({**VLLM, "/version": Reply(200, body=b'{"version":"0.1.dev1+gabc"}')}, NOTHING)
    [probe] = probes(built)
    with_ids = Reply(200, body=b'{"choices":[{"index":0,"message":{},"token_ids":[9707]}],"prompt_token_ids":[1]}')
    without = Reply(200, body=b'{"choices":[{"index":0,"message":{}}]}')
    assert "token_ids" in corrected(built, {probe.key: with_ids}).features
    assert "token_ids" not in corrected(built, {probe.key: without}).features
    assert corrected(built, {probe.key: without}).known == "probed"


def test_a_probe_that_is_refused_or_not_answered_teaches_nothing() -> None:
    built = identify({**VLLM, "/version": NOT_FOUND}, NOTHING)
    [probe] = probes(built)
    refused = Reply(400, body=b'{"error":{"message":"this model has no chat template"}}')
    assert corrected(built, {}) == built
    assert corrected(built, {probe.key: refused}) == built


def test_no_probe_is_made_up_for_a_server_that_names_no_model() -> None:
    assert probes(Server("vllm", models=())) == ()
    assert probes(Server("vllm", models=("qwen*",))) == ()


def test_any_other_server_gives_text_alone() -> None:
    server = identify(TEXT_ONLY, NOTHING)
    assert (server.engine, server.models, server.known) == ("openai", ("local",), "assumed")
    assert probes(server) == ()


def test_the_configuration_has_the_last_word_on_everything_it_names() -> None:
    server = identify(
        VLLM, Configured(engine="vllm", version="0.12.0", features=frozenset({"no_parsers"}), models=("qwen*",))
    )
    assert (server.version, server.models, server.known) == ("0.12.0", ("qwen*",), "configured")
    assert "no_parsers" in server.features
    assert "silent_token_ids" not in server.features
    assert probes(server) == ()


def test_a_configured_engine_still_hears_version_and_models() -> None:
    server = identify(VLLM, Configured(engine="openai"))
    assert (server.engine, server.version, server.models) == ("openai", "0.32.0", ("tiny",))


def test_a_configured_engine_needs_no_server_that_answers() -> None:
    assert identify({}, Configured(engine="vllm", models=("m",))).models == ("m",)


def test_an_engine_that_nobody_knows_is_an_error_that_names_those_that_are_known() -> None:
    with pytest.raises(UnknownEngine, match=r"vlm.*vllm"):
        identify(VLLM, Configured(engine="vlm"))


GARBAGE = (
    b"",
    b"null",
    b"[]",
    b"{",
    b"\xff\xfe",
    b'{"data":null}',
    b'{"data":[null]}',
    b'{"data":[{"id":5}]}',
    b'{"data":[{"id":"m","owned_by":7}]}',
    b'{"version":1}',
    b'{"version":{}}',
    b'{"choices":[]}',
    b'{"choices":[{}]}',
    b'{"choices":[[]]}',
    b'{"choices":{"a":1}}',
    b"<html>hello</html>",
    b"[" * 5000,
)


@pytest.mark.parametrize("body", GARBAGE)
def test_garbage_is_nobodys_reply_and_breaks_nothing(body: bytes) -> None:
    replies: Replies = {question.key: Reply(200, body=body) for question in QUESTIONS}
    heard = identify(replies, NOTHING)
    assert heard.engine in ENGINES
    for engine in ENGINES:
        server = identify(replies, Configured(engine=engine, models=("m",)))
        answers = {probe.key: Reply(200, body=body) for probe in probes(server)}
        assert corrected(server, answers).engine == engine

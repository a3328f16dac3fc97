"""By what a Dynamo is known, and what its probes teach."""

from __future__ import annotations

import json
from typing import Any

from adapters.detect import Configured, Replies, Reply
from adapters.engines import corrected, identify, probes
from tests.adapters.dynamo import VLLM_WORKER

HEALTH = (
    b'{"status":"healthy","endpoints":["dyn://dynamo.backend.generate"],"instances":[{"component":"backend",'
    b'"endpoint":"generate","namespace":"dynamo","instance_id":15972749464294392666}]}'
)
MODELS = (
    b'{"object":"list","data":[{"id":"tiny","object":"model","created":1795255398,"owned_by":"nvidia",'
    b'"context_window":2048}]}'
)
NO_ROUTE = Reply(404, body=b'{"message":"Route not found: GET /version","type":"Not Found","code":404}')
REPLIES: Replies = {"/v1/models": Reply(200, body=MODELS), "/version": NO_ROUTE, "/health": Reply(200, body=HEALTH)}


def test_it_is_known_by_its_health_or_by_the_owner_of_all_its_models() -> None:
    renamed = {**REPLIES, "/v1/models": Reply(200, body=MODELS.replace(b"nvidia", b"acme"))}
    for replies in (REPLIES, renamed, {"/v1/models": REPLIES["/v1/models"]}):
        server = identify(replies, Configured())
        assert (server.engine, server.version, server.models, server.known) == ("dynamo", None, ("tiny",), "detected")


def test_nvidias_hosted_models_are_not_a_dynamo() -> None:
    listed = b'{"data":[{"id":"a","owned_by":"nvidia"},{"id":"b","owned_by":"meta"}]}'
    assert identify({"/v1/models": Reply(200, body=listed)}, Configured()).engine == "openai"


def test_its_probes_send_what_its_plans_would() -> None:
    asked = {
        probe.key: (probe.path, json.loads(probe.body or b"")) for probe in probes(identify(REPLIES, Configured()))
    }
    hi = [{"role": "user", "content": "Hi"}]
    chat = {"model": "tiny", "messages": hi, "max_tokens": 1}
    assert asked == {
        "ids": (
            "/v1/chat/completions",
            {**chat, "nvext": {"extra_fields": ["completion_token_ids", "prompt_token_ids", "engine_data"]}},
        ),
        "logprobs": ("/v1/chat/completions", {**chat, "logprobs": True, "top_logprobs": 0}),
        "completion_logprobs": (
            "/v1/completions",
            {"model": "tiny", "prompt": "Hi", "max_tokens": 1, "logprobs": 1},
        ),
    }


def test_a_configured_worker_is_not_probed() -> None:
    server = identify(REPLIES, Configured(engine="dynamo", variant="vllm"))
    assert probes(server) == ()
    assert server.features == VLLM_WORKER.features


def answered(**nvext: Any) -> Reply:
    choice = {"index": 0, "message": {}, "logprobs": None}
    return Reply(200, body=json.dumps({"choices": [choice], "nvext": nvext}).encode())


LOGPROBS = Reply(200, body=b'{"choices":[{"index":0,"logprobs":{"content":[]}}]}')
TOKEN_LOGPROBS = Reply(200, body=b'{"choices":[{"index":0,"logprobs":{"token_logprobs":[-0.5]}}]}')


def test_a_vllm_worker_is_known_by_the_ids_in_its_engine_data() -> None:
    heard = identify(REPLIES, Configured())
    ids = answered(
        completion_token_ids=[5], prompt_token_ids=[1], engine_data={"completion_token_ids": [5], "finished": True}
    )
    server = corrected(heard, {"ids": ids, "logprobs": LOGPROBS, "completion_logprobs": TOKEN_LOGPROBS})
    assert (server.variant, server.known) == ("vllm", "probed")
    assert server.features == VLLM_WORKER.features


def test_another_worker_gives_no_ids_in_its_engine_data_and_may_refuse_logprobs() -> None:
    heard = identify(REPLIES, Configured())
    ids = answered(completion_token_ids=[5], engine_data={"kv_cache_hit": 0})
    refusal = Reply(500, body=b'{"message":"does not currently support logprobs >= 1"}')
    server = corrected(heard, {"ids": ids, "logprobs": LOGPROBS, "completion_logprobs": refusal})
    assert server.variant is None
    # A frontend of before `prompt_token_ids`: its traces are `partial`, and say that the prompt's ids are missing.
    assert server.features == {"usage", "completion_token_ids", "logprobs", "tokens_as_token_ids"}


def test_a_busy_server_teaches_nothing_about_logprobs() -> None:
    heard = identify(REPLIES, Configured())
    busy = Reply(529, body=b'{"message":"overloaded"}')
    server = corrected(heard, {"ids": answered(completion_token_ids=[5], prompt_token_ids=[1]), "logprobs": busy})
    assert "logprobs" in server.features
    assert corrected(heard, {"ids": busy, "logprobs": busy}) == heard

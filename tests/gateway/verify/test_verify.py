"""`verify` against scripted servers: what passes, what fails, what can't be told."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence

import pytest
from pydantic import SecretStr

from adapters.answer import AnswerReader
from adapters.engines import adapter_for
from adapters.scripts import vocabulary
from adapters.scripts.asked import Asked
from adapters.scripts.replies import fixed, small_talk
from adapters.scripts.speech import Called, Speech, say
from adapters.token_ids import TokenIds
from gateway.commands.errors import CommandFailed
from gateway.scripted import Fault, ReplayServer, ScriptedServer, free_port, running
from gateway.settings import BackendSettings
from gateway.verify import main
from gateway.verify.asking import Asker, Heard
from gateway.verify.checks import CHECKS
from gateway.verify.finding import Finding
from gateway.verify.report import Report, show, write_json
from gateway.verify.run import verify
from tests.adapters.cases import planned

CALL = fixed(say(calls=[Called("get_weather", '{"city": "Paris"}')]))


class Vocabulary:
    """The scripted servers' own."""

    def decode(self, ids: TokenIds) -> str:
        return vocabulary.decode(ids)


async def verified(server: ScriptedServer, **told: str) -> Report:
    async with running(server) as url:
        return await verify(BackendSettings(url=url, **told), model=None, decoder=Vocabulary())


def results(report: Report) -> dict[str, str]:
    return {row.check.name: row.finding.result for row in report.rows}


async def test_a_server_that_tells_all_passes_all() -> None:
    report = await verified(ScriptedServer("vllm"))
    assert set(results(report).values()) == {"pass"}
    assert report.exit_status == 0
    assert report.server is not None
    assert (report.server.engine, report.server.version, report.model) == ("vllm", "0.33.0", "scripted")


async def test_it_says_what_the_gateway_would_capture() -> None:
    report = await verified(ScriptedServer("vllm"))
    assert report.captured == (
        "whole: plan whole, ids exact at choices[].token_ids, logprobs exact",
        "streamed: plan streamed, ids exact at choices[].token_ids, logprobs exact",
    )


async def test_where_streams_are_buffered_it_says_what_one_would_give() -> None:
    report = await verified(ScriptedServer("sglang"))
    assert [sentence.partition(", logprobs")[0] for sentence in report.captured] == [
        "whole: plan whole, ids exact at choices[].response_token_ids",
        "streamed: plan buffered, ids exact at choices[].response_token_ids",
        "streamed with capture `ids`: plan streamed, ids exact at sglext.output_ids[]",
        "streamed with capture `stream`: plan streamed, ids exact at sglext.output_ids[]",
    ]
    assert "logprobs none" in report.captured[-1]


async def test_a_server_that_tells_text_alone_fails_nothing() -> None:
    report = await verified(ScriptedServer("openai"))
    assert set(results(report).values()) == {"can't"}
    assert report.exit_status == 0


async def test_ids_lost_in_streamed_tool_calls_are_found() -> None:
    # It says of itself a version in which that was mended.
    report = await verified(ScriptedServer("vllm", version="0.12.0", reply=CALL), engine="vllm", version="0.33.0")
    tools = next(row.finding for row in report.rows if row.check.name == "tools")
    assert tools.result == "fail"
    assert "ids and counts" in tools.reason
    assert report.exit_status == 1


async def test_the_buffered_plan_makes_the_same_server_pass() -> None:
    report = await verified(ScriptedServer("vllm", version="0.12.0", reply=CALL))
    assert results(report)["tools"] == "pass"
    assert "streams are buffered" in next(
        row.finding.reason for row in report.rows if row.check.name == "streamed as whole"
    )


async def test_a_text_that_its_ids_do_not_say_is_found() -> None:
    class Wrong:
        def decode(self, ids: TokenIds) -> str:
            return "something else"

    async with running(ScriptedServer("vllm")) as url:
        report = await verify(BackendSettings(url=url), model=None, decoder=Wrong())
    assert results(report)["ids and text"] == "fail"


async def test_a_server_without_logprobs_is_not_blamed_for_their_lack() -> None:
    """Dynamo's mocker is one: a probe showed that it gives none."""
    assert await found("logprobs", ONE_CHOICE) == Finding("can't", "the server gives none, so none are asked for")


async def test_a_server_that_knows_no_n_is_not_taken_for_one_that_mixes_choices() -> None:
    """Dynamo's mocker and mlx-lm give one; two in one place are more ids than one choice has."""
    assert await found("n = 2", ONE_CHOICE) == Finding("can't", "the server gives one choice, whatever n is")
    mixed = await found("n = 2", ONE_CHOICE.replace(b'"completion_tokens":1', b'"completion_tokens":2'))
    assert mixed == Finding("fail", "a whole answer has 1 ids and counts 2")


ONE_CHOICE = (
    b'{"choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop","token_ids":[13048]}],'
    b'"prompt_token_ids":[9707],"usage":{"prompt_tokens":1,"completion_tokens":1}}'
)


async def found(name: str, body: bytes) -> Finding:
    """By one check, of a server that answers everything so and is known to give no logprobs."""
    plan, _ = planned({"model": "m", "messages": []}, adapter_for("vllm").server("0.33.0", without={"logprobs"}))
    heard = Heard(plan, AnswerReader(plan).whole(body))

    class Recorded(Asker):
        def __init__(self) -> None: ...

        async def both(self, prompt: str, **fields: object) -> tuple[Heard, Heard]:
            return heard, heard

    return await next(check for check in CHECKS if check.name == name).finding(Recorded(), None)


async def test_a_refusal_is_told_in_the_servers_words() -> None:
    def fault_for(server: ScriptedServer) -> None:
        server.fault = Fault(status=400, body=b'{"error":{"message":"not today","type":"x","code":400}}')

    server = ScriptedServer("vllm")
    async with running(server) as url:
        fault_for(server)
        report = await verify(BackendSettings(url=url, engine="vllm", version="0.33.0"), model="scripted", decoder=None)
    assert set(results(report).values()) == {"can't"}
    assert "not today" in report.rows[0].finding.reason


async def test_a_broken_answer_is_a_failure() -> None:
    server = ScriptedServer("vllm", fault=Fault(after_bytes=40))
    report = await verified(server, engine="vllm", version="0.33.0")
    assert set(results(report).values()) == {"fail"}
    assert report.exit_status == 1


async def test_equal_calls_are_asked_once() -> None:
    server = ScriptedServer("vllm")
    await verified(server)
    bodies = [call.body for call in server.calls]
    assert len(bodies) == len(set(bodies))


def test_a_server_that_is_not_there_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert main(url, model=None, tokenizer=None, json_output=True, api_key_env=None, environ={}) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["url"] == url
    assert "can't be asked" in told["error"]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("localhost:8000", "write for instance http://localhost:8000"),
        ("http://", "write for instance http://localhost:8000"),
        ("ftp://x", "write for instance http://localhost:8000"),
        ("", "write for instance http://localhost:8000"),
        ("http://u:p@h", "has credentials in its URL"),
        ("http://h:99999", "is not a URL"),
        ("http://h,engin=vllm", "did you mean engine?"),
        ("http://h,engine=vlm", "did you mean vllm?"),
        ("http://h,api_key_env=NO_SUCH_KEY", "the environment variable NO_SUCH_KEY is not set"),
    ],
)
def test_a_url_that_is_none_is_a_sentence_and_status_2(url: str, says: str) -> None:
    with pytest.raises(CommandFailed, match=re.escape(says)) as caught:
        main(url, model=None, tokenizer=None, json_output=False, api_key_env=None, environ={})
    assert caught.value.exit_status == 2


async def test_a_server_that_names_no_model_has_to_be_told_one() -> None:
    server = ReplayServer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
    async with server.running() as url:
        with pytest.raises(CommandFailed, match="--model"):
            await verify(BackendSettings(url=url), model=None, decoder=None)


def test_a_tokenizer_is_never_downloaded() -> None:
    with pytest.raises(CommandFailed, match="there is no such folder"):
        main("http://127.0.0.1:1", model=None, tokenizer="org/model", json_output=False, api_key_env=None, environ={})


@pytest.mark.parametrize(("option", "flag"), [("", "KEY"), (",api_key_env=KEY", None)])
async def test_the_command_asks_with_the_key_that_it_is_given(
    capsys: pytest.CaptureFixture[str], option: str, flag: str | None
) -> None:
    server = ScriptedServer("vllm", api_key="secret")
    async with running(server) as url:
        status = await asyncio.to_thread(
            main,
            url + option,
            model=None,
            tokenizer=None,
            json_output=True,
            api_key_env=flag,
            environ={"KEY": "secret"},
        )
    told = json.loads(capsys.readouterr().out)
    assert status == 0
    assert told["engine"] == "vllm"
    assert {check["name"]: check["result"] for check in told["checks"]}["n = 2"] == "pass"
    assert "secret" not in json.dumps(told)


async def test_a_key_that_is_refused_or_missing_is_said_and_is_no_pass() -> None:
    async with running(ScriptedServer("vllm", api_key="secret")) as url:
        without = await verify(BackendSettings(url=url), model="scripted", decoder=None)
        wrong = await verify(BackendSettings(url=url, api_key=SecretStr("other")), model=None, decoder=None)
    assert without.error == "the server wants a key (api_key_env=): 401, Invalid API key"
    assert wrong.error == "the server refuses the key that it is given: 401, Invalid API key"
    assert (without.exit_status, wrong.exit_status) == (2, 2)


async def test_a_program_that_is_no_inference_server_is_said() -> None:
    page = b"<html><head><title>Error response</title></head></html>"
    head = b"HTTP/1.1 501 Unsupported\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    async with ReplayServer(head % len(page) + page).running() as url:
        report = await verify(BackendSettings(url=url), model=None, decoder=None)
    assert report.error == "the server can't be asked: it answers every question with an error, such as status 501"
    assert report.exit_status == 2


async def test_the_table_has_each_check_and_its_result(capsys: pytest.CaptureFixture[str]) -> None:
    report = await verified(ScriptedServer("vllm"))
    show(report)
    table = capsys.readouterr().out
    assert all(row.check.name in table for row in report.rows)
    assert table.count("pass") == len(report.rows)
    # What would be captured is for copying: its lines are not broken.
    assert all(f"  {sentence}\n" in table for sentence in report.captured)


async def test_the_json_has_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    report = await verified(ScriptedServer("vllm"))
    write_json(report)
    told = json.loads(capsys.readouterr().out)
    assert [check["name"] for check in told["checks"]] == [row.check.name for row in report.rows]
    assert told["captured"] == list(report.captured)


def calling(asked: Asked) -> Sequence[Speech]:
    """A call where tools are offered, as a model makes one that knows nothing of `tool_choice`."""
    return CALL(asked) if "tools" in asked.fields else small_talk(asked)


@pytest.mark.parametrize(
    ("engine", "version", "variant"),
    [
        ("vllm", "0.10.2", None),
        ("vllm", "0.33.0", None),
        ("sglang", "0.5.9", "agentcore"),
        ("sglang", "0.5.10", "llm360"),
        ("sglang", "0.5.14", None),
        ("sglang", "0.5.17", None),
        ("sglang", "0.5.23", None),
        ("dynamo", None, None),
        ("dynamo", None, "sglang"),
    ],
)
async def test_every_engine_that_tells_ids_passes_with_tools_at_work(
    engine: str, version: str | None, variant: str | None
) -> None:
    report = await verified(ScriptedServer(engine, version=version, variant=variant, reply=calling))
    assert {name: result for name, result in results(report).items() if result != "pass"} == {}
    assert report.server is not None
    assert report.server.engine == engine

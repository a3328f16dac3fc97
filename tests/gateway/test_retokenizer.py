"""Ids for text: made off the event loop, in time or not at all, and never for answers that have their own."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.answer import DONE, AnswerReader
from adapters.engines import adapter_for
from adapters.request import CanonicalRequest
from adapters.schema import Choice, Completion, Usage
from adapters.token_ids import TokenIds
from gateway.retokenizer import Retokenizer
from gateway.text_encoder import TokenizerUnavailable
from tests.adapters.cases import canonical, chunks_of, planned
from tests.gateway.tiny_tokenizer import build

CHAT = canonical({"messages": [{"role": "user", "content": "Hi"}]})
TEXT = Completion(choices=(Choice(0, text="ab", finish_reason="stop"),))


class Letters:
    """An encoder of one token a letter, that can be held up, and remembers which thread it ran in."""

    def __init__(self) -> None:
        self.threads: set[str] = set()
        self.goes_on = threading.Event()
        self.goes_on.set()

    def prompt(self, request: CanonicalRequest, index: int) -> TokenIds:
        return TokenIds([1, 2, 3])

    def reply(self, request: CanonicalRequest, choice: Choice) -> TokenIds:
        self.threads.add(threading.current_thread().name)
        self.goes_on.wait(60)
        if choice.text == "?":
            raise ValueError("cannot render this")
        return TokenIds(map(ord, choice.text or ""))

    def decode(self, ids: TokenIds) -> str:
        return "".join(map(chr, ids))


async def test_text_gets_ids_and_counts_in_a_thread_of_its_own() -> None:
    letters = Letters()
    retokenizer = Retokenizer(lambda path: letters)
    made = await retokenizer.completion("m", CHAT, TEXT)
    assert made.choices[0].token_ids == TokenIds([97, 98])
    assert (made.prompt_token_ids, made.source) == (TokenIds([1, 2, 3]), "tokenizer")
    assert (made.usage, made.usage_estimated) == (Usage(3, 2, 5), True)
    assert all(name.startswith("tokenizer") for name in letters.threads)
    retokenizer.close()


async def test_a_tokenizer_is_loaded_once_however_many_ask() -> None:
    loads: list[str] = []

    def load(path: str) -> Letters:
        loads.append(path)
        time.sleep(0.02)
        return Letters()

    retokenizer = Retokenizer(load)
    await retokenizer.warm(["m", "m"])
    await asyncio.gather(*(retokenizer.completion("m", CHAT, TEXT) for _ in range(5)))
    assert loads == ["m"]
    retokenizer.close()


async def test_one_that_failed_is_loaded_anew_when_it_is_named_again_and_not_by_each_call() -> None:
    folders: set[str] = set()
    loads: list[str] = []

    def load(path: str) -> Letters:
        loads.append(path)
        if path not in folders:
            raise TokenizerUnavailable(f"{path} is not there")
        return Letters()

    retokenizer = Retokenizer(load)
    with pytest.raises(TokenizerUnavailable, match="m is not there"):
        await retokenizer.warm(["m"])
    assert (await retokenizer.completion("m", CHAT, TEXT)).choices[0].token_ids is None
    assert loads == ["m"]
    folders.add("m")
    await retokenizer.warm(["m"])
    assert (await retokenizer.completion("m", CHAT, TEXT)).choices[0].token_ids == TokenIds([97, 98])
    assert loads == ["m", "m"]
    retokenizer.close()


async def test_an_engines_own_ids_ask_nobody() -> None:
    def load(path: str) -> Letters:
        raise AssertionError("not needed")

    told = replace(TEXT, choices=(Choice(0, token_ids=TokenIds([5])),))
    assert await Retokenizer(load).completion("m", CHAT, told) is told
    assert await Retokenizer(load).completion("m", CHAT, Completion()) == Completion()


async def test_what_takes_too_long_is_not_waited_for() -> None:
    letters = Letters()
    letters.goes_on.clear()
    retokenizer = Retokenizer(lambda path: letters, timeout=0.02)
    made = await retokenizer.completion("m", CHAT, TEXT)
    assert made.choices == TEXT.choices
    assert "took longer than 0.02 s" in made.anomalies[0]
    letters.goes_on.set()  # Only now, so nobody waited for it.
    retokenizer.close()


async def test_a_load_that_takes_too_long_is_not_waited_for_and_counts_later() -> None:
    ready = threading.Event()

    def load(path: str) -> Letters:
        ready.wait(60)
        return Letters()

    retokenizer = Retokenizer(load, load_timeout=0.02)
    late = await retokenizer.completion("m", CHAT, TEXT)
    assert "was not loaded within 0.02 s" in late.anomalies[0]
    ready.set()
    async with asyncio.timeout(30):
        while (await retokenizer.completion("m", CHAT, TEXT)).source != "tokenizer":
            pass
    retokenizer.close()


async def test_what_cannot_be_rendered_or_loaded_leaves_the_answer_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    retokenizer = Retokenizer(lambda path: Letters())
    odd = replace(TEXT, choices=(Choice(0, text="?"),))
    made = await retokenizer.completion("m", CHAT, odd)
    assert made.choices == odd.choices
    assert made.anomalies == ("no ids could be made from the text: the tokenizer m: cannot render this",)

    missing = Retokenizer()
    for _ in range(2):
        made = await missing.completion("/nowhere/m", CHAT, TEXT)
        assert "/nowhere/m is no folder of this machine" in made.anomalies[0]
    assert len(caplog.records) == 1
    with pytest.raises(TokenizerUnavailable):
        await missing.warm(["/nowhere/m"])
    retokenizer.close()
    missing.close()


async def test_a_text_only_stream_gets_its_usage_and_its_trace_made_ids(tmp_path: Path) -> None:
    """The whole way, with a real tokenizer: what the gateway does at the end of a stream with a tool call."""
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "Weather in Rome?"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    plan, _ = planned(body, adapter_for("openai").server())
    reader = AnswerReader(plan)
    name = {"index": 0, "id": "1", "function": {"name": "weather", "arguments": '{"city":'}}
    rest = {"index": 0, "function": {"arguments": '"Rome"}'}}
    for delta, finish in (({"tool_calls": [name]}, None), ({"tool_calls": [rest]}, None), ({}, "tool_calls")):
        chunk = {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        reader.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    reader.feed(DONE)
    told = reader.finish()
    assert told.client == DONE
    assert told.verdict.fidelity == "none"
    retokenizer = Retokenizer()
    outcome = reader.retold(told, await retokenizer.completion(build(tmp_path), plan.request, told.completion))
    retokenizer.close()
    # One token a character, the special ones being one each.
    prompt, reply = "SuserNWeather in Rome?ENSassistantN", "<call>weather Rome</call>E"
    counts = (len(prompt), len(reply))
    usage, done = chunks_of(outcome.client)
    assert (usage["usage"]["prompt_tokens"], usage["usage"]["completion_tokens"]) == counts
    assert (usage["choices"], done) == ([], "[DONE]")
    assert outcome.completion.usage_estimated
    assert (outcome.verdict.fidelity, outcome.completion.source) == ("retokenized", "tokenizer")


async def test_whoever_has_ids_alone_gets_what_makes_text_of_them(tmp_path: Path) -> None:
    retokenizer = Retokenizer(lambda path: Letters())
    assert (await retokenizer.decoder("m"))(TokenIds([97, 98])) == "ab"
    retokenizer.close()
    missing = Retokenizer()
    with pytest.raises(TokenizerUnavailable):
        await missing.decoder(str(tmp_path / "nothing"))
    missing.close()

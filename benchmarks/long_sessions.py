"""Sessions of fifty turns that grow to 32,000 tokens, in the three forms that histories take; and as plain JSON.

Text and ids are those of `benchmarks.storage`: words of a skewed frequency, like a model's tokens.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from adapters.schema import Trace
from benchmarks.storage import Corpus, body, trace

TURNS: Final = 50
TOKENS: Final = 32_000
THOUGHT: Final = 160
SAID: Final = 80
SYSTEM: Final = 600
GIVEN: Final = (TOKENS - SYSTEM) // TURNS - THOUGHT - SAID
"""Tokens of each turn: what the model thinks and says, and what a tool gives back."""
UNCHANGED: Final = 150
"""Characters of a system prompt that changes each turn, before the change."""


@dataclass
class Conversation:
    """Messages as an agent sends them, and the tokens that they are."""

    messages: list[dict[str, str]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def add(self, role: str, said: tuple[str, list[int]], reasoning: str | None = None) -> None:
        content, ids = said
        told = {} if reasoning is None else {"reasoning_content": reasoning}
        self.messages.append({"role": role, "content": content} | told)
        self.tokens += ids


def append_only(corpus: Corpus, session_id: str) -> Iterator[Trace]:
    """Each prompt is the one before with its answer, reasoning and all, and a tool's result."""
    talk = Conversation()
    talk.add("system", corpus.take(SYSTEM))
    for _ in range(TURNS):
        talk.add("tool", corpus.take(GIVEN))
        thought, said = corpus.take(THOUGHT), corpus.take(SAID)
        yield _trace(session_id, talk, thought, said)
        talk.add("assistant", (said[0], thought[1] + said[1]), reasoning=thought[0])


def reasoning_stripped(corpus: Corpus, session_id: str) -> Iterator[Trace]:
    """The reasoning of the last turn is in the next prompt, and that of all before is gone from it."""
    # Longer answers, so that the session comes to as many tokens without its reasoning.
    given = (TOKENS - SYSTEM) // TURNS - SAID
    kept = Conversation()
    kept.add("system", corpus.take(SYSTEM))
    last: tuple[tuple[str, list[int]], tuple[str, list[int]]] | None = None
    for _ in range(TURNS):
        talk = Conversation([*kept.messages], [*kept.tokens])
        if last is not None:
            (thought, thought_ids), (said, said_ids) = last
            talk.add("assistant", (said, thought_ids + said_ids), reasoning=thought)
            kept.add("assistant", (said, said_ids))
        result = corpus.take(given)
        talk.add("tool", result)
        kept.add("tool", result)
        last = corpus.take(THOUGHT), corpus.take(SAID)
        yield _trace(session_id, talk, *last)


def system_prompt_changed(corpus: Corpus, session_id: str) -> Iterator[Trace]:
    """As `append_only`, with a line in the system prompt that each call writes anew: a date, a digest, a count."""
    system, ids = corpus.take(SYSTEM)
    for turn, one in enumerate(append_only(corpus, session_id)):
        asked = json.loads(one.request.body or b"")
        line = f"\ncall {turn} of 2026-11-21T20:{turn:02}:07Z, {zlib.crc32(str(turn).encode()):08x}\n"
        asked["messages"][0]["content"] = system[:UNCHANGED] + line + system[UNCHANGED:]
        assert one.prompt_token_ids is not None
        own = [*ids[:40], 200 + turn, 7_000 + 31 * turn, 15, 220, *ids[40:]]
        prompt = own + one.prompt_token_ids.tolist()[SYSTEM:]
        choice = one.choices[0]
        assert choice.token_ids is not None
        yield trace(session_id, json.dumps(asked).encode(), prompt, choice.text or "", choice.token_ids.tolist())


Form = Callable[[Corpus, str], Iterator[Trace]]
FORMS: Final[tuple[Form, ...]] = (append_only, reasoning_stripped, system_prompt_changed)


def as_json(one: Trace) -> bytes:
    """One call as a document of its own, as compact as JSON is."""
    choice = one.choices[0]
    assert one.prompt_token_ids is not None
    assert choice.token_ids is not None
    document = {
        "trace_id": one.trace_id,
        "session_id": one.session_id,
        "started_at": one.started_at.isoformat(),
        "model": one.model,
        "request": json.loads(one.request.body or b""),
        "response": choice.text,
        "finish_reason": choice.finish_reason,
        "prompt_token_ids": one.prompt_token_ids.tolist(),
        "token_ids": choice.token_ids.tolist(),
        "logprobs": choice.logprobs,
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def _trace(session_id: str, talk: Conversation, thought: tuple[str, list[int]], said: tuple[str, list[int]]) -> Trace:
    return trace(session_id, body(talk.messages), [*talk.tokens], thought[0] + said[0], thought[1] + said[1])

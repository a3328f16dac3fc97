"""What a scripted model says: tokens with their text, logprobs and place in the message, and how it ends."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from adapters.scripts.template import call_head_ids, call_tail_ids, thought_ids
from adapters.scripts.vocabulary import CALL_END, END, HALT, SIZE, THINK, THINK_END, encode, piece

Part = Literal["reasoning", "content", "name", "arguments", "mark"]
"""Where a token's text goes. A `mark` has none: the end of a turn, of a thought, the syntax around a call."""

_STOPS: Final = frozenset({END, HALT})


@dataclass(frozen=True, slots=True)
class Token:
    id: int
    text: str
    """The text that it completes: `""` for all but the last piece of a character, and for every mark."""
    logprob: float | None
    part: Part
    call: int | None = None
    """Which tool call it belongs to."""


@dataclass(frozen=True, slots=True)
class Called:
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Speech:
    """One choice, token by token."""

    tokens: tuple[Token, ...]
    finish: str = "stop"
    stop: str | None = None
    """The stop string that ended it. As in real engines `tokens` has its tokens, and none has its text."""

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(token.id for token in self.tokens)

    @property
    def logprobs(self) -> tuple[float | None, ...]:
        return tuple(token.logprob for token in self.tokens)

    def text(self, part: Part) -> str:
        return "".join(token.text for token in self.tokens if token.part == part)

    @property
    def calls(self) -> tuple[Called, ...]:
        """The tool calls that are written to their end, as a parser gives them."""
        ended = [token.call for token in self.tokens if token.id == CALL_END and token.call is not None]
        return tuple(Called(self._of(call, "name"), self._of(call, "arguments")) for call in ended)

    @property
    def eos(self) -> int | None:
        """The end token that closed it, if one did."""
        return self.tokens[-1].id if self.tokens and self.tokens[-1].id in _STOPS else None

    def _of(self, call: int, part: Part) -> str:
        return "".join(token.text for token in self.tokens if token.call == call and token.part == part)


def say(
    content: str = "",
    *,
    reasoning: str = "",
    calls: Sequence[Called] = (),
    end: int | None = END,
    logprobs: Sequence[float | None] | None = None,
) -> Speech:
    """A speech from text, tokenised as the template writes it into the next prompt. `end=None`: cut off."""
    tokens = [*_within(thought_ids(reasoning), "reasoning"), *_within(encode(content), "content")]
    for number, call in enumerate(calls):
        opening, closing = call_head_ids(call.name)
        tokens += _marks(opening, number)
        tokens.append(Token(closing[0], call.name, None, "name", number))
        tokens += _marks(closing[1:], number)
        tokens += _within(encode(call.arguments), "arguments", call=number)
        tokens += _marks(call_tail_ids(), number)
    if end is not None:
        tokens.append(Token(end, "", None, "mark"))
    finish = "length" if end is None else "tool_calls" if calls else "stop"
    return Speech(_with_logprobs(tokens, logprobs), finish)


def say_ids(ids: Iterable[int], *, finish: str = "stop", logprobs: Sequence[float | None] | None = None) -> Speech:
    """A speech from ids, as content. Ids beyond the vocabulary have the text of their remainder."""
    return Speech(_with_logprobs([*_within(ids, "content")], logprobs), finish)


def read_back(ids: Iterable[int]) -> tuple[Token, ...]:
    """A prompt's tokens as an engine echoes them: none has come before the first, so that one has no logprob."""
    first, *rest = _with_logprobs([*_within(ids, "content")], None)
    return replace(first, logprob=None), *rest


def cut(speech: Speech, *, max_tokens: int | None, stops: Sequence[str]) -> Speech:
    """The speech as far as the request lets it go: up to the first stop string, or `max_tokens`."""
    stopped = _stopped(speech, stops)
    if max_tokens is not None and len(stopped.tokens) > max_tokens:
        return Speech(stopped.tokens[:max_tokens], "length")
    return stopped


def _stopped(speech: Speech, stops: Sequence[str]) -> Speech:
    text = speech.text("content")
    found = sorted((at, stop) for stop in stops if stop and (at := text.find(stop)) >= 0)
    if not found:
        return speech
    at, stop = found[0]
    kept: list[Token] = []
    seen = 0
    for token in speech.tokens:
        if token.part != "content":
            kept.append(token)
            continue
        kept.append(replace(token, text=token.text[: max(0, at - seen)]))
        seen += len(token.text)
        if seen >= at + len(stop):
            break
    return Speech(tuple(kept), "stop", stop)


def _within(ids: Iterable[int], part: Part, *, call: int | None = None) -> Iterable[Token]:
    """Tokens of one part, each with the text that it completes."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for token_id in ids:
        if token_id in (THINK, THINK_END) or token_id in _STOPS:
            yield Token(token_id, "", None, "mark", call)
        else:
            yield Token(token_id, decoder.decode(piece(token_id % SIZE)), None, part, call)


def _marks(ids: Iterable[int], call: int) -> list[Token]:
    return [Token(token_id, "", None, "mark", call) for token_id in ids]


def _with_logprobs(tokens: Sequence[Token], logprobs: Sequence[float | None] | None) -> tuple[Token, ...]:
    """Each token's logprob: the given one, or a number that depends on its id and place alone."""
    if logprobs is not None:
        return tuple(replace(token, logprob=given) for token, given in zip(tokens, logprobs, strict=True))
    return tuple(
        replace(token, logprob=-((token.id * 31 + at * 7) % 2000 + 1) / 1000) for at, token in enumerate(tokens)
    )

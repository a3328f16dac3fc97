"""A backend's answer as it comes in: bytes in; the agent's bytes, typed deltas and at the end a `Completion` out.

Without I/O. The caller holds back what it must (`Piece.ends`) and decides what an agent of another dialect sees.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw

from adapters.adapter import Adapter
from adapters.answer_shape import Chunk, Delta, WholeAnswer
from adapters.engines import adapter_for
from adapters.errors import error_of
from adapters.fold import Fold
from adapters.moulding import Moulds, Run
from adapters.openai_shape import deltas
from adapters.plan import Plan
from adapters.prompts import ReadIds
from adapters.raw import Fields, NotJSON, join_object, mend, open_object
from adapters.retokenize import with_usage
from adapters.schema import Completion, Error, Usage, Verdict
from adapters.sse import MAX_EVENT, Event, EventTooLarge, SSEDecoder
from adapters.strip import Stripper
from adapters.token_ids import TokenIds
from adapters.verdict import verdict

DONE: Final = b"data: [DONE]\n\n"


class Piece(msgspec.Struct, frozen=True, gc=False):
    """What one event of a stream is to the agent, or a run of them. A Struct, for one may be made per token."""

    client: bytes = b""
    """For an agent that speaks chat or completions: the event without what is not its own. Empty: nothing for it."""
    deltas: tuple[Delta, ...] = ()
    """The same for the other dialects."""
    ends: bool = False
    """True from the first piece on that ends the last open choice: to be held until the trace is committed."""
    tokens: bool = False
    """Whether the answer has begun to say something, with this piece at the latest."""
    error: Error | None = None
    """The backend told an error. `client` is empty then: how an agent learns of it is its dialect's to say."""


class Outcome(msgspec.Struct, frozen=True):
    """An answer, read to its end."""

    completion: Completion
    verdict: Verdict
    client: bytes
    """Of a streamed plan what is left to send, of any other the whole body for an agent that speaks its dialect."""
    finished: bool
    """Whether the answer had its proper end."""


class AnswerReader:
    """Reads one answer: either `feed` … `finish`, or `whole`. Never raises for what a backend may send."""

    def __init__(
        self,
        plan: Plan,
        *,
        adapter: Adapter | None = None,
        typed: bool = True,
        relays: bool = True,
        prompt_ids: ReadIds = TokenIds.from_json,
        max_event: int = MAX_EVENT,
    ) -> None:
        """`typed=False` leaves the deltas out: then chunks alike need not be opened, and are one piece together.

        `relays=False` leaves the agent's bytes out, for a dialect that reads deltas and completions alone.
        `prompt_ids` reads the ids of the prompt.
        """
        self._plan = plan
        self._adapter = adapter or adapter_for(plan.server.engine)
        self._typed = typed
        self._prompt_ids = prompt_ids
        self._decoder = SSEDecoder(max_event)
        self._fold = Fold(self._adapter.shape.rules, plan.request.expected_choices)
        self._stripper = Stripper(plan, self._adapter.shape)
        # No method of its own, or an answer that is done with would wait for the garbage collector, with all it holds.
        self._open: Callable[[bytes], Chunk] = partial(self._adapter.open_chunk, plan=plan)
        # Deltas are made of each chunk by itself.
        self._moulds = None if typed else Moulds(self._fold, self._stripper, self._open)
        self._speaks = relays
        self._relays = relays and plan.mode == "streamed"
        self._spoken = False
        self._done = False

    @property
    def done(self) -> bool:
        """Whether the stream has said `[DONE]`. Nothing that counts follows; its connection may still be open."""
        return self._done

    def feed(self, data: bytes) -> list[Piece]:
        """The events that end in these bytes of a stream, of whatever plan."""
        try:
            return self._pieces(self._decoder.blocks(data))
        except EventTooLarge as exc:
            pieces = [piece for event in exc.before if (piece := self._piece(event)) is not None]
            self._fold.odd(str(exc))
            pieces.append(self._failed(Error(f"the backend's answer cannot be read: {exc}", "bad_answer")))
            return pieces

    def finish(self, *, cut: bool = False) -> Outcome:
        """The stream's end. `cut`: it did not come to one by itself, for the backend or the agent went away."""
        left = self._last_event()
        answer = self._fold.answer()
        completion = self._completed(answer)
        finished = answer.error is None and bool(answer.choices) and (self._done or self._fold.finished)
        if not self._speaks:
            client = b""
        elif not self._relays:
            client = self._body(answer, completion) if answer.choices else b""
        elif answer.error is None and finished and (self._done or not cut):
            client = left + self._usage_chunk(completion) + DONE if self._owes_end else left
        else:
            client = left
        return Outcome(completion, verdict(completion, self._plan), client, finished)

    def whole(self, body: bytes) -> Outcome:
        """A body that came at once."""
        try:
            answer = self._adapter.open_answer(body, self._plan)
        except NotJSON as exc:
            return self._unreadable(exc)
        completion = self._completed(answer)
        finished = answer.error is None and bool(completion.choices)
        client = body if not finished else self._body(answer, completion) if self._speaks else b""
        return Outcome(completion, verdict(completion, self._plan), client, finished)

    def retold(self, outcome: Outcome, completion: Completion) -> Outcome:
        """The outcome of the same answer with what a tokenizer made of its text. Its agent sees the counts alone."""
        client = outcome.client
        if outcome.completion.usage is None and completion.usage is not None and outcome.finished:
            if client.endswith(DONE):
                client = client.removesuffix(DONE) + self._usage_chunk(completion) + DONE
            elif client[:1] == b"{":
                client = _with_usage(client, completion.usage)
        return Outcome(completion, verdict(completion, self._plan), client, outcome.finished)

    def _pieces(self, blocks: list[bytes]) -> list[Piece]:
        pieces: list[Piece | None] = []
        at = 0
        while at < len(blocks):
            run = self._moulds.run(blocks, at) if self._moulds is not None and not self._done else None
            if run is not None:
                at += run.length
                pieces.append(self._run(run))
            else:
                event = self._decoder.event(blocks[at])
                if event is not None:
                    pieces.append(self._piece(event, blocks[at]))
                at += 1
        return [piece for piece in pieces if piece is not None]

    def _run(self, run: Run) -> Piece | None:
        """What chunks alike are to the agent: one piece, for nobody reads their deltas."""
        self._fold.add_alike(run.mould, run.values)
        if not self._relays:
            return None
        client = run.mould.client.filled(run.values, run.mould.width)
        return Piece(client, (), self._fold.finished, tokens=True) if client else None

    def _told(self, chunk: Chunk, data: bytes) -> Piece | None:
        """What a chunk is to the agent."""
        told = deltas(chunk, self._adapter.shape) if self._typed or not self._spoken else ()
        begins = not self._spoken and any(map(_says_something, told))
        self._spoken = self._spoken or begins
        client = b""
        if self._relays and _readable(chunk):
            kept = self._stripper.chunk(chunk, data).replace(b"\n", b" ")
            client = b"data: " + kept + b"\n\n" if kept else b""
        if not self._typed:
            told = ()
        ends = self._fold.finished
        return Piece(client, told, ends, self._spoken) if client or told or ends or begins else None

    def _piece(self, event: Event, block: bytes = b"") -> Piece | None:
        data = event.data
        if event.name and event.name != "message" and event.name not in self._adapter.shape.events:
            return self._named(event)
        if data is None:
            return None  # A comment: keep-alives of the backend end here, the gateway sends its own.
        if data.strip() == b"[DONE]":
            return self._end()
        if self._done:
            self._fold.odd("data after the end of the stream")
            return None
        try:
            chunk = self._open(data)
        except NotJSON as exc:
            if event.terminated:
                self._fold.odd(f"a chunk cannot be read: {exc}"[:300])
            elif not self._fold.finished:
                self._fold.odd("the stream ended inside an event")
            return None
        self._fold.add(chunk)
        if chunk.error is not None:
            return self._failed(chunk.error)
        piece = self._told(chunk, data)
        if self._moulds is not None and self._spoken and not event.name:
            self._moulds.learn(block, data, chunk)
        return piece

    def _named(self, event: Event) -> Piece | None:
        """Events out of band: errors, and annotations that an agent asked its engine for."""
        if event.name == "error":
            return self._failed(_error_event(event))
        if event.name in self._plan.strip.events or not self._relays or self._done:
            return None
        comment = b"".join(b": " + line + b"\n" for line in event.comment.encode().split(b"\n") if line)
        data = b"".join(b"data: " + line + b"\n" for line in (event.data or b"").split(b"\n") if event.data is not None)
        return Piece(b"event: " + event.name.encode() + b"\n" + comment + data + b"\n", ends=self._fold.finished)

    def _failed(self, error: Error) -> Piece:
        self._fold.fail(error)
        return Piece(ends=True, error=error)

    @property
    def _owes_end(self) -> bool:
        """Whether the agent is still to be sent `[DONE]`: none came, or it was held for the usage to go before it."""
        return not self._done or self._owes_usage

    @property
    def _owes_usage(self) -> bool:
        return self._plan.request.include_usage and not self._fold.told("usage")

    def _end(self) -> Piece | None:
        if self._done:
            return None  # A proxy before the server may add its own: harmless, and once is enough for the agent.
        self._done = True
        return Piece(DONE if self._relays and not self._owes_usage else b"", ends=True)

    def _last_event(self) -> bytes:
        """What stood after the last blank line, for the agent."""
        event = self._decoder.flush()
        if event is None:
            return b""
        piece = self._piece(event)
        return piece.client if piece is not None else b""

    def _completed(self, answer: WholeAnswer) -> Completion:
        return with_usage(self._adapter.read(answer, self._plan, self._prompt_ids), self._plan.request)

    def _usage_chunk(self, completion: Completion) -> bytes:
        if not self._owes_usage or not completion.usage_estimated or completion.usage is None:
            return b""
        root = self._fold.answer().root
        fields: Fields = {name: root[name] for name in ("id", "object", "created", "model") if name in root}
        if self._plan.request.endpoint == "chat":
            fields["object"] = Raw(b'"chat.completion.chunk"')
        fields |= {"choices": Raw(b"[]"), "usage": _usage(completion.usage)}
        return b"data: " + join_object(fields) + b"\n\n"

    def _body(self, answer: WholeAnswer, completion: Completion) -> bytes:
        body = self._stripper.whole(answer, completion)
        if completion.usage_estimated and completion.usage is not None:
            return _with_usage(body, completion.usage)
        return body

    def _unreadable(self, reason: NotJSON) -> Outcome:
        told = f"the backend's answer is not a JSON object: {reason}"[:300]
        completion = Completion(error=Error(told, "bad_answer"), anomalies=(told,))
        return Outcome(completion, verdict(completion, self._plan), b"", False)


def _says_something(delta: Delta) -> bool:
    """Not so the chunk that only tells the role, which some engines send before the first token."""
    return bool(delta.token_ids or delta.text or delta.reasoning or delta.tool_calls)


def _readable(chunk: Chunk) -> bool:
    """Not so one whose choices are none: it would break its agent's loop over them."""
    return bool(chunk.choices or not chunk.odd or bytes(chunk.root.get("choices", b"[]")) == b"[]")


def _with_usage(body: bytes, usage: Usage) -> bytes:
    return join_object({**open_object(body), "usage": _usage(usage)})


def _usage(usage: Usage) -> Raw:
    counts = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }
    return Raw(msgspec.json.encode(counts))


def _error_event(event: Event) -> Error:
    """An `event: error`: JSON or text in its data, or (Dynamo up to 1.0) the words in a comment and no data."""
    data = event.data or b""
    try:
        if (told := error_of(open_object(mend(data)), certain=True)) is not None:
            return told
    except NotJSON:
        pass
    return Error(data.decode(errors="replace").strip() or event.comment or "the backend told an error without words")

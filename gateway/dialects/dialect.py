"""What a dialect is: it turns its requests into canonical ones, and canonical answers into its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeGuard

from adapters import schema
from adapters.answer import Outcome, Piece
from adapters.request import CanonicalRequest


class BadRequest(Exception):
    """The body is not a request of this dialect. The message says what to change."""

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.error = schema.Error(message, type="invalid_request_error", code=code, param=param)


class Responder(Protocol):
    """Answers one call in its dialect. Stateful: one a call."""

    @property
    def reads_deltas(self) -> bool:
        """Whether it reads a piece's deltas, which cost more than all else of a stream."""

    @property
    def reads_bytes(self) -> bool:
        """Whether it reads the bytes of a piece and of an outcome, made for an agent that speaks chat."""

    def piece(self, piece: Piece) -> bytes:
        """What the agent gets for a piece of a stream."""

    def finish(self, outcome: Outcome) -> bytes:
        """What the agent gets at a stream's end, after its last piece."""

    def whole(self, outcome: Outcome) -> bytes:
        """The agent's answer as one JSON body."""

    def streamed(self, outcome: Outcome) -> bytes:
        """A whole answer as the stream that the agent asked for."""

    def error_event(self, error: schema.Error) -> bytes:
        """An error where a stream has begun. Never followed by a clean end."""


class Dialect(Protocol):
    """One API that agents speak. Pure."""

    name: schema.Dialect

    def read(self, body: bytes) -> CanonicalRequest:
        """Raises BadRequest."""

    def responder(self, request: CanonicalRequest, trace_id: str) -> Responder:
        """`trace_id` is the call's, for a dialect whose clients name an answer later."""

    def error_body(self, status: int, error: schema.Error, request_id: str | None = None) -> bytes:
        """The JSON body of a refusal, in the shape that this dialect's clients parse; `request_id` as its header has
        it, for an API that tells it here too."""


class NamingDialect(Dialect, Protocol):
    """A dialect whose requests may name earlier answers instead of repeating them. Pure."""

    def names(self, body: bytes) -> Sequence[str]:
        """The traces that this body names. Raises BadRequest."""

    def read_after(self, body: bytes, earlier: Mapping[str, schema.Trace]) -> CanonicalRequest:
        """`earlier` has the traces that the body names, and those that their requests name, as far as the caller may
        see them and they exist. Raises BadRequest for what is missing."""


def names_earlier(dialect: Dialect) -> TypeGuard[NamingDialect]:
    """Whether it is one of these. `isinstance` would take Python 3.11 longer than to read a request."""
    return hasattr(dialect, "read_after")


class CountingDialect(Protocol):
    """A dialect whose clients may ask how long a prompt is. Pure."""

    def read_count(self, body: bytes) -> CanonicalRequest:
        """Raises BadRequest."""

    def count_body(self, tokens: int) -> bytes: ...

    def error_body(self, status: int, error: schema.Error, request_id: str | None = None) -> bytes: ...

"""A recorded request read once more, by the dialect that it was made in: the chat or completion that it came to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from adapters import schema
from adapters.request import CanonicalRequest
from gateway.dialects.dialect import BadRequest, Dialect, names_earlier
from gateway.dialects.table import ENDPOINTS

_BY_NAME: Final[Mapping[schema.Dialect, Dialect]] = {dialect.name: dialect for dialect in ENDPOINTS.values()}


def requests_of(session: Iterable[schema.Trace]) -> Callable[[schema.Trace], CanonicalRequest | None]:
    """A reader of the requests of these traces, which are what a request may name. None for what is no request."""
    earlier = {trace.trace_id: trace for trace in session}

    def request_of(trace: schema.Trace) -> CanonicalRequest | None:
        dialect, body = _BY_NAME[trace.dialect], trace.request.body or b""
        try:
            return dialect.read_after(body, earlier) if names_earlier(dialect) else dialect.read(body)
        except BadRequest:
            return None

    return request_of

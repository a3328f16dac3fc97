"""The table of dialects: which endpoint speaks which. Whoever adds a dialect adds one file and one row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.dialects.chat import ChatDialect
from gateway.dialects.completions import CompletionsDialect
from gateway.dialects.dialect import CountingDialect, Dialect
from gateway.dialects.messages.dialect import MessagesDialect
from gateway.dialects.responses.dialect import ResponsesDialect

ENDPOINTS: Final[Mapping[str, Dialect]] = {
    "/v1/chat/completions": ChatDialect(),
    "/v1/completions": CompletionsDialect(),
    "/v1/messages": MessagesDialect(),
    "/v1/responses": ResponsesDialect(),
}

COUNTERS: Final[Mapping[str, CountingDialect]] = {
    "/v1/messages/count_tokens": MessagesDialect(),
}

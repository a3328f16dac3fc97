"""The `completions` dialect: OpenAI's legacy text completions, with text or token-id prompts, one or several."""

from __future__ import annotations

import msgspec

from adapters.request import CanonicalRequest
from adapters.schema import Dialect as DialectName
from adapters.schema import Error
from adapters.token_ids import TokenIds
from gateway.dialects import openai_errors
from gateway.dialects.dialect import BadRequest
from gateway.dialects.openai_request import Fields, read_count, read_field, read_include_usage, text_fields_of
from gateway.dialects.openai_stream import Chunk, OpenAIResponder, Root

_PROMPT = "a string, a list of strings, a list of token ids, or a list of lists of token ids"


class CompletionsDialect:
    name: DialectName = "completions"

    def read(self, body: bytes) -> CanonicalRequest:
        fields = text_fields_of(body)
        prompts, prompt_token_ids = _read_prompt(fields)
        logprobs = read_field(fields, "logprobs", int, "an integer")
        return CanonicalRequest(
            endpoint="completions",
            fields=fields,
            model=read_field(fields, "model", str, "a string"),
            stream=bool(read_field(fields, "stream", bool, "true or false")),
            include_usage=read_include_usage(fields),
            n=read_count(fields, "n"),
            prompts=prompts,
            prompt_token_ids=prompt_token_ids,
            logprobs=logprobs is not None,
            top_logprobs=logprobs,
            return_token_ids=bool(read_field(fields, "return_token_ids", bool, "true or false")),
        )

    def responder(self, request: CanonicalRequest, trace_id: str) -> OpenAIResponder:
        return OpenAIResponder(
            chunk_object="text_completion",
            chunks_of=_chunks_of,
            include_usage=request.include_usage,
            prompt_field="prompt",
        )

    def error_body(self, status: int, error: Error, request_id: str | None = None) -> bytes:
        return openai_errors.refusal_body(status, error, "prompt")


def _read_prompt(fields: Fields) -> tuple[int, tuple[TokenIds, ...] | None]:
    """How many prompts there are, and their ids where they were sent as ids."""
    raw = fields.get("prompt")
    if raw is None or bytes(raw) == b"null":
        if "prompt_embeds" in fields:
            return 1, None
        raise BadRequest(f"`prompt` is missing: send {_PROMPT}.", param="prompt", code="missing_required_parameter")
    text = bytes(raw)
    if text.startswith(b'"'):
        return 1, None
    try:
        if text.lstrip(b"[ \t\r\n")[:1] == b'"':
            return len(msgspec.json.decode(raw, type=list[str])), None
        if text[1:].lstrip()[:1] == b"[":
            listed = msgspec.json.decode(raw, type=list[msgspec.Raw])
            return len(listed), tuple(TokenIds.from_json(ids) for ids in listed)
        return 1, (TokenIds.from_json(raw),)
    except (msgspec.DecodeError, ValueError):
        raise BadRequest(f"`prompt` must be {_PROMPT}.", param="prompt", code="invalid_type") from None


def _chunks_of(root: Root) -> list[Chunk]:
    """A chunk a choice: a completion's choice has the same shape in a stream as in a whole answer."""
    chunks = [Chunk(dict(choice)) for choice in root.choices]
    if chunks:
        chunks[-1].root.update(root.extra)
    return chunks

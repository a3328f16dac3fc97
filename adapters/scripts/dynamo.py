"""NVIDIA Dynamo's frontend as it answers on the wire, 1.6 (recorded from 1.6.1) and before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import msgspec

from adapters.scripts.asked import Asked, BadRequest
from adapters.scripts.dynamo_call import Call
from adapters.scripts.script import Answer, Stamp, streamed, told_whole, version_of, whole
from adapters.scripts.speech import Speech

_KNOWN: Final = frozenset(
    """model messages prompt stream stream_options n max_tokens max_completion_tokens temperature top_p
    stop logprobs top_logprobs tools tool_choice parallel_tool_calls response_format seed user
    presence_penalty frequency_penalty logit_bias echo suffix best_of store metadata
    reasoning_effort modalities prediction service_tier audio functions function_call
    web_search_options nvext top_k min_p repetition_penalty ignore_eos min_tokens
    include_stop_str_in_output guided_json guided_regex guided_choice guided_grammar
    chat_template_args chat_template_kwargs add_generation_prompt skip_special_tokens
    prompt_logprobs return_tokens_as_token_ids cache_salt stop_token_ids detokenize
    allowed_token_ids bad_words_token_ids prompt_cache_key
    """.split()  # noqa: SIM905 - a table of words
)
_NVEXT: Final = (
    "greed_sampling", "use_raw_prompt", "annotations", "backend_instance_id", "token_data",
    "max_thinking_tokens", "cache_salt", "extra_fields", "metadata_upload", "prefill_worker_id",
    "decode_worker_id", "dp_rank", "prefill_dp_rank", "agent_hints", "request_timestamp_ms",
    "routing_constraints", "router",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DynamoScript:
    engine: ClassVar[str] = "dynamo"
    tells_ids: ClassVar[bool] = True
    counts_at: ClassVar[str | None] = None
    model: str
    version: str = "1.6.1"
    variant: str | None = None
    """The worker behind the frontend: `vllm`, which alone gives `engine_data` with ids, or `sglang`, `trtllm`."""
    tokens_per_chunk: int = 1

    def answer(self, asked: Asked, speeches: Sequence[Speech], stamp: Stamp) -> Answer:
        if asked.model is None:
            return _error(400, f"{_UNREAD}: missing field `model`", "Bad Request")
        if asked.model != self.model:
            return _error(404, "Model not found", "Not Found")
        nvext = msgspec.json.decode(asked.fields.get("nvext", b"{}"), type=dict[str, msgspec.Raw] | None) or {}
        refusal = self._refusal(asked, nvext)
        if refusal is not None:
            return _error(400, refusal, "Bad Request")
        wanted = msgspec.json.decode(nvext.get("extra_fields", b"[]"), type=frozenset[str] | None)
        extra = self._given(wanted or frozenset())
        call = Call(asked, tuple(speeches), extra, stamp, self.model)
        if asked.stream:
            return streamed(call.chunks(self.tokens_per_chunk), content_type="text/event-stream")
        return whole(call.whole(), told=told_whole(speeches) if call.tells_ids else ())

    def unreadable(self, error: BadRequest) -> Answer:
        return _error(400, f"{_UNREAD}: {error}", "Bad Request")

    def page(self, path: str) -> Answer | None:
        match path:
            case "/v1/models":
                card = {"id": self.model, "object": "model", "created": 0, "owned_by": "nvidia"}
                return whole({"object": "list", "data": [card | {"context_window": 32768}]})
            case "/health":
                endpoints = ["dyn://dynamo.backend.generate"]
                return whole({"status": "healthy", "endpoints": endpoints, "instances": []})
            case "/live":
                return whole({"status": "live", "message": "Service is live"})
        return None

    def missing(self, method: str, path: str) -> Answer:
        return _error(404, f"Route not found: {method} {path}", "Not Found")

    def _given(self, wanted: frozenset[str]) -> frozenset[str]:
        """Of the extra fields asked for those that this frontend and worker have; the others it ignores."""
        given = {"completion_token_ids", "worker_id", "timing", "stop_reason"}
        if version_of(self.version) >= (1, 6):
            given.add("prompt_token_ids")
        if self.variant in (None, "vllm"):
            given.add("engine_data")
        return wanted & given

    def _refusal(self, asked: Asked, nvext: dict[str, msgspec.Raw]) -> str | None:
        unknown = [f"`{name}`" for name in asked.fields if name not in _KNOWN]
        if unknown:
            return f"Validation: Unsupported parameter(s): {', '.join(unknown)}"
        strange = next((name for name in nvext if name not in _NVEXT), None)
        if strange is not None:
            expected = ", ".join(f"`{name}`" for name in _NVEXT)
            return f"{_UNREAD}: unknown field `{strange}`, expected one of {expected}"
        if any(message.reasoning is not None and message.reasoning_content is not None for message in asked.messages):
            # One is an alias of the other, and serde takes each field once.
            return f"{_UNREAD}: duplicate field `reasoning_content`"
        if asked.max_tokens == 0:
            return "Validation: Max tokens must be greater than 0, got 0"
        if asked.choices > 1 and b'"completion_token_ids"' in bytes(nvext.get("extra_fields", b"")):
            return f"Validation: {_ONE_CHOICE}"
        if asked.n > 1 and asked.temperature == 0:
            return "Validation: n must be 1 when temperature is 0"
        return None


_ONE_CHOICE: Final = '`nvext.extra_fields=["completion_token_ids"]` requires exactly one generated choice'
_UNREAD: Final = "Failed to deserialize the JSON body into the target type"


def _error(status: int, message: str, kind: str) -> Answer:
    return whole({"message": message, "type": kind, "code": status}, status=status)

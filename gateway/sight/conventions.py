"""The names in spans: OpenTelemetry's conventions for generative AI as of semantic conventions 1.41, and ours.

They are not stable yet, and later versions move them to a repository of their own, so they stand here and not in a
package of names that changes them from below. Ours begin with `rollout_gateway`. None of them has room for content.
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/
"""

from __future__ import annotations

from typing import Final

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.41.1"

OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_TOP_P: Final = "gen_ai.request.top_p"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RESPONSE_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
USAGE_REASONING: Final = "gen_ai.usage.reasoning.output_tokens"
ERROR_TYPE: Final = "error.type"
HTTP_STATUS: Final = "http.response.status_code"

TRACE_ID: Final = "rollout_gateway.trace_id"
SESSION_ID: Final = "rollout_gateway.session_id"
REQUEST_ID: Final = "rollout_gateway.request_id"
DIALECT: Final = "rollout_gateway.dialect"
STATUS: Final = "rollout_gateway.status"
PLAN: Final = "rollout_gateway.plan"
PURPOSE: Final = "rollout_gateway.purpose"
BACKEND: Final = "rollout_gateway.backend"
WEIGHT_VERSION: Final = "rollout_gateway.weight_version"
FIDELITY: Final = "rollout_gateway.fidelity"
LOGPROBS_FIDELITY: Final = "rollout_gateway.logprobs_fidelity"
ATTEMPT: Final = "rollout_gateway.attempt"
"""An event for each try at a backend, with its name and its status."""

OPERATIONS: Final = {"completions": "text_completion"}
"""By dialect; every other is a chat."""
CHAT: Final = "chat"

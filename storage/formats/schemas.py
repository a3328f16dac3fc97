"""The Arrow types of the rows that files have: of a flat sample, and of a trace. Needs pyarrow.

Free-form values (metadata, sampling parameters, headers) are their JSON text: a column of a type of its own for each
key would differ from file to file.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]

IDS: Final = pa.list_(pa.int32())
_STRINGS: Final = pa.list_(pa.string())
_TIME: Final = pa.timestamp("us", tz="UTC")
_CONTENT: Final = {b"content": b"json"}


def _json(name: str) -> pa.Field:
    return pa.field(name, pa.string(), metadata=_CONTENT)


def is_json(field: pa.Field) -> bool:
    """Whether a column has the JSON text of what is no text."""
    return bool(field.metadata == _CONTENT)


_WEIGHT_SPANS: Final = pa.list_(pa.struct([("version", pa.string()), ("start", pa.int32()), ("end", pa.int32())]))
_ROUTED_EXPERTS: Final = pa.struct([("data", pa.binary()), ("shape", pa.list_(pa.int64())), ("dtype", pa.string())])
_SPAN: Final = pa.struct(
    [
        ("trace_id", pa.string()),
        ("index", pa.int32()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("trained", pa.bool_()),
        ("finish_reason", pa.string()),
        ("temperature", pa.float64()),
        ("logprobs_mode", pa.string()),
        ("routed_experts", _ROUTED_EXPERTS),
    ]
)
_REWARD: Final = pa.struct(
    [
        ("reward_id", pa.string()),
        ("name", pa.string()),
        ("value", pa.float64()),
        ("created_at", _TIME),
        ("weight", pa.float64()),
        ("trace_id", pa.string()),
        _json("metadata"),
    ]
)
_FINDING: Final = pa.struct(
    [("code", pa.string()), ("fatal", pa.bool_()), ("detail", pa.string()), ("trace_ids", _STRINGS)]
)

FLAT: Final = pa.schema(
    [
        ("session_id", pa.string()),
        ("branch", pa.int32()),
        ("run_id", pa.string()),
        ("group_id", pa.string()),
        ("attempt", pa.int32()),
        ("purpose", pa.string()),
        ("status", pa.string()),
        ("agent_id", pa.string()),
        ("parent_agent_id", pa.string()),
        ("model", pa.string()),
        ("first_prompt_len", pa.int32()),
        ("truncated", pa.bool_()),
        ("weight", pa.float64()),
        ("reward", pa.float64()),
        ("token_ids", IDS),
        ("mask", pa.list_(pa.int8())),
        ("logprobs", pa.list_(pa.float32())),
        ("weight_versions", _WEIGHT_SPANS),
        ("spans", pa.list_(_SPAN)),
        ("rewards", pa.list_(_REWARD)),
        ("trace_ids", _STRINGS),
        ("findings", pa.list_(_FINDING)),
        _json("metadata"),
    ]
)
"""A row for each sample; `flat.row` makes it."""

_ERROR: Final = pa.struct([("message", pa.string()), ("type", pa.string()), _json("code"), ("param", pa.string())])
_ATTEMPT: Final = pa.struct(
    [("backend", pa.string()), ("started_at", _TIME), ("status", pa.int32()), ("error", pa.string())]
)
_TOOL_CALL: Final = pa.struct([("id", pa.string()), ("name", pa.string()), ("arguments", pa.string())])
_CHOICE: Final = pa.struct(
    [
        ("index", pa.int32()),
        ("token_ids", IDS),
        ("logprobs", pa.list_(pa.float64())),
        ("text", pa.string()),
        ("reasoning", pa.string()),
        ("tool_calls", pa.list_(_TOOL_CALL)),
        ("finish_reason", pa.string()),
        _json("stop_reason"),
        ("prompt_token_ids", IDS),
        ("weight_versions", _WEIGHT_SPANS),
        ("routed_experts", _ROUTED_EXPERTS),
    ]
)
_USAGE: Final = pa.struct(
    [
        ("prompt_tokens", pa.int64()),
        ("completion_tokens", pa.int64()),
        ("total_tokens", pa.int64()),
        ("cached_tokens", pa.int64()),
        ("reasoning_tokens", pa.int64()),
    ]
)

TRACES: Final = pa.schema(
    [
        ("trace_id", pa.string()),
        ("session_id", pa.string()),
        ("turn", pa.int32()),
        ("attempt", pa.int32()),
        ("parent_trace_id", pa.string()),
        ("parent_index", pa.int32()),
        ("retry_of", pa.string()),
        ("dialect", pa.string()),
        ("model", pa.string()),
        ("served_model", pa.string()),
        ("status", pa.string()),
        ("http_status", pa.int32()),
        ("error", _ERROR),
        ("purpose", pa.string()),
        ("backend", pa.string()),
        ("engine", pa.string()),
        ("engine_version", pa.string()),
        ("attempts", pa.list_(_ATTEMPT)),
        ("plan", pa.string()),
        ("weight_version", pa.string()),
        ("request", pa.struct([("body", pa.binary()), _json("headers")])),
        ("sampling", pa.struct([_json("requested"), _json("effective")])),
        ("prompt_token_ids", IDS),
        ("choices", pa.list_(_CHOICE)),
        ("usage", _USAGE),
        ("usage_estimated", pa.bool_()),
        ("fidelity", pa.string()),
        ("fidelity_reason", pa.string()),
        ("source", pa.string()),
        ("logprobs_fidelity", pa.string()),
        ("logprobs_reason", pa.string()),
        ("logprobs_mode", pa.string()),
        ("started_at", _TIME),
        ("first_token_ms", pa.float64()),
        ("duration_ms", pa.float64()),
        ("request_id", pa.string()),
        ("gateway_id", pa.string()),
        _json("harness"),
        _json("metadata"),
        ("schema_version", pa.int32()),
    ]
)
"""A row for each trace, with its choices inside; `traces.row` makes it."""

"""The flat form of a sample: one row that every trainer's record follows from, and the sample back from it.

A row has the sample's own names. Its arrays are numpy's (`token_ids` int32, `mask` int8, `logprobs` float32), the rest
are plain values. The same row goes out as a line of JSON and as a row of Arrow or Parquet, where these differ:

| | row | JSON | Arrow and Parquet |
|---|---|---|---|
| a logprob that nobody told | NaN | null | null |
| `routed_experts.data` | bytes | base64 | binary |
| `created_at` of a reward | datetime | RFC 3339 | timestamp, UTC |
| `metadata`, of the session and of a reward | dict | object | its JSON text |

`sample_from_row` takes all three, so nothing of a sample is lost on any way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from adapters.schema import Reward, WeightSpan
from adapters.token_ids import TokenIds
from storage.formats.row import Row
from storage.samples.sample import Finding, Sample, SampledSpan

_PLAIN: Final = (
    "session_id",
    "branch",
    "run_id",
    "group_id",
    "attempt",
    "purpose",
    "status",
    "agent_id",
    "parent_agent_id",
    "model",
    "first_prompt_len",
    "truncated",
    "weight",
    "reward",
)
"""The fields that are one plain value."""
_KEPT: Final = (bytes, datetime)
"""What a row has as it is, and JSON as text."""

Value = TypeVar("Value")


class BadRow(ValueError):
    """A row that is no flat sample."""


def row(sample: Sample) -> Row:
    """Shares the sample's arrays: a row costs nothing for each of its tokens."""
    told: Row = {name: getattr(sample, name) for name in _PLAIN}
    return told | {
        "token_ids": sample.token_ids.numpy(),
        "mask": sample.mask,
        "logprobs": sample.logprobs,
        "weight_versions": _builtins(sample.weight_versions),
        "spans": _builtins(sample.spans),
        "rewards": _builtins(sample.rewards),
        "trace_ids": list(sample.trace_ids),
        "findings": _builtins(sample.findings),
        "metadata": dict(sample.metadata),
    }


def sample_from_row(row: Mapping[str, Any]) -> Sample:
    """From a row as `row` gave it, as JSON has it, or as Arrow has it (`to_pylist`). Raises BadRow."""
    try:
        return Sample(
            **{name: row[name] for name in _PLAIN},
            token_ids=_ids(row["token_ids"]),
            mask=np.asarray(row["mask"], np.int8),
            logprobs=np.asarray(row["logprobs"], np.float32),  # A null becomes NaN.
            weight_versions=_values(row["weight_versions"], WeightSpan),
            spans=_values(row["spans"], SampledSpan),
            rewards=tuple(
                replace(_value(told | {"metadata": {}}, Reward), metadata=_free_form(told["metadata"]))
                for told in row["rewards"]
            ),
            trace_ids=tuple(row["trace_ids"]),
            findings=_values(row["findings"], Finding),
            metadata=_free_form(row["metadata"]),
        )
    except KeyError as exc:
        raise BadRow(f"the row has no {exc.args[0]}") from exc
    except (TypeError, ValueError, msgspec.ValidationError) as exc:
        raise BadRow(f"not a flat sample: {exc}") from exc


def _builtins(values: tuple[object, ...]) -> list[Row]:
    return list(msgspec.to_builtins(values, builtin_types=_KEPT))


def _values(told: Any, kind: type[Value]) -> tuple[Value, ...]:
    return tuple(_value(each, kind) for each in told)


def _value(told: Any, kind: type[Value]) -> Value:
    return msgspec.convert(told, kind)


def _ids(told: Any) -> TokenIds:
    if isinstance(told, np.ndarray) and told.dtype == np.int32:
        return TokenIds.from_bytes(told.astype("<i4", copy=False).tobytes())
    return TokenIds(told)


def _free_form(told: Any) -> Mapping[str, Any]:
    return msgspec.json.decode(told, type=dict[str, Any]) if isinstance(told, str) else told

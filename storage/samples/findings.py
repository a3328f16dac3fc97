"""What a trainer should know of a sample before it trains on it: the codes, and what each is found by.

| code | fatal | found where |
|---|---|---|
| `session_incomplete` | where a trace can't be read back | tokens of the session are lost: all its rows say so |
| `logprob_missing` | unless `logprobs=optional` | a trained token has no logprob |
| `logprob_positive` | yes | a trained token has a logprob above 0 |
| `id_outside_vocabulary` | yes | an id of the row, of a prompt too, is not below the `vocab_size` that was told |
| `mixed_weight_versions` | | several versions sampled the trained tokens |
| `mixed_logprobs_modes` | | raw and processed logprobs stand side by side |
| `selected` | | a trained answer was picked out of several that the engine sampled (`best_of`) |
| `truncated` | | the last call was cut by a length limit |
| `single_call` | | a merged row is one call long: it continues none, and none continues it |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from storage.codec import is_unreadable
from storage.samples.chosen import Lost
from storage.samples.node import Node
from storage.samples.options import SampleOptions
from storage.samples.rows import Row
from storage.samples.sample import Finding
from storage.samples.versions import between, covers

LENGTH: Final = "length"
"""The `finish_reason` of a completion that a limit cut."""
_ROUNDING: Final = 1e-3
"""A log-softmax in half precision may print a sure token as slightly above 0 (as `adapters.verdict` grants)."""
_SHOWN: Final = 10


def is_sound(node: Node, options: SampleOptions) -> bool:
    """Whether training it makes no finding that is fatal."""
    return not _positive(node) and (options.logprobs == "optional" or not _missing(node))


def is_in_range(node: Node, options: SampleOptions) -> bool:
    """Whether all its tokens are from weights that were asked for."""
    least, most = options.min_weight_version, options.max_weight_version
    if least is None and most is None:
        return True
    spans = node.weight_versions
    return covers(spans, node.start, node.end) and all(between(span.version, least, most) for span in spans)


def outside_vocabulary(row: Row, vocab_size: int | None) -> int | None:
    """The position of the first id that the model can't know."""
    if vocab_size is None:
        return None
    outside = np.flatnonzero(row.token_ids.numpy() >= vocab_size)
    return int(outside[0]) if len(outside) else None


def incomplete(lost: Sequence[Lost]) -> tuple[Finding, ...]:
    """For every row of a session that lost tokens."""
    if not lost:
        return ()
    reasons = [f"{each.trace.trace_id}: {each.reason}" for each in lost[:_SHOWN]]
    if len(lost) > _SHOWN:
        reasons.append(f"and {len(lost) - _SHOWN} more")
    detail = f"Tokens of {_calls(len(lost))} of this session are not in its samples. {'; '.join(reasons)}"
    # A record that is damaged is for a person to look at before anything of it is trained.
    fatal = any(is_unreadable(each.trace) for each in lost)
    return (Finding("session_incomplete", fatal, detail, tuple(each.trace.trace_id for each in lost)),)


def findings_of(row: Row, options: SampleOptions) -> Iterator[Finding]:
    own = row.trained
    if missing := [node for node in own if _missing(node)]:
        detail = f"{sum(map(_missing, missing))} trained tokens of {_calls(len(missing))} have no logprob."
        yield Finding("logprob_missing", options.logprobs == "required", detail, _ids(missing))
    if positive := [node for node in own if _positive(node)]:
        detail = f"{sum(map(_positive, positive))} trained tokens of {_calls(len(positive))} have a logprob above 0."
        yield Finding("logprob_positive", True, detail, _ids(positive))
    position = outside_vocabulary(row, options.vocab_size)
    if position is not None:
        detail = f"Id {row.token_ids[position]} at position {position} is not below {options.vocab_size}."
        yield Finding("id_outside_vocabulary", True, detail, (_holder(row, position).trace_id,))
    versions = sorted({span.version for node in own for span in node.weight_versions})
    if len(versions) > 1:
        detail = f"{len(versions)} versions sampled the trained tokens: {_listed(versions)}."
        yield Finding("mixed_weight_versions", False, detail, _ids(own))
    if len({node.trace.logprobs_mode for node in own} - {None}) > 1:
        detail = "Some logprobs are raw, others processed (after temperature and the like); the spans say which."
        yield Finding("mixed_logprobs_modes", False, detail, _ids(own))
    if selected := [node for node in own if _selected(node)]:
        detail = f"The engine picked the answers of {_calls(len(selected))} out of several that it sampled (`best_of`)."
        yield Finding("selected", False, detail, _ids(selected))
    if row.leaf.choice.finish_reason == LENGTH:
        yield Finding("truncated", False, "The last call was cut by a length limit.", (row.leaf.trace_id,))
    if options.style == "merged" and len(row.path) == 1:
        detail = "This call continues no other token for token, and none continues it."
        yield Finding("single_call", False, detail, (row.leaf.trace_id,))


def _missing(node: Node) -> int:
    return int(np.count_nonzero(np.isnan(node.logprobs)))


def _positive(node: Node) -> int:
    return int(np.count_nonzero(node.logprobs > _ROUNDING))


def _selected(node: Node) -> bool:
    """Whether more was sampled than was told: the likeliest are no fair sample of the policy."""
    asked = node.trace.sampling.effective
    best_of, given = (asked.get(name) or 1 for name in ("best_of", "n"))
    return isinstance(best_of, int) and isinstance(given, int) and best_of > given


def _holder(row: Row, position: int) -> Node:
    """The first call whose prompt or own ids hold it."""
    return next(node for node in row.path if position < node.end)


def _ids(nodes: Sequence[Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node.trace_id for node in nodes))


def _calls(count: int) -> str:
    return f"{count} call" if count == 1 else f"{count} calls"


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more

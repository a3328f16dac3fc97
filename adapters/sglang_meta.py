"""What SGLang tells beside the tokens: which weights sampled them, and which experts they went to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from msgspec import Raw

from adapters.answer_shape import WholeAnswer
from adapters.raw import Fields, NotJSON, open_array, open_object, text, told
from adapters.schema import Choice, Completion

_INT32: Final = "<i4"


def lifted(answer: WholeAnswer) -> WholeAnswer:
    """The answer with what `meta_info`, `metadata` and `sglext` say of a choice put where other engines say it.

    SGLang makes `metadata` and `sglext` of its first choice alone, so they say nothing of the others.
    """
    root = {name: _object(answer.root.get(name)) for name in ("metadata", "sglext")}
    choices = tuple(
        _lifted(fields, {} if position else root["metadata"], {} if position else root["sglext"])
        for position, fields in enumerate(answer.choices)
    )
    return replace(answer, choices=choices)


def with_meta(completion: Completion, answer: WholeAnswer) -> Completion:
    """The completion that was read from this answer, with what no other engine tells so."""
    return replace(
        completion,
        weight_version=_weight_version(answer),
        choices=tuple(_with_dtype(choice) for choice in completion.choices),
    )


def _lifted(fields: Mapping[str, Raw], metadata: Fields, sglext: Fields) -> Mapping[str, Raw]:
    meta = _object(fields.get("meta_info"))
    lifts = {
        "weight_versions": meta.get("weight_versions") or metadata.get("weight_versions"),
        "routed_experts": meta.get("routed_experts") or sglext.get("routed_experts"),
        "matched_stop": _single(fields.get("matched_stop")),
    }
    return {**fields, **{name: raw for name, raw in lifts.items() if told(raw)}}


def _weight_version(answer: WholeAnswer) -> str | None:
    """Of the whole answer, or what all its choices agree on. It is of the answer's end: spans tell the rest."""
    version = text(_object(answer.root.get("metadata")).get("weight_version"))
    if version is not None:
        return version
    told_versions = {text(_object(fields.get("meta_info")).get("weight_version")) for fields in answer.choices}
    return told_versions.pop() if len(told_versions) == 1 else None


def _with_dtype(choice: Choice) -> Choice:
    """Experts come as bare int32, without a shape."""
    experts = choice.routed_experts
    if experts is None or experts.dtype is not None or len(experts.data) % 4:
        return choice
    return replace(choice, routed_experts=replace(experts, dtype=_INT32))


def _single(raw: Raw | None) -> Raw | None:
    """The newest versions list the stop tokens that matched; of several no one is the stop reason."""
    if not told(raw):
        return None
    try:
        matched = open_array(raw)
    except NotJSON:
        return raw
    return matched[0] if len(matched) == 1 else None


def _object(raw: Raw | None) -> Fields:
    try:
        return open_object(raw) if told(raw) else {}
    except NotJSON:
        return {}

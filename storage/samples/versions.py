"""Which weights sampled which tokens, and which versions lie between two others."""

from __future__ import annotations

from adapters.schema import Choice, Trace, WeightSpan


def versions_of(trace: Trace, choice: Choice) -> tuple[WeightSpan, ...]:
    """Spans over the choice's own ids: its own where the engine told them, else the trace's one version over all.

    Where spans tell of other versions than the trace does, the trace's word sums its choices up (`mixed`) and is no
    version: a choice without spans is then left untold.
    """
    length = len(choice.token_ids or ())
    if choice.weight_versions:
        # An engine's numbers are not yet positions that exist.
        clamped = (WeightSpan(s.version, max(s.start, 0), min(s.end, length)) for s in choice.weight_versions)
        return tuple(sorted((span for span in clamped if span.start < span.end), key=lambda span: span.start))
    told = {span.version for other in trace.choices for span in other.weight_versions or ()}
    if trace.weight_version is None or (told and trace.weight_version not in told):
        return ()
    return (WeightSpan(trace.weight_version, 0, length),)


def shifted(spans: tuple[WeightSpan, ...], by: int) -> tuple[WeightSpan, ...]:
    return tuple(WeightSpan(span.version, span.start + by, span.end + by) for span in spans)


def covers(spans: tuple[WeightSpan, ...], start: int, end: int) -> bool:
    """Whether every token in between has a version. `spans` are in the order of their start."""
    reached = start
    for span in spans:
        if span.start > reached:
            return False
        reached = max(reached, span.end)
    return reached >= end


def between(version: str, least: str | None, most: str | None) -> bool:
    """Both ends are in; None leaves that side open."""
    return (least is None or not _before(version, least)) and (most is None or not _before(most, version))


def _before(one: str, other: str) -> bool:
    """Whole numbers as numbers, all else as text."""
    if _is_number(one) and _is_number(other):
        return _magnitude(one) < _magnitude(other)
    return one < other


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdigit()


def _magnitude(digits: str) -> tuple[int, str]:
    """Orders numbers of any length: `int` refuses text of some thousand digits."""
    significant = digits.lstrip("0")
    return len(significant), significant

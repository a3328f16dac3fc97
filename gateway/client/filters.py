"""What lists can be asked for, by keyword, and what that is in a URL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypedDict

from gateway.client.values import Capture, Dialect, Ending, Fidelity, Purpose, SessionStatus, Status, Unit


class Labels(TypedDict, total=False):
    """What a session's maker may say of it."""

    run: str
    group: str
    group_size: int
    attempt: int
    purpose: Purpose
    capture: Capture
    sampling: Mapping[str, Any] | None
    """Sent in each of its calls, whatever its agent asks for; a null in it leaves a parameter out."""
    budgets: Mapping[str, float | None] | None
    """`calls`, `completion_tokens`, `total_tokens`, `seconds`: a call beyond them is answered with an end."""
    metadata: Mapping[str, Any]


class NewLabels(Labels, total=False):
    session_id: str
    """One is made up unless it is given."""


class RewardFields(TypedDict, total=False):
    """What may be said of a reward beside its value."""

    name: str
    """Of the component; `reward` unless said otherwise. A later one of the same name revises it."""
    weight: float
    """Its part in the session's reward: 1 unless said otherwise, 0 for what is only watched."""
    trace_id: str
    """Where it is one call's."""
    metadata: Mapping[str, Any]
    reward_id: str
    """The judge's own key, under which it counts once however often it is told."""


class Paging(TypedDict, total=False):
    page_size: int
    """How many a page has; sessions, where the list is of samples."""
    cursor: str
    """Where to go on: the `cursor` of an earlier list."""
    wait: float
    """Seconds to wait for an empty list to have something, up to 60."""


class SessionFilters(Paging, total=False):
    run: str
    group: str
    status: SessionStatus
    purpose: Purpose
    implicit: bool
    since: datetime | str
    """Made at or after."""
    until: datetime | str
    """Made before."""


class TraceFilters(Paging, total=False):
    run: str
    group: str
    session: str
    model: str
    engine: str
    backend: str
    status: Status
    fidelity: Fidelity
    weight_version: str
    purpose: Purpose
    dialect: Dialect
    since: datetime | str
    until: datetime | str
    exclude: str | Sequence[str]
    """Fields to leave out: `request`, `choices.logprobs` …"""


class SampleOptions(TypedDict, total=False):
    """How samples are built of sessions."""

    style: Literal["merged", "traces"]
    """A row for each path through a session (the default), or for each call."""
    aux: bool
    agents: Literal["all", "main"]
    """`main`: without the calls of sub-agents."""
    retries: bool
    cut: bool
    logprobs: Literal["required", "optional"]
    complete: bool
    """Nothing of a session that lost tokens."""
    fatal: bool
    """Samples with fatal findings too."""
    min_weight_version: str
    max_weight_version: str
    vocab_size: int


class SessionChoice(TypedDict, total=False):
    """Of which ended sessions."""

    run: str
    group: str
    session: str
    purpose: Purpose | Literal["any"]
    """`train` unless said otherwise, or unless a session or a claim is asked for."""
    since: datetime | str
    """Ended at or after."""
    until: datetime | str
    """Ended before."""
    undelivered_to: str
    """Without those that this consumer has acknowledged."""
    claim: str


class SampleFilters(SessionChoice, SampleOptions, Paging, total=False):
    status: Ending | Sequence[Ending]
    """`finished` unless said otherwise."""


class ExportFilters(SessionChoice, SampleOptions, total=False):
    """Of samples; of traces what `TraceFilters` has for them."""

    of: Literal["samples", "traces"]
    format: Literal["jsonl", "parquet", "arrow"]
    status: Ending | Status | Sequence[Ending | Status]
    """`finished` sessions unless said otherwise; of traces any one."""
    shape: str
    """A trainer's own record (`verl`, `slime`, `trl` …), as `jsonl`; `flat` unless said otherwise."""
    limit: int
    """A part of so many sessions, or traces; without it, all."""
    cursor: str
    """Where to go on: the `cursor` of the part before."""
    model: str
    engine: str
    backend: str
    fidelity: Fidelity
    weight_version: str
    dialect: Dialect


class GroupFilters(Paging, total=False):
    run: str
    group: str
    complete: bool
    """Only complete groups, or only those that are not."""
    group_size: int
    """How many sessions a group is to have where its sessions do not say."""


class ClaimFilters(TypedDict, total=False):
    """Which work is claimed: of all that fits, what ended first."""

    consumer: str
    """Whoever has the same name shares the work; `default` unless said otherwise."""
    lease: float
    """For how many seconds it is nobody else's; 600 unless said otherwise."""

    run: str
    group: str
    unit: Unit
    """Finished sessions (the default), or complete groups."""
    limit: int
    """How many of them at most; 1 unless said otherwise."""
    group_size: int
    """The size of groups whose sessions do not say."""
    status: Ending | Sequence[Ending]
    """`finished` unless said otherwise."""
    purpose: Purpose | None
    """`train` unless said otherwise; None is any, evaluations too."""


class BackendFields(TypedDict, total=False):
    """What an administrator knows of a backend; the rest is found out by asking it."""

    name: str
    engine: str
    version: str
    variant: str
    features: Sequence[str]
    models: Sequence[str]
    tokenizer: str
    api_key_env: str
    weight: float
    aliases: Mapping[str, str]
    control_urls: Sequence[str]
    """Where its engines are paused and go on, if that is not at the backend's own URL."""
    weight_version: str
    """Which weights it has, known before its first call."""


class BackendChanges(TypedDict, total=False):
    """What is to be another of a backend; null is what is found out by asking, none, or as it is configured."""

    url: str
    engine: str | None
    version: str | None
    variant: str | None
    features: Sequence[str]
    models: Sequence[str]
    tokenizer: str | None
    api_key_env: str | None
    control_urls: Sequence[str]
    weight: float | None
    aliases: Mapping[str, str]


_NAMES: Final = {
    "run": "run_id",
    "group": "group_id",
    "session": "session_id",
    "page_size": "limit",
    "lease": "lease_s",
}
"""Where the API has another name than the keyword."""


def query(filters: Mapping[str, Any]) -> dict[str, str]:
    """As the parameters of a URL."""
    return {_NAMES.get(name, name): _text(value) for name, value in filters.items() if value is not None}


def fields(labels: Mapping[str, Any]) -> dict[str, Any]:
    """As the fields of a body."""
    return {_NAMES.get(name, name): value for name, value in labels.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str):
        return value
    return ",".join(map(str, value)) if isinstance(value, Sequence) else str(value)

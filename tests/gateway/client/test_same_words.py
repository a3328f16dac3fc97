"""The client imports nothing of the gateway, so its names and choices are written a second time: here they are one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from pydantic import BaseModel

from adapters import schema
from gateway.api import (
    admin,
    backend_status,
    changed_backend,
    claims,
    export,
    groups,
    new_backend,
    pauses,
    rewards,
    sample_filters,
    sessions,
)
from gateway.api import traces as api_traces
from gateway.api import weights as api_weights
from gateway.client import calls, filters, status, updates, values
from gateway.client import samples as client_samples
from gateway.client import traces as client_traces
from gateway.weights import control, engines
from storage import audit, records, weights
from storage.samples import sample

# Keywords and the model that they are sent to, with what the client says by itself or in another way.
KEYWORDS: list[tuple[type, type[BaseModel], set[str]]] = [
    (filters.Labels, sessions.SessionFields, set()),
    (filters.NewLabels, sessions.NewSession, set()),
    (filters.RewardFields, rewards.NewReward, {"value"}),
    (filters.SessionFilters, sessions.SessionFilters, set()),
    (filters.TraceFilters, api_traces.TraceFilters, {"fields"}),  # A trace with fields of its own choice is no Trace.
    (filters.SampleOptions, sample_filters.SampleFields, {"shape"}),
    (filters.SampleFilters, sample_filters.SampleFilters, {"shape"}),
    (filters.ExportFilters, export.ExportFilters, set()),
    (filters.GroupFilters, groups.GroupFilters, set()),
    (filters.ClaimFilters, claims.NewClaim, {"wait"}),
    (filters.BackendFields, new_backend.NewBackend, {"url"}),
    (updates.PauseFields, pauses.NewPause, {"wait"}),
    (updates.ResumeFields, pauses.Resume, {"pause_id"}),
    (updates.WeightEventFilters, api_weights.EventFilters, set()),
    (filters.BackendChanges, changed_backend.ChangedBackend, set()),
]

# What is told and what it is read into, with what the client does not read.
VALUES: list[tuple[type, type, set[str]]] = [
    (values.Reward, schema.Reward, set()),
    (values.Session, schema.Session, set()),
    (values.Group, records.Group, set()),
    (values.Claim, records.Claim, set()),
    (values.Backend, backend_status.BackendStatus, set()),
    (status.CallCounts, admin.CallCounts, set()),
    (status.GatewayHeard, records.GatewayHeard, set()),
    (status.FirstToken, admin.FirstToken, set()),
    (status.Action, audit.Action, set()),
    (status.GatewayStatus, admin.GatewayStatus, set()),
    (updates.Pause, control.PauseStatus, set()),
    (updates.GateStatus, control.GateStatus, set()),
    (updates.Resumed, control.Resumed, set()),
    (updates.EngineAnswer, engines.EngineAnswer, set()),
    (updates.BackendVersion, api_weights.BackendVersion, set()),
    (updates.WeightVersions, api_weights.WeightVersions, set()),
    (updates.WeightEvent, weights.WeightEvent, set()),
    (client_samples.Sample, sample.Sample, set()),
    (client_samples.SampledSpan, sample.SampledSpan, set()),
    (client_samples.Finding, sample.Finding, set()),
    (client_samples.WeightSpan, schema.WeightSpan, set()),
    (client_samples.RoutedExperts, schema.RoutedExperts, set()),
]


@pytest.mark.parametrize(("keywords", "model", "beside"), KEYWORDS, ids=lambda value: getattr(value, "__name__", None))
def test_what_can_be_asked_for_can_be_said_by_keyword(keywords: type, model: type[BaseModel], beside: set[str]) -> None:
    said = {sent_as(keyword, keywords): hint for keyword, hint in get_type_hints(keywords).items()}
    assert set(said) == set(model.model_fields) - beside
    for name, hint in said.items():
        known = set(choices(hint))
        assert not known or known == set(choices(model.model_fields[name].annotation)), name


@pytest.mark.parametrize(("read", "told", "unread"), VALUES, ids=lambda value: getattr(value, "__name__", None))
def test_what_is_told_is_read(read: type, told: type, unread: set[str]) -> None:
    assert names(read) == names(told) - unread
    assert_same_choices(read, told)


@pytest.mark.parametrize(("read", "told"), [(client_traces.Trace, schema.Trace), (client_traces.Choice, schema.Choice)])
def test_what_is_read_of_a_trace_is_told(read: type, told: type) -> None:
    assert names(read) - {"raw"} <= names(told)
    assert_same_choices(read, told)


def assert_same_choices(read: type, told: type) -> None:
    theirs = get_type_hints(told)
    for name, hint in get_type_hints(read).items():
        known = set(choices(hint))
        assert not known or known == set(choices(theirs[name])), name


def sent_as(keyword: str, of: type) -> str:
    """What the API gets for it."""
    (name,) = filters.query({keyword: "x"}) if of is filters.GroupFilters else calls.export({keyword: "x"}).params
    return name


def names(of: type) -> set[str]:
    return {field.name for field in fields(of)}


def choices(hint: Any) -> Iterator[object]:
    """The words that a type allows; none where it allows any."""
    if get_origin(hint) is Literal:
        yield from get_args(hint)
        return
    for part in get_args(hint):
        yield from choices(part)

"""What requests ask for and what storage is asked: the same names with the same defaults, on either side of HTTP."""

from __future__ import annotations

from dataclasses import fields

import pytest
from pydantic import BaseModel

from gateway.api.claims import NewClaim
from gateway.api.groups import GroupFilters
from gateway.api.sample_filters import SampleFields, SampleFilters
from gateway.api.sessions import SessionFilters
from gateway.api.traces import TraceFilters
from storage.records import ClaimRequest, EndedQuery, GroupQuery, SessionQuery, TraceQuery
from storage.samples.options import SampleOptions

# How the API calls what storage has by another name.
RENAMED = {"statuses": "status", "claim_id": "claim", "complete": "require"}


def test_what_a_request_leaves_out_is_what_storage_takes_for_left_out() -> None:
    assert SampleFields().options() == SampleOptions()
    assert SampleFilters(purpose="any").query() == EndedQuery()
    assert NewClaim().request() == ClaimRequest()
    assert GroupFilters().query() == GroupQuery()
    assert SessionFilters().query() == SessionQuery()


@pytest.mark.parametrize(
    ("model", "asked", "renamed", "beside"),
    [
        (SampleFields, SampleOptions, RENAMED, set()),
        (SampleFilters, EndedQuery, RENAMED, set()),
        (NewClaim, ClaimRequest, RENAMED, set()),
        (GroupFilters, GroupQuery, {}, set()),
        (SessionFilters, SessionQuery, {}, set()),
        (TraceFilters, TraceQuery, {}, {"end", "page_bytes", "payloads"}),  # The gateway's own to say.
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_all_that_storage_can_be_asked_can_be_requested(
    model: type[BaseModel], asked: type, renamed: dict[str, str], beside: set[str]
) -> None:
    names = {renamed.get(field.name, field.name) for field in fields(asked)}
    assert names - beside <= set(model.model_fields)

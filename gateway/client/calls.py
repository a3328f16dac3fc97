"""Every call of the API that the clients make, each told once: its path, its fields, what its answer is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsFloat, TypeVar
from urllib.parse import quote
from uuid import uuid4

from gateway.client.call import Call
from gateway.client.filters import fields, query
from gateway.client.listing import PageCall
from gateway.client.reading import each, nothing, reader
from gateway.client.samples import Sample
from gateway.client.status import GatewayStatus
from gateway.client.traces import Trace
from gateway.client.updates import Pause, Resumed, WeightEvent, WeightVersions
from gateway.client.values import Backend, Claim, Ending, Group, NewSession, Page, Session

Item = TypeVar("Item")

_SAMPLE_PAGE = 16
"""Sessions: some megabytes, where a session is some thousands of tokens."""
_ENGINES_TAKE = 60.0
"""Seconds: what the gateway waits for an engine that it asks to pause, to go on or to flush."""


def create_session(labels: Mapping[str, Any]) -> Call[NewSession]:
    return Call("POST", "/api/sessions", reader(NewSession.of), body=fields(labels))


def read_session(session_id: str) -> Call[Session]:
    return Call("GET", _session(session_id), reader(Session.of), repeatable=True)


def change_session(session_id: str, labels: Mapping[str, Any]) -> Call[Session]:
    return Call("PATCH", _session(session_id), reader(Session.of), body=fields(labels), repeatable=True)


def finish_session(session_id: str, status: Ending) -> Call[Session]:
    path = f"{_session(session_id)}/finish"
    return Call("POST", path, reader(Session.of), body={"status": status}, repeatable=True)


def delete_session(session_id: str) -> Call[None]:
    return Call("DELETE", _session(session_id), nothing)


def reward(session_id: str, value: SupportsFloat, told: Mapping[str, Any]) -> Call[None]:
    """Under a key of its own, made up if need be: sent twice it counts once. Raises ValueError."""
    number = float(value)  # Of numpy or torch too, which JSON does not take.
    if not math.isfinite(number):
        raise ValueError(f"a reward is a finite number, not {number}")
    body = {"reward_id": uuid4().hex, "value": number, **fields(told)}
    return Call("POST", f"{_session(session_id)}/rewards", nothing, body=body, repeatable=True)


def sessions(filters: Mapping[str, Any]) -> PageCall[Session]:
    return _pages("/api/sessions", filters, Session.of)


def traces(filters: Mapping[str, Any]) -> PageCall[Trace]:
    return _pages("/api/traces", filters, Trace.of)


def samples(filters: Mapping[str, Any]) -> PageCall[Sample]:
    packed = {"shape": "packed", "page_size": _SAMPLE_PAGE, **filters}
    return _pages("/api/samples", _required(packed), Sample.of)


def rows(filters: Mapping[str, Any]) -> PageCall[Mapping[str, Any]]:
    return _pages("/api/samples", _required({"page_size": _SAMPLE_PAGE, **filters}), dict)


def session_samples(session_id: str, options: Mapping[str, Any]) -> Call[tuple[Sample, ...]]:
    params = query(_required({"shape": "packed", **options}))
    read = reader(lambda told: each(Sample.of, told["items"]))
    return Call("GET", f"{_session(session_id)}/samples", read, params=params, repeatable=True)


def groups(filters: Mapping[str, Any]) -> PageCall[Group]:
    return _pages("/api/groups", filters, Group.of)


def read_trace(trace_id: str) -> Call[Trace]:
    return Call("GET", f"/api/traces/{_quoted(trace_id)}", reader(Trace.of), repeatable=True)


def export(filters: Mapping[str, Any]) -> Call[None]:
    """Its answer is read part by part, so there is nothing to read at its end."""
    return Call("GET", "/api/export", nothing, params=query(_required(filters)))


def claim(wanted: Mapping[str, Any], *, wait: float) -> Call[Claim | None]:
    body = fields(wanted) | ({"wait": wait} if wait else {})
    if "purpose" in wanted:
        body["purpose"] = wanted["purpose"]  # Null says something here: any.
    return Call("POST", "/api/claims", lambda told: reader(Claim.of)(told) if told else None, body=body, wait=wait)


def read_claim(claim_id: str) -> Call[Claim | None]:
    return Call("GET", _claim(claim_id), reader(Claim.of), repeatable=True)


def acknowledge(claim_id: str) -> Call[Claim]:
    return Call("POST", f"{_claim(claim_id)}/ack", reader(Claim.of), repeatable=True)


def release(claim_id: str) -> Call[Claim]:
    return Call("POST", f"{_claim(claim_id)}/release", reader(Claim.of), repeatable=True)


def extend(claim_id: str, lease: float) -> Call[Claim]:
    path = f"{_claim(claim_id)}/extend"
    return Call("POST", path, reader(Claim.of), body={"lease_s": lease}, repeatable=True)


def backends() -> Call[tuple[Backend, ...]]:
    return Call("GET", "/api/admin/backends", reader(lambda told: each(Backend.of, told["items"])), repeatable=True)


def add_backend(url: str, known: Mapping[str, Any]) -> Call[Backend]:
    return Call("POST", "/api/admin/backends", reader(Backend.of), body={"url": url, **fields(known)})


def change_backend(name: str, changes: Mapping[str, Any]) -> Call[Backend]:
    """Null is said here, and is not silence."""
    return Call("PATCH", f"/api/admin/backends/{_quoted(name)}", reader(Backend.of), body=dict(changes))


def drain_backend(name: str, wait: float) -> Call[Backend]:
    path = f"/api/admin/backends/{_quoted(name)}/drain?wait={wait:g}"
    return Call("POST", path, reader(Backend.of), repeatable=True)


def undrain_backend(name: str) -> Call[Backend]:
    return Call("POST", f"/api/admin/backends/{_quoted(name)}/undrain", reader(Backend.of), repeatable=True)


def remove_backend(name: str) -> Call[None]:
    return Call("DELETE", f"/api/admin/backends/{_quoted(name)}", nothing)


def probe_backend(name: str) -> Call[Backend]:
    return Call("POST", f"/api/admin/backends/{_quoted(name)}/probe", reader(Backend.of), repeatable=True)


def status() -> Call[GatewayStatus]:
    return Call("GET", "/api/admin/status", reader(GatewayStatus.of), repeatable=True)


def pause(wanted: Mapping[str, Any]) -> Call[Pause]:
    body = {"pause_id": uuid4().hex, **fields(wanted)}  # So that one that is sent again is the same.
    wait = float(body.get("wait", 0.0)) + (_ENGINES_TAKE if "engine" in body else 0.0)
    return Call("POST", "/api/admin/pause", reader(Pause.of), body=body, repeatable=True, wait=wait)


def pauses() -> Call[tuple[Pause, ...]]:
    return Call("GET", "/api/admin/pause", reader(lambda told: each(Pause.of, told["items"])), repeatable=True)


def resume(which: Mapping[str, Any]) -> Call[Resumed]:
    body = fields(which)
    return Call("POST", "/api/admin/resume", reader(Resumed.of), body=body, repeatable=True, wait=2 * _ENGINES_TAKE)


def weight_versions() -> Call[WeightVersions]:
    return Call("GET", "/api/admin/weight-version", reader(WeightVersions.of), repeatable=True)


def set_weight_version(version: str, backends: Sequence[str] | None) -> Call[WeightVersions]:
    body = fields({"weight_version": version, "backends": backends})
    return Call("PUT", "/api/admin/weight-version", reader(WeightVersions.of), body=body, repeatable=True)


def weight_events(filters: Mapping[str, Any]) -> PageCall[WeightEvent]:
    return _pages("/api/admin/weight-events", filters, WeightEvent.of)


def _pages(path: str, filters: Mapping[str, Any], item: Callable[[Mapping[str, Any]], Item]) -> PageCall[Item]:
    """The page behind a cursor, after waiting so many seconds for it to have something."""

    def page(told: Mapping[str, Any]) -> Page[Item]:
        return Page(each(item, told["items"]), told["next"], told["complete"])

    def call(cursor: str | None, wait: float) -> Call[Page[Item]]:
        params = query({**filters, "cursor": cursor, "wait": wait or None})
        return Call("GET", path, reader(page), params=params, repeatable=True, wait=wait)

    return call


def _required(filters: Mapping[str, Any]) -> dict[str, Any]:
    """`complete=True` is `require=complete` at the API, whose lists have a `complete` of another meaning."""
    rest = {name: value for name, value in filters.items() if name != "complete"}
    return rest | ({"require": "complete"} if filters.get("complete") else {})


def _session(session_id: str) -> str:
    return f"/api/sessions/{_quoted(session_id)}"


def _claim(claim_id: str) -> str:
    return f"/api/claims/{_quoted(claim_id)}"


def _quoted(name: str) -> str:
    return quote(name, safe="")

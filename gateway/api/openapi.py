"""`/openapi.json`: what FastAPI says of `/api`, told as it is on the wire, and the agents' endpoints beside it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fastapi import FastAPI
from pydantic import TypeAdapter

from gateway.api.app import routes
from gateway.api.problem import MEDIA_TYPE, Problem
from gateway.api.scoped import scope_of
from storage.scopes import Scope

_Json = dict[str, Any]

_PREFIX: Final = "/api"
_MODELS: Final = "/v1/models"
_DESCRIPTION: Final = """\
Records what agents' models really sampled: exact token ids and logprobs, durably, from any engine.

Agents use the endpoints under `/v1`, or those of one session under `/sessions/{session_id}/v1`. Trainers and
administrators use `/api`. Each operation names the scope that its key needs; without any keys a gateway is for its
own machine alone.
In all answers `null` means «not told» and `[]` means «told: none»."""

# Where the wire differs from the schema's own types: bytes are no JSON.
_AS_SENT: Final[dict[tuple[str, str], _Json]] = {
    ("RecordedRequest", "body"): {
        "description": "The body as the JSON that it is; a string where the agent sent something else.",
    },
    ("RoutedExperts", "data"): {"type": "string", "contentEncoding": "base64"},
}
# `fields` and `exclude` leave out what they like.
_SELECTABLE: Final = ("Trace", "Choice")


def openapi(app: FastAPI, agent_endpoints: Iterable[str]) -> _Json:
    """The document of the whole gateway. `agent_endpoints` are paths such as `/v1/chat/completions`."""
    told = app.openapi()
    schemas = dict(sorted((told["components"]["schemas"] | _problem_schemas()).items()))
    for (schema, name), as_sent in _AS_SENT.items():
        schemas[schema]["properties"][name] = as_sent
    for schema in _SELECTABLE:
        schemas[schema].pop("required", None)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    operations = {_PREFIX + path: _with_problems(item) for path, item in told["paths"].items()}
    for route in routes():
        for method in route.methods or ():
            operations[_PREFIX + route.path_format][method.lower()]["security"] = _security(scope_of(route))
    return {
        "openapi": told["openapi"],
        "info": told["info"] | {"description": _DESCRIPTION},
        "paths": _agent_paths(agent_endpoints) | operations | _sight_paths(),
        "components": {"schemas": _without_titles(schemas), "securitySchemes": _SECURITY_SCHEMES},
    }


_SECURITY_SCHEMES: Final[_Json] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key with the scope that the operation names."},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "The same key."},
}


def _security(scope: Scope) -> list[_Json]:
    """By the one or the other; or by none, at a gateway without keys."""
    return [{name: [scope]} for name in _SECURITY_SCHEMES] + [{}]


def _problem_schemas() -> _Json:
    """No route answers with one by its type, so FastAPI knows nothing of it."""
    problem = TypeAdapter(Problem).json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
    parts: _Json = problem.pop("$defs")
    return parts | {Problem.__name__: problem}


def _with_problems(item: _Json) -> _Json:
    """Every error is a problem, the one of a request that does not fit too (FastAPI tells of a 422)."""
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    for operation in item.values():
        operation["parameters"] = [_without_titles(each) for each in operation.get("parameters", [])]
        responses = operation["responses"]
        responses.pop("422", None)
        responses["default"] = {"description": "An error (RFC 9457).", "content": {MEDIA_TYPE: problem}}
    return item


def _without_titles(value: Any) -> Any:
    """Pydantic gives each property a title that is its name once more."""
    if isinstance(value, list):
        return [_without_titles(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_titles(each) for key, each in value.items() if not (key == "title" and isinstance(each, str))}


def _agent_paths(endpoints: Iterable[str]) -> _Json:
    paths: _Json = {}
    for path in endpoints:
        method = "get" if path == _MODELS else "post"
        name = path.removeprefix("/v1/")
        paths[path] = {method: _agent_operation(f"As the API of this name: {name}.", body=method == "post")}
        paths["/sessions/{session_id}" + path] = {
            method: _agent_operation("The same, for this session.", session=True, body=method == "post")
        }
    return paths


def _agent_operation(summary: str, *, body: bool, session: bool = False) -> _Json:
    operation: _Json = {
        "tags": ["agents"],
        "summary": summary,
        "security": _security("infer"),
        "responses": {
            "200": {"description": "The backend's answer, with nothing in it that was not asked for."},
            "default": {"description": "An error in the shape of the API that the agent speaks."},
        },
    }
    if session:
        operation["parameters"] = [{"name": "session_id", "in": "path", "required": True, "schema": {"type": "string"}}]
    if body:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": {"type": "object"}}},
        }
    return operation


def _sight_paths() -> _Json:
    health = {
        path: {"get": {"tags": ["health"], "summary": summary, "responses": responses}}
        for path, summary, responses in (
            ("/healthz", "Whether the process lives.", {"200": {"description": "It does."}}),
            (
                "/readyz",
                "Whether it should be given calls.",
                {"200": {"description": "It should."}, "503": {"description": "Not now; `problems` says why."}},
            ),
        )
    }
    metrics = {
        "tags": ["health"],
        "summary": "What it counts and what it is, for Prometheus. No key is asked for where `metrics_open` is set.",
        "security": _security("trace:read"),
        "responses": {
            "200": {"description": "The text format.", "content": {"text/plain": {"schema": {"type": "string"}}}},
            "default": {"description": "A key without the scope, or none."},
        },
    }
    return health | {"/metrics": {"get": metrics}}

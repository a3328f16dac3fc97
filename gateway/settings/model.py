"""The settings of one gateway: every one with its default, its unit and its bounds."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from adapters.schema import Capture
from gateway.settings.backend import BackendSettings
from storage.durability import DEFAULT_DURABILITY, Durability

LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(BaseModel):
    """Everything that an administrator decides. Times are seconds, sizes are bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=9090, ge=0, le=65535)
    """0: any free one."""
    database: str = Field(default="sqlite:///rollouts.db", min_length=1)
    spool: Path | None = None
    """The folder for what the database does not take; beside the SQLite file unless named."""
    durability: Durability = DEFAULT_DURABILITY
    """What a record survives."""
    backends: tuple[BackendSettings, ...] = ()
    capture: Capture = "exact"
    """What may be given up for a stream; a session can say otherwise."""
    aux_rules: bool = True
    """Whether calls that harnesses make for themselves are found, and given the purpose `aux`."""
    max_tokens_beyond_context: Literal["leave_out", "send"] = "leave_out"
    """What becomes of a chat's limit that is longer than the whole context of the backend's models."""
    keys: tuple[SecretStr, ...] = ()
    """Agents' keys. Without any the gateway listens on loopback alone and takes every key."""
    admin_key: SecretStr | None = None
    """For `/api`. Without one, that is open on loopback alone; and closed where agents have `keys`."""
    admin_host: str = Field(default="127.0.0.1", min_length=1)
    admin_port: int | None = Field(default=None, ge=1, le=65535)
    """Administration has a listener of its own there, and no place at the agents'."""
    metrics_open: bool = False
    """Whether `/metrics` is for everybody who reaches the listener; else it takes a key, as `/api` does."""
    public_url: str | None = None
    """Where agents reach the gateway, if that is not `http://host:port`: the start of each `base_url`."""
    workers: int = Field(default=1, ge=1)
    commit_timeout: float = Field(default=1.0, gt=0)
    """How long an answer's end waits for the database to have its trace, before the spool gets it."""
    keepalive_interval: float = Field(default=10.0, gt=0)
    """How long an agent may see nothing before it gets a comment."""
    keepalive_whole: bool = False
    """Whether an agent that waits for a whole answer gets white space before it, as often."""
    busy_wait: float = Field(default=0.0, ge=0)
    """How long a call may wait, in all, for a backend that refuses it with 429 or 503 and says when to come back."""
    connect_timeout: float = Field(default=5.0, gt=0)
    """For a call's two tries together."""
    first_byte_timeout: float = Field(default=1800.0, gt=0)
    """Long, for a whole answer of 32,000 tokens behind a full queue shows no byte before it is done."""
    idle_timeout: float = Field(default=600.0, gt=0)
    """Between two reads of an answer: engines pause for minutes while weights change."""
    total_timeout: float = Field(default=7200.0, gt=0)
    detect_timeout: float = Field(default=2.0, gt=0)
    """For each question of the detection of a backend's engine, and for a probe."""
    probe_interval: float = Field(default=10.0, gt=0)
    """Nothing was heard of a backend for so long: it is asked whether it lives."""
    stop_grace: float = Field(default=30.0, ge=0)
    """How long calls may go on after SIGTERM."""
    stop_notice: float = Field(default=5.0, ge=0)
    """How long `/readyz` says so before the listener closes, where somebody asks it."""
    receive_timeout: float = Field(default=30.0, gt=0)
    """For a request's head to be whole, and again for its body, which has a second more for each 64 KiB of it."""
    max_connections: int | None = Field(default=None, ge=1)
    """None: as many as file descriptors are left for, a call's to its backend counted in."""
    max_calls: int | None = Field(default=None, ge=1)
    """Agents' calls at a time; those of `/api` are not counted. None: no other limit than that of connections."""
    max_calls_per_key: int | None = Field(default=None, ge=1)
    max_body_bytes: int = Field(default=64 << 20, gt=0)
    max_bodies_bytes: int = Field(default=1 << 30, gt=0)
    """Of the bodies of all agents' calls that run."""
    max_answer_bytes: int = Field(default=256 << 20, gt=0)
    otlp_endpoint: str | None = None
    """Where spans go, by OTLP over HTTP; or as OpenTelemetry's own variables say. Without either there are none."""
    log_level: LogLevel = "info"
    log_format: Literal["auto", "console", "json"] = "auto"
    """`auto`: for a person where the standard error is a terminal, else a JSON object a line."""

    @field_validator("backends", mode="before")
    @classmethod
    def _parse_backends(cls, value: object) -> object:
        if isinstance(value, str):
            value = value.split()
        if isinstance(value, Iterable) and not isinstance(value, Mapping):
            return tuple(BackendSettings.parse(each) if isinstance(each, str) else each for each in value)
        return value

    @field_validator("keys", mode="before")
    @classmethod
    def _split_keys(cls, value: object) -> object:
        return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value

    @field_validator("keys", mode="after")
    @classmethod
    def _no_empty_key(cls, value: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if not all(key.get_secret_value().strip() for key in value):
            raise ValueError("one of them is empty, and an empty key would let everyone in")
        return value

    @field_validator("admin_key", mode="after")
    @classmethod
    def _empty_is_none(cls, value: SecretStr | None) -> SecretStr | None:
        return value if value is not None and value.get_secret_value() else None

    @field_validator("public_url", mode="after")
    @classmethod
    def _bare_public_url(cls, value: str | None) -> str | None:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("has to begin with http:// or https://")
        return value.rstrip("/").removesuffix("/v1") if value else None

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        names = [backend.name for backend in self.backends]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two backends are named {name!r}: give each a name of its own with name=")
        if self.max_bodies_bytes * 3 // 4 < self.max_body_bytes:
            raise ValueError("max_bodies_bytes has to be 4/3 of max_body_bytes or more, or the largest would never fit")
        if self.workers > 1:
            from storage.location import is_postgres  # Here, for it would bring SQLAlchemy to every command.

            if not is_postgres(self.database):
                raise ValueError(needs_postgres(self.workers))
        if self.admin_port is not None and self.admin_port == self.port:
            raise ValueError("port and admin_port are the same: administration is told from the rest by its port")
        return self

    def secrets(self) -> list[str]:
        """What must stand in no line of a log."""
        told = [*self.keys, self.admin_key, *(backend.api_key for backend in self.backends)]
        return [each.get_secret_value() for each in told if each is not None] + _passwords(self.database)

    @property
    def listens_on(self) -> tuple[str, ...]:
        return (self.host,) if self.admin_port is None else (self.host, self.admin_host)


def _passwords(url: str) -> list[str]:
    """As it stands in the URL, and as it is said."""
    told = urlsplit(url).password
    return [told, unquote(told)] if told else []


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener on `host`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def needs_postgres(workers: int) -> str:
    return (
        f"--workers {workers}: SQLite takes one gateway process; start it without --workers, or let the workers share "
        "a PostgreSQL: --database postgresql://user@host/name"
    )

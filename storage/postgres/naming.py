"""A PostgreSQL's name: the servers that the driver goes to, as the URL or the environment says, and the database."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from psycopg import pq
from sqlalchemy import URL

_LOCAL: Final = "[local]"
"""The server whose socket is where libpq looks by itself."""


def name_of(url: URL) -> str:
    """`postgresql://host:port/database`: the same for the same servers, however and in whatever order they are told.

    A port that nobody tells is left out.
    """
    told = {name: str(value) for name, value in url.get_dialect()().create_connect_args(url)[1].items()}
    # A service goes before the environment. Only libpq reads what is in it.
    servers = [f"service={told['service']}"] if "service" in told else _servers(_environment() | told)
    return f"postgresql://{','.join(servers)}/{told['dbname']}"


def _servers(told: Mapping[str, str]) -> list[str]:
    hosts = (told.get("hostaddr") or told.get("host") or _LOCAL).split(",")
    ports = told.get("port", "").split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    return sorted(
        f"{host or _LOCAL}:{port}" if port else host or _LOCAL for host, port in zip(hosts, ports, strict=False)
    )


def _environment() -> dict[str, str]:
    """What libpq takes from there, and from the service that it names."""
    return {
        os.fsdecode(option.keyword): os.fsdecode(option.val)
        for option in pq.Conninfo.get_defaults()
        if option.val is not None and option.val != option.compiled
    }

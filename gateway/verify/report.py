"""What `verify` says: a table for people, or one JSON object."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from adapters.server import Server
from gateway.verify.checks import Check
from gateway.verify.finding import Finding

_STYLES = {"pass": "green", "fail": "bold red", "can't": "yellow"}


@dataclass(frozen=True, slots=True)
class Row:
    check: Check
    finding: Finding


@dataclass(frozen=True, slots=True)
class Report:
    """`server` is null where none answered, and `error` says why."""

    url: str
    model: str | None = None
    server: Server | None = None
    rows: tuple[Row, ...] = ()
    captured: tuple[str, ...] = ()
    """In a sentence each, what the gateway would have of a call."""
    error: str | None = None

    @property
    def exit_status(self) -> int:
        if self.error is not None:
            return 2
        return 1 if any(row.finding.result == "fail" for row in self.rows) else 0


def show(report: Report) -> None:
    console = Console(highlight=False)
    if report.error is not None or report.server is None:
        console.print(Text(f"{report.url}: {report.error}", "bold red"))
        return
    server = report.server
    kind = " ".join(part for part in (server.engine, server.version, server.variant) if part)
    console.print(Text.assemble((report.url, "bold"), f" is {kind} ({server.known}), model {report.model}"))
    table = Table(header_style="bold")
    table.add_column("check", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("what it shows, and why", overflow="fold")
    for row in report.rows:
        finding = row.finding
        result = Text(finding.result, _STYLES[finding.result])
        table.add_row(row.check.name, result, Text.assemble((f"{row.check.shows}\n", "dim"), finding.reason))
    console.print(table)
    console.print("What the gateway would capture:", style="bold")
    for sentence in report.captured:
        console.print(Text(f"  {sentence}"), soft_wrap=True)


def write_json(report: Report) -> None:
    server = report.server
    told: dict[str, object] = {"url": report.url, "model": report.model, "error": report.error}
    if server is not None:
        features = sorted(server.features)
        told |= {"engine": server.engine, "version": server.version, "variant": server.variant, "features": features}
        told["known"] = server.known
    told["captured"] = report.captured
    told["checks"] = [
        {"name": row.check.name, "shows": row.check.shows, "result": row.finding.result, "reason": row.finding.reason}
        for row in report.rows
    ]
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(told), indent=2).decode() + "\n")

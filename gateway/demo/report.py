"""What the demo shows: a table of what was captured, one session token by token, and where to look next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from adapters.scripts.vocabulary import piece
from gateway.demo.captured import Captured

# Marks as well as colours: for who does not see colours, and for output that has none.
_OPEN, _CLOSE, _BETWEEN, _NEW_LINE = "⟦", "⟧", "│", "⏎\n"
_SAMPLED: Final = "bold green"


def show_table(console: Console, sessions: Sequence[Captured]) -> None:
    table = Table(
        title="What the gateway captured",
        title_justify="left",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for column in ("session", "engine", "turns", "plan", "fidelity", "given", "sampled", "logprobs"):
        table.add_column(column, justify="right" if column in ("turns", "given", "sampled") else "left", no_wrap=True)
    for session in sessions:
        sequence = session.sequence
        sampled = sum(by_policy for _, by_policy in sequence)
        logprobs = sum(
            len(choice.logprobs) for trace in session.traces for choice in trace.choices if choice.logprobs is not None
        )
        table.add_row(
            session.session_id,
            session.engine,
            str(len(session.traces)),
            _each(trace.plan or "none" for trace in session.traces),
            _each(trace.fidelity for trace in session.traces),
            str(len(sequence) - sampled),
            str(sampled),
            f"{logprobs} {_each(trace.logprobs_fidelity for trace in session.traces)}",
        )
    console.print(table)


def show_tokens(console: Console, session: Captured) -> None:
    text = Text()
    for by_policy, run in groupby(session.sequence, key=lambda token: token[1]):
        pieces = _pieces([token_id for token_id, _ in run])
        text.append(
            f"{_OPEN}{_BETWEEN.join(pieces)}{_CLOSE}" if by_policy else "".join(pieces),
            _SAMPLED if by_policy else "dim",
        )
    legend = Text.assemble(
        (f"{_OPEN}sampled{_CLOSE}", _SAMPLED), " by the policy, token by token   ", ("given", "dim"), " by the prompt"
    )
    console.print(
        Panel(text, title=f"{session.session_id}: one sequence of tokens", title_align="left", subtitle=legend)
    )


def show_next(console: Console, url: str, program: str, *, serving: bool) -> None:
    """`program` is the command as it can be typed here."""
    if serving:
        rows = {
            "API": f"{url}/docs",
            "traces": f"{program} traces list --url {url}",
            "agents": f"base_url = {url}/sessions/my-session/v1",
            "stop": "Ctrl-C",
        }
    else:
        rows = {
            "look around in it": f"{program} demo --serve",
            "check your own server": f"{program} verify http://localhost:8000",
            "put a gateway before it": f"{program} serve --backend http://localhost:8000",
        }
    width = max(map(len, rows))
    for name, what in rows.items():
        console.out(f"{name:<{width}}  {what}", highlight=False)  # Never cut: commands are to be copied.


def _each(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def _pieces(ids: Sequence[int]) -> list[str]:
    """Readable pieces: fragments of a character are joined to their last one."""
    pieces: list[str] = []
    held = b""
    for token_id in ids:
        held += piece(token_id)
        try:
            pieces.append(held.decode().replace("\n", _NEW_LINE))
            held = b""
        except UnicodeDecodeError:
            continue
    return [*pieces, held.decode(errors="replace")] if held else pieces

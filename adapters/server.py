"""What is known of one inference server: its engine, version and what it can give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Known = Literal["configured", "detected", "probed", "assumed"]


@dataclass(frozen=True, slots=True)
class Server:
    """An engine in one version as it runs at one backend. `features` are words of that engine's own adapter."""

    engine: str
    version: str | None = None
    variant: str | None = None
    """A fork or patch, or for a router the kind of worker behind it."""
    features: frozenset[str] = frozenset()
    """From the capability table by version and parsers, corrected by what a probe or a refusal showed."""
    models: tuple[str, ...] = ()
    known: Known = "assumed"
    context: int | None = None
    """The longest context in tokens of the models that it lists, prompt and answer together; null: not told."""
    weight_version: str | None = None
    """Of the weights that it had when it was asked, where it says so then."""

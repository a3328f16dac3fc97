"""The drift report: where prompts stop extending what was sampled, and why. Pure, and never stored."""

from storage.samples.drift.history import RequestOf
from storage.samples.drift.report import (
    CAUSES,
    AgentDrift,
    Break,
    CallDrift,
    Cause,
    Continuity,
    Counts,
    Example,
    Region,
    SessionDrift,
    Side,
)
from storage.samples.drift.session import Decode, drift_of
from storage.samples.drift.summary import Summary

__all__ = [
    "CAUSES",
    "AgentDrift",
    "Break",
    "CallDrift",
    "Cause",
    "Continuity",
    "Counts",
    "Decode",
    "Example",
    "Region",
    "RequestOf",
    "SessionDrift",
    "Side",
    "Summary",
    "drift_of",
]

"""The drift report: where prompts stop extending what was sampled, and why. Pure, and never stored."""

from storage.samples.drift.agents import agent_of
from storage.samples.drift.report import CAUSES, Break, CallDrift, Cause, Continuity, Counts, Region, SessionDrift, Side
from storage.samples.drift.session import Decode, counted, drift_of

__all__ = [
    "CAUSES",
    "Break",
    "CallDrift",
    "Cause",
    "Continuity",
    "Counts",
    "Decode",
    "Region",
    "SessionDrift",
    "Side",
    "agent_of",
    "counted",
    "drift_of",
]

"""What samples can be asked for: of which sessions, how they are built, in whose shape."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field, WithJsonSchema

from adapters.schema import Purpose
from gateway.api.inputs import Cursor, Label, Limit, RunId, Statuses, Strict, Timestamp, Wait
from gateway.settings.errors import unknown
from storage.formats.shapes import SHAPES
from storage.records import PAGE_LIMIT, EndedQuery
from storage.samples.options import AgentsWanted, LogprobsWanted, SampleOptions, SampleStyle

_LARGEST_VOCABULARY: Final = 2**31


def _known_shape(name: str) -> str:
    if name not in SHAPES:
        raise ValueError(unknown(repr(name), name, SHAPES))
    return name


ShapeName: TypeAlias = Annotated[
    str, AfterValidator(_known_shape), WithJsonSchema({"type": "string", "enum": list(SHAPES)})
]
"""Whose record a row is: `flat`, or a trainer's."""


class SampleFields(Strict):
    """How a session's samples are built."""

    style: SampleStyle = "merged"
    """A row for each path through a session, or for each choice of each call."""
    aux: bool = False
    """Calls of purpose `aux` too."""
    agents: AgentsWanted = "all"
    """`main`: without the calls of sub-agents."""
    retries: bool = False
    """Attempts that a later one repeats, too."""
    cut: bool = False
    """Answers that were cut short, too."""
    logprobs: LogprobsWanted = "required"
    require: Literal["complete"] | None = None
    """Nothing of a session that lost tokens."""
    fatal: bool = False
    """Samples with a fatal finding too."""
    min_weight_version: Label | None = None
    max_weight_version: Label | None = None
    vocab_size: Annotated[int, Field(ge=1, le=_LARGEST_VOCABULARY)] | None = None
    shape: ShapeName = "flat"

    def options(self) -> SampleOptions:
        return SampleOptions(
            style=self.style,
            aux=self.aux,
            agents=self.agents,
            retries=self.retries,
            cut=self.cut,
            logprobs=self.logprobs,
            complete=self.require == "complete",
            fatal=self.fatal,
            min_weight_version=self.min_weight_version,
            max_weight_version=self.max_weight_version,
            vocab_size=self.vocab_size,
        )


class EndedFilters(SampleFields):
    """Of which ended sessions. A field that is left out does not filter, but `status` and `purpose`."""

    session_id: str | None = None
    run_id: RunId | None = None
    group_id: str | None = None
    status: Statuses = ("finished",)
    purpose: Purpose | Literal["any"] | None = None
    """`train` unless said otherwise, or unless one session or a claim is asked for: who trains on a whole run has not
    thought of its evaluations. `train` takes also the sessions that say none."""
    since: Timestamp | None = None
    """Ended at or after."""
    until: Timestamp | None = None
    """Ended before."""
    undelivered_to: Label | None = None
    """A consumer's name: without what it has acknowledged."""
    claim: str | None = None
    cursor: Cursor | None = None

    def query(self, limit: int = PAGE_LIMIT) -> EndedQuery:
        return EndedQuery(
            session_id=self.session_id,
            run_id=self.run_id,
            group_id=self.group_id,
            statuses=self.status,
            purpose=self._purpose(),
            since=self.since,
            until=self.until,
            undelivered_to=self.undelivered_to,
            claim_id=self.claim,
            limit=limit,
            cursor=self.cursor,
        )

    def _purpose(self) -> Purpose | None:
        chosen = self.session_id is not None or self.claim is not None
        if self.purpose is None:
            return None if chosen else "train"
        return None if self.purpose == "any" else self.purpose


class SampleFilters(EndedFilters):
    limit: Limit = PAGE_LIMIT
    """Sessions on a page."""
    wait: Wait = 0

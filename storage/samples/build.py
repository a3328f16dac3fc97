"""The builder: a session and its traces in, samples out. The same for every order in which the traces come.

What a filter leaves out counts nowhere: masks and weights are shared out among the rows that are given, so that each
sampled token of theirs is trained once and the weights of a session sum to 1 over what one query serves. A token that
is itself unfit (its logprob, its weight version) is trained in no row, and the row that would have is not given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from adapters.schema import Purpose, Reward, Session, Trace
from storage.samples.agents import caller_of
from storage.samples.chosen import Chosen, choose
from storage.samples.findings import LENGTH, findings_of, incomplete, is_in_range, is_sound, outside_vocabulary
from storage.samples.forest import Path, forest_of
from storage.samples.options import SampleOptions
from storage.samples.rewards import current, total
from storage.samples.rows import Row, share_out
from storage.samples.sample import Finding, Sample

DEFAULT: Final = SampleOptions()


def samples_of(session: Session, traces: Sequence[Trace], options: SampleOptions = DEFAULT) -> tuple[Sample, ...]:
    """All samples of the session, in the order of their branches: wherever two part, the earlier call comes first.

    `traces` are all those of the session, as far as they are known. Raises ValueError for one of another session.
    """
    chosen = choose(session, traces, options)
    of_session = incomplete(chosen.lost)
    if any(options.complete or (each.fatal and not options.fatal) for each in of_session):
        return ()
    rows, rewards = _given(_paths(chosen, options), options), current(session.rewards)
    return tuple(
        _sample(session, row, branch, 1.0 / len(rows), rewards, (*of_session, *findings_of(row, options)))
        for branch, row in enumerate(rows)
    )


def _paths(chosen: Chosen, options: SampleOptions) -> Iterable[Path]:
    if options.style == "traces":
        return ((node,) for node in chosen.nodes)
    return forest_of(chosen.nodes, (each.trace for each in chosen.lost)).paths()


def _given(paths: Iterable[Path], options: SampleOptions) -> list[Row]:
    rows = share_out(paths)
    unfit = {
        node
        for row in rows
        for node in row.trained
        if not is_in_range(node, options) or not (options.fatal or is_sound(node, options))
    }
    kept = [
        row.path
        for row in rows
        if unfit.isdisjoint(row.trained) and (options.fatal or outside_vocabulary(row, options.vocab_size) is None)
    ]
    return share_out(kept, barred=unfit) if len(kept) < len(rows) else rows


def _sample(
    session: Session,
    row: Row,
    branch: int,
    weight: float,
    rewards: tuple[Reward, ...],
    findings: tuple[Finding, ...],
) -> Sample:
    leaf, trace_ids = row.leaf, row.trace_ids()
    caller = caller_of(leaf.trace)
    of_row = {None, *trace_ids}
    return Sample(
        session_id=session.session_id,
        branch=branch,
        token_ids=row.token_ids,
        mask=row.mask(),
        logprobs=row.logprobs(),
        first_prompt_len=row.path[0].start,
        spans=row.spans(),
        weight_versions=row.weight_versions(),
        weight=weight,
        reward=total(rewards),
        rewards=tuple(each for each in rewards if each.trace_id in of_row),
        run_id=session.run_id,
        group_id=session.group_id,
        attempt=session.attempt,
        purpose=_purpose(row),
        status=session.status,
        trace_ids=trace_ids,
        agent_id=caller.agent_id if caller is not None else None,
        parent_agent_id=caller.parent_agent_id if caller is not None else None,
        model=leaf.trace.served_model or leaf.trace.model,
        truncated=leaf.choice.finish_reason == LENGTH,
        findings=findings,
        metadata=session.metadata,
    )


def _purpose(row: Row) -> Purpose:
    """What its trained calls are for. A row with any call of an evaluation is one: it must not be trained unseen."""
    purposes = {node.trace.purpose for node in row.trained}
    return next(purpose for purpose in ("eval", "train", "aux") if purpose in purposes)

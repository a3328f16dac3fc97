"""Runs the matrix against one engine: each request directly, then through the gateway, then read back as a trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tests.engines import records, tokens, views
from tests.engines.agent import Agent, Seen
from tests.engines.cases import CASES, Case
from tests.engines.cells import Capture, Cell
from tests.engines.gateway_process import Api
from tests.engines.setups import Setup
from tests.engines.tokens import Tokenizer, Trace
from tests.engines.truth import NotTold, Sampled, truths

# How often a stream is asked again without the gateway in the hope that the engine cuts it alike.
_SAME_CUTS_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Bench:
    """One engine, the gateway in front of it, and what is known of them."""

    setup: Setup
    version: str
    url: str
    api: Api
    tokenizer: Tokenizer
    run_id: str


def run(bench: Bench, cases: Sequence[Case] = CASES) -> Iterator[Cell]:
    """Every cell, as soon as it is known."""
    with Agent(f"{bench.url}/v1") as direct:
        for case in cases:
            yield from _case(bench, direct, case)


def _case(bench: Bench, direct: Agent, case: Case) -> Iterator[Cell]:
    truth: Sequence[Sampled] | NotTold
    try:
        truth = truths(bench.url, bench.setup.engine, case)
    except NotTold as exc:
        truth = exc
    whole = direct.ask(case.endpoint, case.request(stream=False))
    if not case.streamed_only:
        yield _cell(bench, direct, case, truth, whole, whole, capture="exact", stream=False)
    streamed = direct.ask(case.endpoint, case.request(stream=True))
    for capture in ("exact", "ids", "stream"):
        yield _cell(bench, direct, case, truth, streamed, whole, capture=capture, stream=True)


def _cell(
    bench: Bench,
    direct: Agent,
    case: Case,
    truth: Sequence[Sampled] | NotTold,
    without: Seen,
    whole: Seen,
    *,
    capture: Capture,
    stream: bool,
) -> Cell:
    request = case.request(stream=stream)
    session = bench.api.create_session(bench.run_id, capture)
    with Agent(session.base_url, api_key=session.key) as agent:
        through = agent.ask(case.endpoint, request)
    place = (case.endpoint, case.name, stream, capture)
    trace_id = through.headers.get("x-trace-id")
    if trace_id is None:
        return Cell(*place, "WRONG", reasons=(f"no x-trace-id on a {through.status}: {through.body[:300]!r}",))
    trace = bench.api.trace(trace_id)
    of_session = bench.api.traces_of(session.session_id)
    findings = [] if of_session == [trace] else ["its session's traces are not this one trace alone"]
    if without.status != 200:
        findings += _refused(trace, without, through)
        return Cell(*place, "WRONG" if findings else "refused", reasons=tuple(findings) or (_words(without),))

    pair = views.Views(request, without, through, whole)
    for _ in range(_SAME_CUTS_TRIES if trace["plan"] == "streamed" else 0):
        if views.chunk_by_chunk(pair):
            break
        pair = replace(pair, direct=direct.ask(case.endpoint, request))
    findings += views.differences(pair, trace["plan"], sampled=case.sampled)
    findings += records.differences(trace, case, request, through, engine=bench.setup.engine, version=bench.version)
    if isinstance(truth, NotTold):
        findings.append(f"the engine did not tell its tokens: {truth}")
    else:
        findings += tokens.differences(trace, case, truth, through.folded, bench.tokenizer)
    if not case.shows(whole.folded):
        findings.append(f"the engine's answer does not show what this row is about: {whole.folded}")
    reasons = [reason for reason in (trace["fidelity_reason"], trace["logprobs_reason"]) if reason]
    exact = trace["fidelity"] == trace["logprobs_fidelity"] == "exact"
    if not exact and not reasons:
        findings.append(f"{trace['fidelity']}, logprobs {trace['logprobs_fidelity']}, and no reason is given")
    return Cell(
        *place,
        "WRONG" if findings else "exact" if exact else "honest",
        plan=trace["plan"],
        fidelity=trace["fidelity"],
        logprobs_fidelity=trace["logprobs_fidelity"],
        reasons=tuple(findings) or tuple(reasons),
        chunk_by_chunk=views.chunk_by_chunk(pair) if trace["plan"] == "streamed" else None,
    )


def _refused(trace: Trace, without: Seen, through: Seen) -> Iterator[str]:
    yield from views.differences(views.Views({}, without, through, without), "whole", sampled=False)
    if trace["status"] != "backend_error" or trace["http_status"] != without.status:
        yield f"a refusal with {without.status} is recorded as {trace['status']} with {trace['http_status']}"


def _words(refusal: Seen) -> str:
    said = refusal.documents[0] if refusal.documents else {}
    nested = said.get("error")
    message = nested.get("message") if isinstance(nested, dict) else said.get("message")
    return f"{refusal.status}: {message or refusal.body[:200].decode(errors='replace')}"

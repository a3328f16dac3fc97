"""`verify` from a URL to an exit status."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import get_args

from adapters.schema import Capture
from gateway.backend import Backend
from gateway.backends import Backends
from gateway.commands.errors import WrongUse
from gateway.detection import Detection
from gateway.dispatch import Dispatcher
from gateway.models import KeyRefused, NotListed, models_of
from gateway.settings import BackendSettings, SettingsError
from gateway.upstream import Upstream, UpstreamError
from gateway.verify.asking import Asker, Heard, NotHeard
from gateway.verify.checks import CHECKS, PLAIN, Decoder
from gateway.verify.report import Report, Row, show, write_json
from gateway.verify.tokenizer import load

# An engine's first call with logprobs can wait for a compile of half a minute.
_PATIENCE = 300.0


def main(
    url: str,
    *,
    model: str | None,
    tokenizer: str | None,
    json_output: bool,
    api_key_env: str | None,
    environ: Mapping[str, str],
) -> int:
    """0: every check passed or can't be made; 1: one failed; 2: the server can't be asked. Raises WrongUse."""
    try:
        settings = _settings(url, api_key_env, environ)
    except SettingsError as exc:
        raise WrongUse(str(exc)) from exc
    decoder = load(tokenizer) if tokenizer is not None else None
    report = asyncio.run(verify(settings, model=model, decoder=decoder))
    (write_json if json_output else show)(report)
    return report.exit_status


def _settings(url: str, api_key_env: str | None, environ: Mapping[str, str]) -> BackendSettings:
    """Raises SettingsError."""
    settings = BackendSettings.parse(url)
    if api_key_env is not None:
        settings = settings.model_copy(update={"api_key_env": api_key_env})
    return settings.with_key_from(environ)


async def verify(settings: BackendSettings, *, model: str | None, decoder: Decoder | None) -> Report:
    """Raises WrongUse where it is not told which model to ask."""
    async with Upstream(connect_timeout=5.0) as upstream:
        backend = Backend(settings)
        backends = Backends([backend], Detection(upstream, timeout=5.0))
        try:
            server = await backends.server(backend)
        except UpstreamError as exc:
            return Report(settings.url, error=f"the server can't be asked: {exc}")
        finally:
            await backends.close()
        try:
            await models_of(backend, upstream, patience=5.0)
            untold = "does not say which models it serves"
        except KeyRefused as exc:
            return Report(settings.url, error=f"the server {exc}")
        except NotListed as exc:
            untold = str(exc)
        asked = model or next(iter(server.models), None)
        if asked is None:
            raise WrongUse(f"{settings.url} {untold}; name a model with --model")
        asker = Asker(Dispatcher(backends, upstream, first_byte_timeout=_PATIENCE), asked, patience=_PATIENCE)
        rows = tuple([Row(check, await check.finding(asker, decoder)) for check in CHECKS])
        captured = await _captured(asker)
        # A refusal of a flag corrects what is known of the server.
        return Report(settings.url, asked, backend.server or server, rows, captured)


async def _captured(asker: Asker) -> tuple[str, ...]:
    """A sentence for whole calls and one for streams; where these are buffered, one for each way not to be."""
    try:
        whole, streamed = await asker.both(PLAIN)
        said = [f"whole: {_sentence(whole)}", f"streamed: {_sentence(streamed)}"]
        if streamed.plan.mode == "buffered":
            for capture in get_args(Capture)[1:]:
                heard = await asker.ask(PLAIN, stream=True, capture=capture)
                said.append(f"streamed with capture `{capture}`: {_sentence(heard)}")
    except NotHeard as exc:
        return (f"nothing: {exc}",)
    return tuple(said)


def _sentence(heard: Heard) -> str:
    verdict = heard.outcome.verdict
    ids = _because(verdict.fidelity, verdict.fidelity_reason)
    logprobs = _because(verdict.logprobs_fidelity, verdict.logprobs_reason)
    place = f" at {heard.completion.source}" if heard.completion.source else ""
    return f"plan {heard.how}, ids {ids}{place}, logprobs {logprobs}"


def _because(word: str, reason: str | None) -> str:
    return f"{word} ({reason})" if reason else word

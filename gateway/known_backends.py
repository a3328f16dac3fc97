"""The backends that a gateway starts with: those of its configuration, and those that administrators added before.

What administrators did with a configured one since (its weight, that it drains) stands in the database too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Final, Protocol

from gateway.backend import Backend
from gateway.settings import BackendSettings, Settings, SettingsError
from gateway.text_encoder import TokenizerUnavailable
from storage.records import StoredBackend
from storage.store import Store

logger = logging.getLogger(__name__)

_SETTINGS: Final = frozenset(BackendSettings.model_fields)


class Tokenizers(Protocol):
    async def warm(self, tokenizers: Iterable[str]) -> None:
        """Raises TokenizerUnavailable."""
        ...


async def known_backends(settings: Settings, store: Store, environ: Mapping[str, str]) -> list[Backend]:
    """Of two with one name the configuration's counts."""
    backends = {named.name: Backend(named) for named in settings.backends}
    for stored in await store.backends.every():
        known = backends.get(stored.name)
        if known is not None:
            heed(known, stored)
        elif stored.source == "api":
            try:
                backends[stored.name] = added(stored, environ)
            except SettingsError as exc:
                # One that can't serve must not keep the others from it.
                logger.error("backend %s, added over HTTP, is left out: %s", stored.name, exc)
    return list(backends.values())


async def warm(backends: Iterable[Backend], tokenizers: Tokenizers) -> None:
    """Load the tokenizers of those that were added. One that is not there any more keeps no gateway from starting."""
    for backend in backends:
        if backend.source == "api" and backend.settings.tokenizer is not None:
            try:
                await tokenizers.warm([backend.settings.tokenizer])
            except TokenizerUnavailable as exc:
                logger.error("backend %s gives text alone, and its traces will have no ids: %s", backend.name, exc)


def added(stored: StoredBackend, environ: Mapping[str, str]) -> Backend:
    """Raises SettingsError as `settings_of`."""
    return Backend(settings_of(stored, environ), source="api", state=stored.state)


def heed(backend: Backend, stored: StoredBackend) -> None:
    """What administrators did with a backend that is known here, whoever named it."""
    backend.state = stored.state
    if backend.source == "config":
        backend.weight = stored.weight


def settings_of(stored: StoredBackend, environ: Mapping[str, str]) -> BackendSettings:
    """Raises SettingsError where the variable that has its key is not set, or this version has a word no more."""
    told = {name: value for name, value in asdict(stored).items() if name in _SETTINGS and value is not None}
    return BackendSettings.of(told).with_key_from(environ)


def stored_of(backend: Backend) -> StoredBackend:
    """As the database has it."""
    settings = backend.settings
    return StoredBackend(
        name=settings.name,
        url=settings.url,
        engine=settings.engine,
        version=settings.version,
        variant=settings.variant,
        features=settings.features,
        models=settings.models,
        tokenizer=settings.tokenizer,
        api_key_env=settings.api_key_env,
        weight=backend.weight if backend.source == "config" else settings.weight,
        control_urls=settings.control_urls,
        aliases=dict(settings.aliases),
        source=backend.source,
        state=backend.state,
    )

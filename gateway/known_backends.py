"""The backends that a gateway starts with: those of its configuration, and those that administrators added before."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from gateway.backends import Backend
from gateway.settings import BackendSettings, Settings, SettingsError
from storage.records import StoredBackend
from storage.store import Store

logger = logging.getLogger(__name__)


async def known_backends(settings: Settings, store: Store, environ: Mapping[str, str]) -> list[Backend]:
    """Of two with one name the configuration's counts."""
    backends = {named.name: Backend(named) for named in settings.backends}
    for stored in await store.backends():
        if stored.name in backends:
            continue
        try:
            backends[stored.name] = Backend(_settings_of(stored, environ), source="api")
        except SettingsError as exc:
            # One key that is missing must not keep the others from serving.
            logger.error("backend %s, added over HTTP, is left out: %s", stored.name, exc)
    return list(backends.values())


def _settings_of(stored: StoredBackend, environ: Mapping[str, str]) -> BackendSettings:
    """Raises SettingsError where the variable that has its key is not set."""
    named = BackendSettings(
        url=stored.url,
        name=stored.name,
        engine=stored.engine,
        version=stored.version,
        variant=stored.variant,
        features=stored.features,
        models=stored.models,
        tokenizer=stored.tokenizer,
        api_key_env=stored.api_key_env,
    )
    return named.with_key_from(environ)

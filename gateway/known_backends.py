"""The backends that a gateway starts with: those of its configuration, and those that administrators added before."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict

from gateway.backend import Backend
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
            backends[stored.name] = Backend(settings_of(stored, environ), source="api")
        except SettingsError as exc:
            # One that can't serve must not keep the others from it.
            logger.error("backend %s, added over HTTP, is left out: %s", stored.name, exc)
    return list(backends.values())


def settings_of(stored: StoredBackend, environ: Mapping[str, str]) -> BackendSettings:
    """Raises SettingsError where the variable that has its key is not set, or this version has a word no more."""
    told = {name: value for name, value in asdict(stored).items() if name in BackendSettings.model_fields}
    if stored.weight is None:
        del told["weight"]
    return BackendSettings.of(told).with_key_from(environ)

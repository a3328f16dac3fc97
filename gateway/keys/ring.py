"""All keys that are good, by their digests: those of the configuration, and those of the database as last seen."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias

from gateway.keys.brought import digest
from gateway.keys.caller import API_SCOPES, Caller
from gateway.keys.meter import Meter
from storage.keys import KeySet
from storage.scopes import SCOPES, Scope

ADMIN_KEY: Final = "admin_key"
# Half of a digest: no two of them begin alike.
_PART: Final = 16

_Known: TypeAlias = Mapping[bytes, tuple[bytes, Caller]]
"""By the first half of its digest: the whole of it, and whose it is."""


def _now() -> datetime:
    return datetime.now(UTC)


class KeyRing:
    """To ask it costs a hash and a look into memory, whoever asks and with whatever key."""

    def __init__(
        self, agents: Iterable[str] = (), admin: str | None = None, *, clock: Callable[[], datetime] = _now
    ) -> None:
        callers = {key: Caller(f"keys.{number}", frozenset({"infer"})) for number, key in enumerate(agents, 1)}
        self._needs_agents_keys = bool(callers)
        if admin is not None:
            callers[admin] = Caller(ADMIN_KEY, frozenset(SCOPES))
        self._configured = _known((digest(key), caller) for key, caller in callers.items())
        self._stored: _Known = {}
        self._ever: frozenset[Scope] = frozenset()
        self._clock = clock
        self._meters: dict[str, Meter] = {}
        self.used: dict[str, datetime] = {}
        """When each stored key was last brought, as far as nobody has written that down yet."""
        self.changes: int | None = None
        """Of the stored keys, as last seen; null before the first look."""
        self.has_limits = False
        """Whether any key has limits of its own."""

    def take(self, keys: KeySet) -> None:
        """The stored keys as they are now."""
        stored = keys.by_hash.values()
        self._meters = {key.key_id: self._meters.get(key.key_id) or Meter() for key in stored}
        callers = {key_hash: Caller.of(key, self._meters[key.key_id]) for key_hash, key in keys.by_hash.items()}
        self._stored = _known(callers.items())
        self._ever |= keys.scopes_ever
        self.has_limits = any(caller.has_limits for caller in callers.values())
        self.changes = keys.changes

    @property
    def needs_keys(self) -> bool:
        """Whether `/api` opens to nobody without one: there are some, or were. To revoke the last opens nothing."""
        return bool(self._configured or self._ever)

    @property
    def needs_agents_keys(self) -> bool:
        """The same of keys for model calls. The administrator's own is none."""
        return self._needs_agents_keys or "infer" in self._ever

    @property
    def opens_api(self) -> bool:
        """Whether any key that is good now opens something under `/api`."""
        known = (*self._configured.values(), *self._stored.values())
        return any(caller.scopes & API_SCOPES and not self._is_over(caller) for _, caller in known)

    def caller(self, key: str) -> Caller | None:
        """Whose it is; null for a key that is unknown, revoked or expired."""
        given = digest(key)
        caller = _found(self._configured, given)
        if caller is not None:
            return caller
        caller = _found(self._stored, given)
        if caller is None or self._is_over(caller):
            return None
        self.used[caller.by] = self._clock()
        return caller

    def _is_over(self, caller: Caller) -> bool:
        return caller.expires_at is not None and caller.expires_at <= self._clock()


def _found(known: _Known, given: bytes) -> Caller | None:
    # A dictionary finds by a part of its own hash; what it found is compared as a secret is.
    digest_and_caller = known.get(given[:_PART])
    if digest_and_caller is None or not hmac.compare_digest(digest_and_caller[0], given):
        return None
    return digest_and_caller[1]


def _known(callers: Iterable[tuple[bytes, Caller]]) -> _Known:
    return {key_hash[:_PART]: (key_hash, caller) for key_hash, caller in callers}

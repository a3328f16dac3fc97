"""Who asks, by the key that was brought: what it may do, and how much."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

from gateway.keys.meter import Meter
from gateway.refusals import Forbidden
from storage.keys import StoredKey
from storage.scopes import SCOPES, Scope

API_SCOPES: Final[frozenset[Scope]] = frozenset(SCOPES) - {"infer"}
"""Those that open something under `/api`."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The holder of a key; or who needed none, on a gateway that has no keys."""

    by: str
    """What the audit log calls it: a `key_id`, `keys.1` or `admin_key` (configured ones), or `local`."""
    scopes: frozenset[Scope]
    expires_at: datetime | None = None
    max_calls: int | None = None
    calls_per_minute: int | None = None
    tokens_per_minute: int | None = None
    meter: Meter | None = None
    """Null where nothing is to be counted by the minute."""

    @classmethod
    def of(cls, key: StoredKey, meter: Meter) -> Self:
        metered = key.calls_per_minute is not None or key.tokens_per_minute is not None
        return cls(
            key.key_id,
            frozenset(key.scopes),
            key.expires_at,
            key.max_calls,
            key.calls_per_minute,
            key.tokens_per_minute,
            meter if metered else None,
        )

    @property
    def has_limits(self) -> bool:
        return self.meter is not None or self.max_calls is not None

    def check(self, needed: Scope) -> None:
        """Raises Forbidden."""
        if needed not in self.scopes:
            raise Forbidden(f"This takes a key with the scope `{needed}`; this key has {self._told()}.")

    def check_no_wider(self, scopes: Iterable[Scope], expires_at: datetime | None) -> None:
        """That a key made or changed by this one has no scope that this one lacks, nor lives longer.

        Raises Forbidden.
        """
        wider = sorted(set(scopes) - self.scopes)
        if wider:
            raise Forbidden(f"No key makes another that may do more than itself: this one lacks {_listed(wider)}.")
        if self.expires_at is not None and (expires_at is None or expires_at > self.expires_at):
            raise Forbidden(f"No key makes another that outlives it: this one expires at {self.expires_at:%FT%TZ}.")

    def _told(self) -> str:
        return _listed(scope for scope in SCOPES if scope in self.scopes)


def _listed(scopes: Iterable[str]) -> str:
    return ", ".join(f"`{scope}`" for scope in scopes) or "none"

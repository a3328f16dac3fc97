"""Keys that callers bring: where SDKs put them, and how they are compared. A key is hashed before anything else."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from typing import Final

SESSION_KEY_PREFIX: Final = "rgs-"


def new_session_key() -> str:
    return SESSION_KEY_PREFIX + secrets.token_urlsafe(32)


def is_session_key(key: str) -> bool:
    """Whether it looks like one; whether there is such a session only the database knows."""
    return key.startswith(SESSION_KEY_PREFIX)


def digest(key: str) -> bytes:
    """What is stored, looked up and compared instead of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def keys_in(headers: Mapping[str, str]) -> list[str]:
    """The keys of a request, each once: `authorization: Bearer` and `x-api-key`. Names are lower-case."""
    scheme, _, bearer = headers.get("authorization", "").strip().partition(" ")
    found = [bearer.strip()] if scheme.lower() == "bearer" else []
    found.append(headers.get("x-api-key", "").strip())
    return list(dict.fromkeys(key for key in found if key))


class KeyRing:
    """A few configured keys, kept as digests. An empty ring has no key, and is false."""

    __slots__ = ("_digests",)

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = tuple(map(digest, keys))

    def __bool__(self) -> bool:
        return bool(self._digests)

    def has(self, key: str) -> bool:
        """Looks at every key, so that the time it takes tells nothing."""
        given = digest(key)
        found = False
        for known in self._digests:
            found |= hmac.compare_digest(given, known)
        return found

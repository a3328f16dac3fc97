"""Keys as text: how they are made, where SDKs put them, and the digest that is all we keep of them."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Final

SESSION_KEY_PREFIX: Final = "rgs-"
KEY_PREFIX: Final = "rgk-"


def new_session_key() -> str:
    return SESSION_KEY_PREFIX + secrets.token_urlsafe(32)


def new_key() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(32)


def is_session_key(key: str) -> bool:
    """Whether it looks like one; whether there is such a session only the database knows."""
    return key.startswith(SESSION_KEY_PREFIX)


def is_stored_key(key: str) -> bool:
    """Whether it looks like one that `keys create` made."""
    return key.startswith(KEY_PREFIX)


def digest(key: str) -> bytes:
    """What is stored, looked up and compared instead of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def keys_in(headers: Mapping[str, str]) -> list[str]:
    """The keys of a request, each once: `authorization: Bearer` and `x-api-key`. Names are lower-case."""
    scheme, _, bearer = headers.get("authorization", "").strip().partition(" ")
    found = [bearer.strip()] if scheme.lower() == "bearer" else []
    found.append(headers.get("x-api-key", "").strip())
    return list(dict.fromkeys(key for key in found if key))

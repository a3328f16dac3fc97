"""Keys: what callers bring, whose they are, what each may do and how much of it."""

from gateway.keys.brought import (
    digest,
    is_session_key,
    is_stored_key,
    keys_in,
    new_key,
    new_session_key,
)
from gateway.keys.caller import API_SCOPES, Caller
from gateway.keys.callers import Callers
from gateway.keys.ring import KeyRing

__all__ = [
    "API_SCOPES",
    "Caller",
    "Callers",
    "KeyRing",
    "digest",
    "is_session_key",
    "is_stored_key",
    "keys_in",
    "new_key",
    "new_session_key",
]

"""New identifiers: UUIDv7 strings, which sort by the time of their making."""

from __future__ import annotations

import uuid_utils


def new_id() -> str:
    return str(uuid_utils.uuid7())

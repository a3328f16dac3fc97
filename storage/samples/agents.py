"""Who made a call, as far as anybody said."""

from __future__ import annotations

import re
from typing import Final

from adapters.schema import Session, Trace

_PRODUCT: Final = re.compile(r"[A-Za-z0-9._-]+")


def agent_of(session: Session, trace: Trace) -> str | None:
    """`agent` of the session's metadata; else the harness's name; else the product that its user agent begins with."""
    for told in (session.metadata.get("agent"), trace.harness.get("name")):
        if isinstance(told, str) and told:
            return told
    product = _PRODUCT.match(user_agent(trace))
    return product.group() if product is not None else None


def user_agent(trace: Trace) -> str:
    """Empty where none was sent."""
    return next((value for name, value in trace.request.headers.items() if name.lower() == "user-agent"), "")

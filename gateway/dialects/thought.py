"""The signature of a thinking block. It comes back with the block, and brings back a thought that was not shown.

Open engines sign nothing, but clients keep no thinking block without a signature. An edited thought is not refused: it
goes to the model as it came, and the prompt's ids in the trace tell what the model saw.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Final

_DIGEST: Final = "rg1.d."
_WHOLE: Final = "rg1.t."


def sign(thought: str, *, shown: bool) -> str:
    """Opaque to the client: of a thought that it sees a digest, of one that it does not see the thought itself."""
    data = thought.encode(errors="replace")
    if shown:
        return _DIGEST + _text(hashlib.sha256(data).digest())
    return _WHOLE + _text(data)


def recall(signature: str) -> str | None:
    """The thought that this signature carries; None for every other signature, whoever made it."""
    if not signature.startswith(_WHOLE):
        return None
    try:
        return base64.b64decode(signature.removeprefix(_WHOLE), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()

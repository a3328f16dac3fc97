"""The last look at a line before it is written: whatever is a secret, or looks like one, does not stand in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from gateway.keys.brought import KEY_PREFIX, SESSION_KEY_PREFIX

_LEFT_OUT: Final = "[secret]"
_LOOKS_LIKE_ONE: Final = re.compile(
    rf"(?:{re.escape(SESSION_KEY_PREFIX)}|{re.escape(KEY_PREFIX)})[A-Za-z0-9_-]{{16,}}"
    r"|(?<=[Bb]earer )[^\s\"']+"
    r"|(?<=://)[^\s/@:]+:[^\s/@]+(?=@)"
)
# A password of a letter or two would take words apart; nobody is protected by one.
_SHORTEST: Final = 4


class Redaction:
    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted({each for each in secrets if len(each) >= _SHORTEST}, key=len, reverse=True)

    def of(self, line: str) -> str:
        for secret in self._secrets:
            line = line.replace(secret, _LEFT_OUT)
        return _LOOKS_LIKE_ONE.sub(_LEFT_OUT, line)

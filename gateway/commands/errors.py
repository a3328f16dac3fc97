"""How a command ends that can't do what it was asked."""

from __future__ import annotations


class CommandFailed(Exception):
    """For which a sentence is enough; whatever else escapes a command is a bug and keeps its traceback."""

    def __init__(self, message: str, *, exit_status: int = 1) -> None:
        super().__init__(message)
        self.exit_status = exit_status


class WrongUse(CommandFailed):
    """What was typed can't be done, here or anywhere; the message says what can."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_status=2)

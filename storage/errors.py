"""What can go wrong between a trace and the database, each by its own name."""

from __future__ import annotations


class StorageError(Exception):
    """Everything that storage raises."""


class CannotOpen(StorageError):
    """The database can't be opened: no such folder, not a database, no such driver. Says what to do."""


class SchemaNewer(CannotOpen):
    """The database was migrated by a newer program; writing to it could corrupt it."""


class AlreadyServed(CannotOpen):
    """Another gateway has this SQLite file open."""


class Unavailable(StorageError):
    """The database does not answer at the moment."""


class CannotRecord(StorageError):
    """A trace can't be recorded: neither database nor spool takes anything, or this row is refused."""


class QueueFull(CannotRecord):
    """More waits to be written than memory may hold."""


class NotCommitted(StorageError, TimeoutError):
    """What was written was not committed in time, and may still be."""


class CorruptTrace(StorageError):
    """What was read is not what was written: a digest differs, or a base is missing."""

    def __init__(self, session_id: str, trace_id: str, reason: str) -> None:
        super().__init__(f"trace {trace_id} of session {session_id} can't be read back: {reason}")
        self.session_id = session_id
        self.trace_id = trace_id
        self.reason = reason


class SessionError(StorageError):
    """A session is not in the state that the caller believes."""

    def __init__(self, session_id: str, reason: str) -> None:
        super().__init__(f"session {session_id} {reason}")
        self.session_id = session_id


class SessionExists(SessionError):
    def __init__(self, session_id: str) -> None:
        super().__init__(session_id, "exists already")


class SessionDeleted(SessionError):
    def __init__(self, session_id: str) -> None:
        super().__init__(session_id, "was deleted, and its id is not used again")


class SessionNotFound(SessionError):
    def __init__(self, session_id: str) -> None:
        super().__init__(session_id, "does not exist")


class RewardExists(SessionError):
    """A reward of this id was told with another content."""

    def __init__(self, session_id: str, reward_id: str) -> None:
        super().__init__(
            session_id,
            f"has a reward {reward_id!r} that says something else; to revise it send the same name under a new id",
        )
        self.reward_id = reward_id


class TraceMissing(SessionError):
    """A reward names a trace that its session does not have."""

    def __init__(self, session_id: str, trace_id: str) -> None:
        super().__init__(session_id, f"has no trace {trace_id!r} that a reward could be of")
        self.trace_id = trace_id


class TooManyRewards(SessionError):
    """A session keeps every reward that was told, so there is a bound."""

    def __init__(self, session_id: str, most: int) -> None:
        super().__init__(session_id, f"would have more than {most} rewards, which is the most that is kept of one")


class ClaimError(StorageError):
    """A claim is not in the state that its holder believes."""

    def __init__(self, claim_id: str, reason: str) -> None:
        super().__init__(f"claim {claim_id} {reason}")
        self.claim_id = claim_id


class ClaimNotFound(ClaimError):
    def __init__(self, claim_id: str) -> None:
        super().__init__(claim_id, "does not exist")


class ClaimAcknowledged(ClaimError):
    def __init__(self, claim_id: str) -> None:
        super().__init__(claim_id, "was acknowledged, so its sessions are delivered for good")


class ClaimExpired(ClaimError):
    """Its sessions are offered to others again, or were."""


class BadCursor(StorageError, ValueError):
    """A cursor that no page of this list has given."""


class KeyNotFound(StorageError):
    def __init__(self, key_id: str) -> None:
        super().__init__(f"key {key_id} does not exist")
        self.key_id = key_id


class TooManyKeys(StorageError):
    """Every gateway has all keys in memory, so there is a bound."""

    def __init__(self, most: int) -> None:
        super().__init__(f"there are {most} keys that are not revoked, which is the most that may be: revoke some")

"""The one door to sessions for both planes: whose session a call is, and a small cache of what the database says.

A call names its session by its path, by the session's own key, or by `x-rollout-session-id`; what harnesses
send under other names never attributes. Two that disagree are refused: a guess would credit the wrong rollout.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol, TypeVar, Unpack

from adapters.schema import Error, Reward, Session, SessionStatus
from gateway.keys import Callers, KeyRing, digest, is_session_key, keys_in, new_session_key
from gateway.patience import Patience
from gateway.refusals import (
    Forbidden,
    InvalidRequest,
    NotRecordable,
    SessionClosed,
    SessionGone,
    Unauthorized,
)
from storage.errors import CannotRecord, SessionDeleted, SessionNotFound, StorageError
from storage.records import Page, SessionChanges, SessionQuery

logger = logging.getLogger(__name__)

SESSION_HEADER: Final = "x-rollout-session-id"
SESSION_ID_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$"

_SESSION_ID: Final = re.compile(SESSION_ID_PATTERN.strip("^$"))
_CACHED: Final = 10_000
# What is changed through this gateway it knows at once. Where another may have changed the row, a call that begins
# within so many seconds of the last look may not see it; where none should have, it is looked at all the same.
_FRESH_SECONDS: Final = 5.0
_FRESH_SECONDS_SHARED: Final = 1.0
# So long a call of a session that is known waits for a look at the row; then it goes by what was seen before.
_HELD_UP_SECONDS: Final = 0.25

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class SessionStore(Protocol):
    """What this module needs of the store."""

    async def create_session(self, session: Session, key_hash: bytes | None = None) -> Session: ...
    async def find_session(self, session_id: str) -> Session | None: ...
    async def session_by_key(self, key_hash: bytes) -> Session | None: ...
    async def change_session(self, session_id: str, **changes: Unpack[SessionChanges]) -> Session: ...
    async def finish_session(
        self, session_id: str, status: SessionStatus = "finished", rewards: Sequence[Reward] = ()
    ) -> Session: ...
    async def add_rewards(self, session_id: str, rewards: Sequence[Reward]) -> Session: ...
    async def delete_session(self, session_id: str) -> bool: ...
    async def sessions(self, query: SessionQuery) -> Page[Session]: ...
    def pin_backend(self, session_id: str, backend: str, instead_of: str | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class Resolved:
    """Whose session a call is. A `new` one has no row yet: the call's `begin` brings it."""

    session: Session
    new: bool
    provisional: bool = False
    """The database could not be asked: it may have a row of this session, with what its owner has set."""


@dataclass(slots=True)
class _Entry:
    session: Session
    read_at: float
    new: bool = False
    """Made here, and no row of it is queued: the database is asked each time until there is one."""
    provisional: bool = False
    """Made because the database could not be asked, and so `new` until it was."""


class Sessions:
    """Sessions by id and by key. Where `callers` has no agents' keys, every caller may infer."""

    def __init__(
        self,
        store: SessionStore,
        *,
        callers: Callers | None = None,
        shared: bool = False,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`shared`: other gateways write to the same database."""
        self._store = store
        self._fresh = _FRESH_SECONDS_SHARED if shared else _FRESH_SECONDS
        self._patience = patience or Patience()
        self._callers = callers or Callers(KeyRing())
        self._clock = clock
        self._by_id: OrderedDict[str, _Entry] = OrderedDict()
        self._id_by_key: OrderedDict[bytes, str] = OrderedDict()
        self._looks: dict[str, asyncio.Task[Session | None]] = {}

    def close(self) -> None:
        for look in self._looks.values():
            look.cancel()

    async def resolve(self, headers: Mapping[str, str], path_session_id: str | None, trace_id: str) -> Resolved:
        """The open session that a call belongs to. `headers` have lower-case names.

        While the database is away, a session that is known goes on, and one that is named comes into being for the
        time being. Raises InvalidRequest, Unauthorized, Forbidden, SessionClosed, SessionGone; NotRecordable where
        a session's own key is not known and can't be looked up.
        """
        own = await self._authenticate(headers)
        named = _named_session(headers, path_session_id)
        if own is not None and named is not None and own != named:
            raise Forbidden(f"This key is good for its own session alone, and not for session `{named}`.")
        session_id = own or named
        if session_id is None:
            implicit = Session(session_id=trace_id, created_at=datetime.now(UTC), implicit=True)
            return Resolved(implicit, new=True)
        resolved = await self._find_or_make(session_id)
        if resolved.session.status != "open":
            raise SessionClosed(
                f"Session `{session_id}` is {resolved.session.status}, so it takes no more calls: its traces "
                "may be training data already. Begin a new session for a new attempt."
            )
        return resolved

    def began(self, session: Session) -> None:
        """A new session's row is queued: the store has it from now on, and reads what is queued."""
        entry = self._by_id.get(session.session_id)
        if entry is not None and entry.new:
            entry.session, entry.new, entry.read_at = session, entry.provisional, self._clock()

    def pin(self, session: Session, backend: str) -> Session:
        """The session with its backend, which is queued to be written: call it after the session is begun.

        Of several gateways that pin it the first is right; the others take its word at their next look.
        """
        entry = self._by_id.get(session.session_id)
        if entry is not None:
            entry.session = replace(entry.session, backend=backend)
        try:
            self._store.pin_backend(session.session_id, backend, session.backend)
        except CannotRecord as exc:
            # Unpinned, the session's next calls still find this backend, by rendezvous; no reason to fail one.
            logger.warning("session %s is not pinned to %s: %s", session.session_id, backend, exc)
        return replace(session, backend=backend)

    async def create(self, session: Session) -> tuple[Session, str]:
        """A new session and its key, which is told here alone. Raises storage's SessionExists, SessionDeleted."""
        check_session_id(session.session_id)
        key = new_session_key()
        created = await self._store.create_session(session, digest(key))
        return self._remember(created), key

    async def get(self, session_id: str) -> Session:
        """As the database has it now. Raises storage's SessionNotFound, SessionDeleted."""
        try:
            session = await self._store.find_session(session_id)
        except SessionDeleted:
            self._by_id.pop(session_id, None)
            raise
        if session is not None:
            return self._remember(session)
        self._by_id.pop(session_id, None)
        raise SessionNotFound(session_id)

    async def change(self, session_id: str, **changes: Unpack[SessionChanges]) -> Session:
        """Raises as `get`."""
        return self._remember(await self._store.change_session(session_id, **changes))

    async def finish(
        self, session_id: str, status: SessionStatus = "finished", rewards: Sequence[Reward] = ()
    ) -> Session:
        """Raises as `reward`."""
        return self._remember(await self._store.finish_session(session_id, status, rewards))

    async def reward(self, session_id: str, rewards: Sequence[Reward]) -> Session:
        """Raises as `get`, and storage's RewardExists, TraceMissing, TooManyRewards."""
        return self._remember(await self._store.add_rewards(session_id, rewards))

    async def delete(self, session_id: str) -> bool:
        """Whether there was one. What is still written for it is dropped."""
        deleted = await self._store.delete_session(session_id)
        self._by_id.pop(session_id, None)
        for key_hash in [key for key, known in self._id_by_key.items() if known == session_id]:
            del self._id_by_key[key_hash]
        return deleted

    async def list(self, query: SessionQuery) -> Page[Session]:
        """Raises storage's BadCursor."""
        return await self._store.sessions(query)

    async def of_key(self, key: str) -> str | None:
        """The id of the session whose own key this is. Raises NotRecordable where the database can't be asked."""
        key_hash = digest(key)
        if key_hash in self._id_by_key:
            # Never too old: a key keeps its session for ever, and an id that was deleted is not used again.
            self._id_by_key.move_to_end(key_hash)
            return self._id_by_key[key_hash]
        try:
            session = await self._patience.wait_for(partial(self._store.session_by_key, key_hash))
        except StorageError as exc:
            raise _unreadable() from exc
        if session is None:
            return None
        self._remember(session)
        _put(self._id_by_key, key_hash, session.session_id)
        return session.session_id

    async def _authenticate(self, headers: Mapping[str, str]) -> str | None:
        """The session whose own key the call has; None for a caller that may name any.

        An SDK may send a key in each of two headers: one that is good suffices, a session's own counts first.
        """
        keys = keys_in(headers)
        own = {await self.of_key(key) for key in keys if is_session_key(key)}
        if None in own:
            # An open gateway takes any key but this: its session was deleted, and the calls would be nobody's.
            raise Unauthorized("This session key is unknown; its session may have been deleted.")
        if len(own) > 1:
            raise Forbidden("The keys in `authorization` and `x-api-key` belong to different sessions.")
        if own:
            return own.pop()
        await self._check_may_infer(keys)
        return None

    async def _check_may_infer(self, keys: Sequence[str]) -> None:
        callers = [caller for key in keys if (caller := await self._callers.find(key)) is not None]
        if any("infer" in caller.scopes for caller in callers):
            return
        if callers:
            callers[0].check("infer")
        if self._callers.ring.needs_agents_keys:
            wrong = "The API key is not one of this gateway's, or is over." if keys else "No API key was sent."
            raise Unauthorized(
                f"{wrong} Send an agent's key, or a session's own, as `authorization: Bearer` or `x-api-key`."
            )

    async def _find_or_make(self, session_id: str) -> Resolved:
        entry = self._by_id.get(session_id)
        if entry is not None and not entry.new and self._clock() - entry.read_at < self._fresh:
            self._by_id.move_to_end(session_id)
            return Resolved(entry.session, new=False)
        try:
            if entry is None or entry.new:
                session = await self._look(session_id)
            else:
                look = self._look_beside(session_id)
                await asyncio.wait((look,), timeout=_HELD_UP_SECONDS)
                # Not the one that was known before: it may have been changed through this gateway in the meantime.
                session = look.result() if look.done() else self._by_id.get(session_id, entry).session
        except SessionDeleted:
            raise SessionGone(f"Session `{session_id}` was deleted, and its id is not used again.") from None
        except StorageError:
            # It must not end a rollout, nor keep one from its begin. What was deleted stays so: the store drops it.
            known = self._by_id.get(session_id) or self._make(session_id, provisional=True)
            return Resolved(known.session, known.new, known.provisional)
        if session is not None:
            return Resolved(session, new=False)
        # Calls that come while the first one's row is on its way get the same session, with its pin.
        made = self._by_id.get(session_id)
        if made is None or not made.new:
            made = self._make(session_id, provisional=False)
        made.provisional = False
        return Resolved(made.session, new=True)

    async def _look(self, session_id: str) -> Session | None:
        """At what the database has. Raises SessionDeleted, Unavailable."""
        before = self._by_id.get(session_id)
        try:
            session = await self._patience.wait_for(partial(self._store.find_session, session_id))
        except SessionDeleted:
            self._by_id.pop(session_id, None)
            raise
        now = self._by_id.get(session_id)
        if now is not None and now is not before and not now.new:
            return now.session  # It was changed through this gateway while it was looked up.
        return None if session is None else self._remember(session)

    def _look_beside(self, session_id: str) -> asyncio.Task[Session | None]:
        """One for all that come, which goes on where a call no longer waits for it."""
        look = self._looks.get(session_id)
        if look is None:
            look = self._looks[session_id] = asyncio.create_task(self._look(session_id), name=f"look at {session_id}")

            def looked(done: asyncio.Task[Session | None]) -> None:
                self._looks.pop(session_id, None)
                done.cancelled() or done.exception()  # Whoever waited may have gone on.

            look.add_done_callback(looked)
        return look

    def _make(self, session_id: str, *, provisional: bool) -> _Entry:
        entry = _Entry(Session(session_id, datetime.now(UTC)), self._clock(), new=True, provisional=provisional)
        _put(self._by_id, session_id, entry)
        return entry

    def _remember(self, session: Session) -> Session:
        _put(self._by_id, session.session_id, _Entry(session, self._clock()))
        return session


def check_session_id(session_id: str, param: str = "session_id") -> str:
    """Raises InvalidRequest with the rule."""
    if _SESSION_ID.fullmatch(session_id) is None:
        raise InvalidRequest(
            Error(
                f"{session_id[:130]!r} is no session id: that is 1 to 128 of the characters "
                "A-Z a-z 0-9 . _ : @ - and begins with a letter or digit.",
                code="invalid_session_id",
                param=param,
            )
        )
    return session_id


def _named_session(headers: Mapping[str, str], path_session_id: str | None) -> str | None:
    by_header = headers.get(SESSION_HEADER)
    if by_header is not None:
        check_session_id(by_header, SESSION_HEADER)
    if path_session_id is None:
        return by_header
    check_session_id(path_session_id)
    if by_header is not None and by_header != path_session_id:
        raise Forbidden(f"The path names session `{path_session_id}`, but `{SESSION_HEADER}` names `{by_header}`.")
    return path_session_id


def _unreadable() -> NotRecordable:
    return NotRecordable("The database can't be read now, so it is not known whose call this is. Try again.")


def _put(cache: OrderedDict[_Key, _Value], key: _Key, value: _Value) -> None:
    cache[key] = value
    cache.move_to_end(key)
    if len(cache) > _CACHED:
        cache.popitem(last=False)

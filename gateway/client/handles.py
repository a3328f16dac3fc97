"""What a trainer holds while it works: a session for its agent, a claim. Values and state; the clients do the calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from gateway.client.errors import GatewayError
from gateway.client.listing import Listing, PageCall, listed
from gateway.client.values import Claim, Ending, NewSession, Session, SessionStatus

Item = TypeVar("Item")


class SessionHandle:
    """A session that was just made: what its agent needs to know."""

    def __init__(self, made: NewSession) -> None:
        self._made = made
        self.session: Session = made.session
        """As it was last told."""

    @property
    def id(self) -> str:
        return self.session.session_id

    @property
    def status(self) -> SessionStatus:
        return self.session.status

    @property
    def base_url(self) -> str:
        """For OpenAI's SDK, and all that takes such a URL."""
        return self._made.base_url

    @property
    def anthropic_base_url(self) -> str:
        """For Anthropic's SDK, which adds the `/v1` itself."""
        return self._made.base_url.removesuffix("/v1")

    @property
    def key(self) -> str:
        """The agent's key, good for this session's calls alone."""
        return self._made.key

    def env(self) -> dict[str, str]:
        """The variables by which an agent that runs as a process finds its session: `env=os.environ | s.env()`."""
        return {
            "OPENAI_BASE_URL": self.base_url,
            "OPENAI_API_BASE": self.base_url,
            "OPENAI_API_KEY": self.key,
            "ANTHROPIC_BASE_URL": self.anthropic_base_url,
            "ANTHROPIC_API_KEY": self.key,
        }

    def __repr__(self) -> str:
        return f"<session {self.id}, {self.status}, {self.base_url}>"


class WorkHandle:
    """What was claimed; nothing, and false, where there was nothing to claim."""

    def __init__(self, claim: Claim | None) -> None:
        self.claim = claim
        self._settled = False

    @property
    def session_ids(self) -> tuple[str, ...]:
        return self.claim.session_ids if self.claim is not None else ()

    @property
    def group_ids(self) -> tuple[str, ...]:
        return self.claim.group_ids if self.claim is not None else ()

    def _settle(self) -> str | None:
        """The claim's id for who acknowledges or releases it: once. After a failure the end of the lease settles it."""
        if self.claim is None or self._settled:
            return None
        self._settled = True
        return self.claim.claim_id

    def _listed(
        self, pages: Callable[[Mapping[str, Any]], PageCall[Item]], options: Mapping[str, Any]
    ) -> Listing[Item]:
        if self.claim is None:
            return Listing(None)
        return listed(pages, {**options, "claim": self.claim.claim_id})

    def __bool__(self) -> bool:
        return self.claim is not None

    def __repr__(self) -> str:
        return f"<{self.claim!r}>" if self.claim is not None else "<nothing to claim>"


def ending_of(exc: BaseException) -> Ending:
    """How a session ends by this: `failed` is the rollout's own doing, `aborted` came from outside."""
    return "failed" if isinstance(exc, Exception) else "aborted"


@contextmanager
def noting(exc: BaseException, what: str) -> Iterator[None]:
    """A failure of what is done because of `exc` is a note on it: the first cause is what its reader needs."""
    try:
        yield
    except GatewayError as failure:
        exc.add_note(f"And {what}: {failure}")

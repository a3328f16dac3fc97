"""Which harness a call is of, and its own names for its session, its agent and that agent's parent.

Kept beside ours, to tell a session's agents apart, and never used to say whose call it is: a harness that sends
another's id would take its rewards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

_LONGEST: Final = 256
_LEGACY_USER_ID: Final = re.compile(r"_session_([0-9A-Za-z-]{1,64})$")

Told = dict[str, str]
"""`name`, `version`, `session_id`, `agent_id`, `parent_id`, `kind`: those that were sent."""


@dataclass(frozen=True, slots=True)
class Harness:
    """One program, and the headers that it names things in: of several for one thing the first that is there counts."""

    name: str
    products: tuple[str, ...] = ()
    """What its user agent begins with, up to the slash, in lower case."""
    session_id: tuple[str, ...] = ()
    agent_id: tuple[str, ...] = ()
    """The agent or thread in that session that makes the call."""
    parent_id: tuple[str, ...] = ()
    """Who that agent was spawned by: an agent, a thread or a session, as the harness has it."""
    kind: tuple[str, ...] = ()
    """What sort of agent it is, where it is not the main one."""


CLAUDE_CODE: Final = Harness(
    # 2.1.197 from npm. The session's header is there since 2.1.86; before, it stood in `metadata.user_id`.
    "claude-code",
    products=("claude-cli",),
    session_id=("x-claude-code-session-id",),
    agent_id=("x-claude-code-agent-id",),
    parent_id=("x-claude-code-parent-agent-id",),
)
CODEX: Final = Harness(
    # openai/codex, codex-rs: with underscores until the spring of 2026, with hyphens since. A sub-agent has the
    # session of its root and a thread of its own.
    "codex",
    products=("codex_cli_rs", "codex_exec", "codex-tui", "codex_sdk_ts", "codex_vscode"),
    session_id=("session-id", "session_id", "conversation_id"),
    agent_id=("thread-id", "thread_id"),
    parent_id=("x-codex-parent-thread-id",),
    kind=("x-openai-subagent",),
)
OPENCODE: Final = Harness(
    # packages/opencode/src/session: the first towards its own service, the others towards everybody's.
    "opencode",
    products=("opencode",),
    session_id=("x-opencode-session", "x-session-id", "x-session-affinity"),
    parent_id=("x-parent-session-id",),
)
QWEN_CODE: Final = Harness(
    # 0.15.10 from npm: its user agent alone.
    "qwen-code",
    products=("qwencode",),
)
HARNESSES: Final = (CLAUDE_CODE, CODEX, OPENCODE, QWEN_CODE)

_BY_PRODUCT: Final = {product: harness for harness in HARNESSES for product in harness.products}
# Headers that say by themselves whose they are.
_BY_HEADER: Final = {
    "x-claude-code-session-id": CLAUDE_CODE,
    "x-codex-parent-thread-id": CODEX,
    "x-opencode-session": OPENCODE,
}
_ANY: Final = Harness(
    "",
    session_id=("x-session-id", "x-session-affinity", "session-id", "session_id", "conversation_id"),
    parent_id=("x-parent-session-id",),
)
_THINGS: Final = ("session_id", "agent_id", "parent_id", "kind")
_OURS: Final = {"agent_id": "x-rollout-agent-id", "parent_id": "x-rollout-parent-agent-id"}
"""For agents whose harness has no names of its own; they go above those of one that has."""


def harness_of(headers: Mapping[str, str]) -> Told:
    """What the headers tell. They have lower-case names."""
    product, _, version = headers.get("user-agent", "").partition("/")
    harness = _BY_PRODUCT.get(product.lower()) or _by_header(headers)
    told: Told = {}
    if harness is not _ANY:
        told["name"] = harness.name
        if product.lower() in harness.products and (number := version.partition(" ")[0]):
            told["version"] = number[:_LONGEST]
    for thing in _THINGS:
        own: tuple[str, ...] = getattr(harness, thing)
        for name in (_OURS[thing], *own) if thing in _OURS else own:
            if value := headers.get(name):
                told[thing] = value[:_LONGEST]
                break
    return told


def _by_header(headers: Mapping[str, str]) -> Harness:
    return next((harness for name, harness in _BY_HEADER.items() if name in headers), _ANY)


class _Metadata(msgspec.Struct):
    user_id: str | None = None


class _Body(msgspec.Struct):
    metadata: _Metadata | None = None


class _UserId(msgspec.Struct):
    session_id: str | None = None


_body: Final = msgspec.json.Decoder(_Body)
_user_id: Final = msgspec.json.Decoder(_UserId)


def with_metadata(told: Told, body: bytes) -> Told:
    """With the session that a Claude Code from before its header names in the body."""
    if told.get("name") != CLAUDE_CODE.name or "session_id" in told:
        return told
    session_id = next(_in_metadata(body), None)
    return told if session_id is None else {**told, "session_id": session_id[:_LONGEST]}


def _in_metadata(body: bytes) -> Iterator[str]:
    """As JSON inside a string; before that, behind the last underscore of `user_…_account_…_session_…`."""
    try:
        metadata = _body.decode(body).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    user_id = (metadata and metadata.user_id) or ""
    if (legacy := _LEGACY_USER_ID.search(user_id)) is not None:
        yield legacy[1]
        return
    try:
        session_id = _user_id.decode(user_id).session_id
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return
    if session_id:
        yield session_id

"""Calls that a harness makes for itself and not for its task: a title, a topic, a look whether there is quota left.

They are found by rules, each with where it is known from, and their traces have `purpose: aux`: no samples are made of
them. A rule has to be sure, for a task's own call that it took would be lost to training. So the ones that look at
words look at what a line of the system prompt begins with, and none looks at what a user says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from adapters.raw import integer
from adapters.request import CanonicalRequest
from gateway.habits.harness import CLAUDE_CODE, CODEX, OPENCODE
from gateway.habits.sampling import LIMITS


@dataclass(frozen=True, slots=True)
class Rule:
    """All that it names has to be so. No call with tools is aux, but by its header."""

    name: str
    """What the trace's metadata tell as `aux_rule`."""
    harness: str | None = None
    header: str | None = None
    max_tokens: int | None = None
    system: str | None = None
    """What a line of the system prompt begins with: plain ASCII without quotes, so that JSON has it as it is."""


RULES: Final = (
    # Claude Code 2.1.197: its looks at the quota («quota») and at a model's name («Hi») ask for one token.
    Rule("claude-code-probe", harness=CLAUDE_CODE.name, max_tokens=1),
    # The same: `generate_session_title`.
    Rule(
        "claude-code-title",
        harness=CLAUDE_CODE.name,
        system="Generate a concise, sentence-case title (3-7 words) that captures the main topic or goal",
    ),
    # Claude Code 1 and 2.0: at each message of its user, and for its list of sessions.
    Rule(
        "claude-code-topic",
        harness=CLAUDE_CODE.name,
        system="Analyze if this message indicates a new conversation topic.",
    ),
    Rule(
        "claude-code-summary",
        harness=CLAUDE_CODE.name,
        system="Summarize this coding conversation in under 50 characters.",
    ),
    # opencode: packages/opencode/src/agent/prompt/title.txt and summary.txt. Its user agent is the AI SDK's in older
    # ones, so the title's words have to do. Its compaction is none: what it says becomes the task's own history.
    Rule("opencode-title", system="You are a title generator. You output ONLY a thread title. Nothing else."),
    Rule(
        "opencode-summary",
        harness=OPENCODE.name,
        system="Summarize what was done in this conversation. Write like a pull request description.",
    ),
    # openai/codex: memories of earlier sessions, written in the background.
    Rule("codex-memories", harness=CODEX.name, header="x-openai-memgen-request"),
)

# System prompts stand first; further in, the words are part of something else.
_HEAD_BYTES: Final = 4096

_BY_HEADER: Final = tuple(rule for rule in RULES if rule.header is not None)
_BY_LIMIT: Final = tuple(rule for rule in RULES if rule.max_tokens is not None)
_BY_SYSTEM: Final = tuple((rule, rule.system.encode()) for rule in RULES if rule.system is not None)


def aux_rule(harness: str | None, headers: Mapping[str, str], request: CanonicalRequest) -> str | None:
    """The name of the rule that takes the call."""
    return next(_found(harness, headers, request), None)


def _found(harness: str | None, headers: Mapping[str, str], request: CanonicalRequest) -> Iterator[str]:
    for rule in _BY_HEADER:
        if rule.header in headers and _of(rule, harness):
            yield rule.name
    if request.tools:
        return
    for rule in _BY_LIMIT:
        if _of(rule, harness) and rule.max_tokens in map(integer, map(request.fields.get, LIMITS)):
            yield rule.name
    messages = request.fields.get("messages", Raw(b""))
    head: bytes | None = None
    for rule, words in _BY_SYSTEM:
        if _of(rule, harness):
            head = bytes(memoryview(messages)[:_HEAD_BYTES]) if head is None else head
            # That the words are there at all is looked up first: few calls have them, and all have to be looked at.
            if words in head and any(line.startswith(words.decode()) for line in _system_lines(messages)):
                yield rule.name


def _of(rule: Rule, harness: str | None) -> bool:
    return rule.harness is None or rule.harness == harness


class _Part(msgspec.Struct):
    text: str = ""


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Part] | None = None


_messages: Final = msgspec.json.Decoder(list[Raw])
_message: Final = msgspec.json.Decoder(_Message)


def _system_lines(messages: Raw) -> Iterator[str]:
    """The lines of what is said before the user says anything."""
    try:
        for raw in _messages.decode(messages):
            message = _message.decode(raw)
            if message.role not in ("system", "developer"):
                return
            parts = [message.content] if isinstance(message.content, str) else [p.text for p in message.content or ()]
            for part in parts:
                yield from part.split("\n")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return

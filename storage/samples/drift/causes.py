"""Why a prompt does not go on as it was sampled: first what the agent sent otherwise, then what the rendering did.

The record is surer than the ids: where the agent sent another message than it was given, that is the cause; where it
sent the same, the template or the engine wrote it otherwise, and the ids on both sides say how.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from storage.samples.drift import texts
from storage.samples.drift.history import Message, said
from storage.samples.drift.messages import Likely, difference, of_message, spoken
from storage.samples.drift.repeats import Call, Repeated
from storage.samples.drift.report import Cause, Region
from storage.samples.findings import LENGTH

_GENERATION_PROMPT: Final = 16
"""Ids at the end of a prompt that belong to the answer: its role, perhaps the mark that opens a thought."""
_SHORTEST_THOUGHT: Final = 3
"""Ids: its two marks and a line end."""
_LONGEST_MARK: Final = 6
"""Ids of an empty thought, which templates write in place of one that they leave out."""
_SHORT: Final = 12
"""Ids: so few that are otherwise between the same ones are the same text in other tokens, as far as one can tell."""


@dataclass(frozen=True, slots=True)
class Parting:
    """Where a call parts from the one that it repeats, and all that is known of it."""

    call: Call
    repeated: Repeated
    position: int
    lost: int | None
    """Ids of the earlier call from there until both are alike again; null where they are not."""
    gained: int | None
    """The same of the later one."""
    head_text: str | None
    """What both begin with; null where no tokenizer is known."""
    lost_text: str | None
    """Null where no tokenizer is known, or the two do not meet."""
    gained_text: str | None

    @property
    def region(self) -> Region:
        after = self.position - len(self.repeated.earlier.prompt)
        return "prompt" if after < 0 else "sampled" if after else "boundary"

    @property
    def in_answer(self) -> bool:
        return self.position >= len(self.repeated.earlier.prompt) - _GENERATION_PROMPT

    @property
    def at_its_begin(self) -> bool:
        """Whether it is where an answer's thought begins."""
        return abs(self.position - len(self.repeated.earlier.prompt)) <= _SHORTEST_THOUGHT

    @property
    def only_lost(self) -> bool:
        """Whether a stretch of ids is gone, and next to nothing stands in its place."""
        if self.lost is None or self.gained is None:
            return False
        return self.lost >= _SHORTEST_THOUGHT and self.gained <= _LONGEST_MARK and self.lost > self.gained


def likely_cause(parting: Parting) -> Likely:
    return (
        _of_messages(parting)
        or _of_answer(parting)
        or _of_prompt_text(parting)
        or _of_settings(parting)
        or _of_template_head(parting)
        or _of_rendering(parting)
    )


def _of_messages(parting: Parting) -> Likely | None:
    repeated = parting.repeated
    if parting.region != "prompt" or repeated.at is None:
        return None
    return difference(repeated.earlier.messages, parting.call.messages[: repeated.at])


def _of_answer(parting: Parting) -> Likely | None:
    repeated = parting.repeated
    if repeated.at is None or not parting.in_answer:
        return None
    sampled, sent = said(repeated.choice), parting.call.messages[repeated.at]
    name = repeated.earlier.name
    if sent.role != "assistant":
        words = f"the answer of {name} was left out of the history"
        return Likely("message_dropped", words, *texts.around(spoken([sampled]), spoken([sent])))
    if sampled.thought and sent.thought and parting.at_its_begin and _thought_is_gone(parting, sampled):
        words = f"the reasoning of {name} was sent back, and the template leaves it out"
        return Likely("stripped_reasoning", words, spoken([sampled]), spoken([replace(sent, thought="")]))
    return of_message(sampled, sent, name)


def _thought_is_gone(parting: Parting, sampled: Message) -> bool:
    if parting.lost_text is not None and parting.gained_text is not None:
        lost = texts.collapsed(parting.lost_text)
        thought = texts.collapsed(sampled.thought)
        return thought in lost and thought not in texts.collapsed(parting.gained_text)
    return parting.only_lost


def _of_prompt_text(parting: Parting) -> Likely | None:
    """For prompts that were sent as text."""
    earlier, later = parting.repeated.earlier.history, parting.call.history
    if earlier is None or later is None or earlier.prompt is None or later.prompt is None:
        return None
    sampled = said(parting.repeated.choice)
    expected = earlier.prompt + (parting.repeated.choice.text or "")
    name = parting.repeated.earlier.name
    shown = texts.around(expected, later.prompt)
    at = texts.common_prefix(expected, later.prompt)
    if at == len(expected):
        return Likely("retokenized", f"the text of {name} came back as other tokens", *shown)
    if at >= len(earlier.prompt):
        came_back = Message("assistant", later.prompt[len(earlier.prompt) :])
        return _of_continued(sampled, came_back, name, shown)
    if later.prompt[:_SHORT] != expected[:_SHORT] and later.prompt[: 4 * _SHORT] in expected:
        return Likely("truncation", "the history was cut from the front", *shown)
    if texts.same_but_space(earlier.prompt, later.prompt[: len(earlier.prompt)]):
        return Likely("whitespace", f"the prompt of {name} came back with other white space", *shown)
    return Likely("message_edited", f"the prompt of {name} was changed after {at} characters", *shown)


def _of_continued(sampled: Message, came_back: Message, name: str, shown: tuple[str, str]) -> Likely:
    rest = texts.collapsed(came_back.text)
    cause: Cause = "message_edited"
    words = f"the text of {name} was changed"
    if sampled.thought and texts.collapsed(sampled.thought) not in rest:
        cause, words = "stripped_reasoning", f"the reasoning of {name} was left out of the history"
    elif rest.startswith(texts.collapsed(sampled.text)):
        cause, words = "whitespace", f"the text of {name} came back with other white space"
    return Likely(cause, words, *shown)


def _of_settings(parting: Parting) -> Likely | None:
    """Tools and template arguments stand at the head of a prompt, as its system prompt does."""
    histories = parting.repeated.earlier.history, parting.call.history
    if parting.region != "prompt" or None in histories:
        return None
    earlier, later = (history.settings if history is not None else {} for history in histories)
    changed = [name for name in {**earlier, **later} if earlier.get(name) != later.get(name)]
    if not changed:
        return None
    words = f"{' and '.join(f'`{name}`' for name in changed)} changed, which the system prompt is rendered with"
    one, other = (settings.get(changed[0], b"").decode(errors="replace") for settings in (earlier, later))
    return Likely("system_prompt_changed", words, *texts.around(one, other))


def _of_template_head(parting: Parting) -> Likely | None:
    """A template may write a system prompt of its own, with the date in it."""
    asked = next((message.text for message in parting.repeated.earlier.messages if message.role == "user"), "")
    if parting.region != "prompt" or parting.head_text is None or not asked.strip():
        return None
    if texts.collapsed(asked) in texts.collapsed(parting.head_text) or parting.lost is None:
        return None
    words = "what the template writes before the first question changed, though the messages did not"
    return Likely("system_prompt_changed", words, parting.lost_text or "", parting.gained_text or "")


def _of_rendering(parting: Parting) -> Likely:
    """The agent sent back what it was given."""
    name = parting.repeated.earlier.name
    shown = (parting.lost_text or "", parting.gained_text or "")
    return _gone(parting, name, shown) or _by_text(parting, name, shown) or _by_ids(parting, name, shown)


def _gone(parting: Parting, name: str, shown: tuple[str, str]) -> Likely | None:
    """A stretch of what was given or sampled is not there any more."""
    if not parting.only_lost:
        return None
    if parting.position == 0 or (parting.gained == 0 and parting.position < _GENERATION_PROMPT):
        return Likely("truncation", "the prompt was cut from the front, though all of its messages were sent", *shown)
    before_answer = len(parting.repeated.earlier.prompt) - parting.position
    if parting.lost == before_answer <= _GENERATION_PROMPT:
        words = f"the template put a mark or an empty thought before the answer of {name}, and leaves it out later"
        return Likely("stripped_reasoning", words, *shown)
    choice = parting.repeated.choice
    thoughts = [message for message in parting.repeated.earlier.messages if message.thought]
    if parting.at_its_begin and said(choice).thought:
        thoughts.append(said(choice))
    if thoughts and _is_thought(parting.lost_text, thoughts):
        words = f"the template leaves out a reasoning that it wrote into the prompt of {name}"
        if parting.region != "prompt":
            words = f"the template leaves out the reasoning of {name}"
        return Likely("stripped_reasoning", words, *(shown if any(shown) else (spoken(thoughts[:1]), "")))
    return None


def _is_thought(lost: str | None, thoughts: list[Message]) -> bool:
    if lost is None:
        return True
    return texts.has_mark(lost) or any(
        texts.collapsed(message.thought)[:40] in texts.collapsed(lost) for message in thoughts
    )


def _by_text(parting: Parting, name: str, shown: tuple[str, str]) -> Likely | None:
    lost, gained = parting.lost_text, parting.gained_text
    if lost is None or gained is None:
        return None
    if lost == gained:
        return Likely("retokenized", f"the same text of {name} is other tokens", *shown)
    if _in_calls(parting) and texts.same_but_spelling(lost, gained) and texts.has_json(lost + gained):
        return Likely("reserialised_tool_arguments", _WRITTEN_ANEW.format(name), *shown)
    if texts.same_but_space(lost, gained):
        return Likely("whitespace", f"the template writes {name} with other white space", *shown)
    if texts.has_mark(gained) and not texts.has_mark(lost):
        words = f"the template writes the marks of a thought into {name}, which were not sampled there"
        return Likely("unknown", words, *shown)
    return None


_WRITTEN_ANEW: Final = "the template writes the arguments of the tool call of {} anew, spelled otherwise"


def _in_calls(parting: Parting) -> bool:
    return parting.region == "sampled" and bool(parting.repeated.choice.tool_calls)


def _by_ids(parting: Parting, name: str, shown: tuple[str, str]) -> Likely:
    choice = parting.repeated.choice
    recorded = shown if any(shown) else texts.around(spoken([said(choice)]), _sent(parting))
    if parting.region == "prompt":
        words = f"the messages of {name} were sent again unchanged, and rendered otherwise"
        return Likely("unknown", words, *recorded)
    if isinstance(choice.stop_reason, str) and choice.finish_reason == "stop":
        words = f"the stop string that ended {name} was sampled, and is no part of its text"
        return Likely("truncation", words, *recorded)
    if _in_calls(parting) and not all(texts.as_printed(call.arguments or "") for call in choice.tool_calls or ()):
        return Likely("reserialised_tool_arguments", _WRITTEN_ANEW.format(name), *recorded)
    if choice.text is not None and choice.text != choice.text.strip() and parting.lost_text is None:
        return Likely("whitespace", f"white space at the ends of {name} came back otherwise, it seems", *recorded)
    if parting.lost_text is None and parting.lost is not None and parting.gained is not None:
        if min(parting.lost, parting.gained) == 0 and max(parting.lost, parting.gained) < _SHORTEST_THOUGHT:
            return Likely("whitespace", f"an id more or less in {name}, whose text came back as it was", *recorded)
        if max(parting.lost, parting.gained) <= _SHORT:
            return Likely("retokenized", f"the same text of {name} is other tokens", *recorded)
    if choice.finish_reason == LENGTH:
        words = f"the limit of tokens cut {name} off, it seems within a tool call or a thought that its text leaves out"
        return Likely("truncation", words, *recorded)
    return Likely("unknown", f"{name} was sent back as it was, and rendered otherwise", *recorded)


def _sent(parting: Parting) -> str:
    at = parting.repeated.at
    return "" if at is None else spoken([parting.call.messages[at]])

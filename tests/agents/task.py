"""The task of two files, and a scripted model that plays it by tool calls: writes, runs, asks for a review, ends."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from adapters.scripts.asked import Asked
from adapters.scripts.replies import Reply
from adapters.scripts.speech import Called, Speech, say

TASK: Final = "Write calc.py with add, and test_calc.py that tests it; run the test."
REVIEW: Final = "Review calc.py, please."
FILES: Final = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": "from calc import add\n\nassert add(1, 2) == 3\nprint('ok')\n",
}
RUN: Final = "python3 test_calc.py"
WRITE: Final = tuple(f"cat > {name} <<'EOF'\n{content}EOF" for name, content in FILES.items())
"""Both files by a shell."""
_SPAWNED: Final = re.compile(r'"agent_id":\s*"([^"]+)"')
"""What Codex answers to a call of a sub-agent."""
_TITLE: Final = say("Two files and a test", reasoning="It is a sum.")
_END: Final = say("Both files are written and the test passes.", reasoning="It printed ok.")


def called(name: str, **arguments: object) -> Called:
    """Spelled as most models do."""
    return Called(name, json.dumps(arguments))


def plays(
    write: Sequence[Called],
    run: Called,
    *,
    review: Called | None = None,
    read: Called | None = None,
    wait: str | None = None,
    end: Speech = _END,
) -> Reply:
    """`review` is the coder's call of its sub-agent, and `read` is that one's. Who offers no tools wants a title.

    `wait`: the tool that waits for a sub-agent, where its call does not.
    """
    coder = [
        say("I write both files.", reasoning="The task needs two files.", calls=write),
        say(reasoning="Now I run it.", calls=[run]),
        *([say("Another may look.", calls=[review])] if review else []),
        end,
    ]
    reviewer = [
        *([say(reasoning="I look.", calls=[read])] if read else []),
        say("It looks right.", reasoning="A plain sum."),
    ]

    def reply(asked: Asked) -> Sequence[Speech]:
        if not asked.tools:
            return [_TITLE]
        reviews = any(REVIEW in message.text for message in asked.messages if message.role == "user")
        steps = reviewer if reviews else coder
        spawned = _SPAWNED.search(asked.messages[-1].text) if wait else None
        if wait and spawned:
            return [say(reasoning="It takes a moment.", calls=[called(wait, targets=[spawned[1]])])]
        # Turns with calls: some programs put words of their own into the assistant's mouth.
        turn = sum(bool(message.tool_calls) for message in asked.messages)
        return [steps[min(turn, len(steps) - 1)]]

    return reply

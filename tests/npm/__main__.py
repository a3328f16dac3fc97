"""Each SDK of `clients.mjs` × its dialects × engines × cells, whole and streamed; the table is Markdown, on stdout."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from adapters.scripts.replies import fixed
from adapters.scripts.speech import Called, Speech, say
from gateway.scripted import Fault, ScriptedServer, running
from tests.engines.gateway_process import serving

HERE = Path(__file__).parent
INSTALLED = Path(".venv/npm")
# One that is streamed, one that is buffered, and one that tells text alone.
ENGINES = ("vllm", "sglang", "dynamo", "openai")
PARIS, TOKYO = Called("get_weather", '{"city": "Paris"}'), Called("get_weather", '{"city": "Tokyo"}')
SPEECHES = {
    "text": say("Hello! It is 18 °C. ☂ 👋"),
    "tool": say(calls=[PARIS]),
    "parallel": say("Let me look.", calls=[PARIS, TOKYO]),
    "reasoning": say("Four.", reasoning="Two and two."),
    "refusal": replace(say("I can't."), finish="content_filter"),
    "length": say("One two three", end=None),
}
_FINISHES = {"stop": "stop", "tool_calls": "tool", "length": "length", "content_filter": "refusal"}
_TOO_LONG = (
    "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens."
)
_BROKEN = "CUDA out of memory"
_BREAKS: dict[str, Any] = {"fails": [_BROKEN, "the backend's answer broke off"]}


def _refusal(message: str, status: int) -> bytes:
    return json.dumps({"error": {"message": message, "type": "Error", "param": None, "code": status}}).encode()


FAULTS = {
    "overflow": (Fault(status=400, body=_refusal(_TOO_LONG, 400)), {"fails": ["2049"], "status": 400}),
    # In a stream behind four frames, with a pause, or it is read together with them; whole, an answer that is cut.
    "broken": (Fault(insert={4: b"data: " + _refusal(_BROKEN, 500) + b"\n\n"}, after_frames=4, pause=0.01), _BREAKS),
}


def _told(speech: Speech) -> dict[str, Any]:
    """What every SDK is to make of it."""
    return {
        "text": speech.text("content"),
        "reasoning": speech.text("reasoning"),
        "calls": [[call.name, json.loads(call.arguments)] for call in speech.calls],
        "finish": _FINISHES[speech.finish],
        "tokens": len(speech.tokens),
    }


def servers() -> dict[str, ScriptedServer]:
    """By model: a server for each engine and cell."""
    made = {}
    for engine in ENGINES:
        for cell, speech in SPEECHES.items():
            made[f"{engine}-{cell}"] = ScriptedServer(engine, model=f"{engine}-{cell}", reply=fixed(speech))
        for cell, (fault, _) in FAULTS.items():
            model = f"{engine}-{cell}"
            made[model] = ScriptedServer(engine, model=model, reply=fixed(SPEECHES["text"]), fault=fault)
    return made


def cells() -> dict[str, Any]:
    """What `conformance.mjs` is to find."""
    told = {cell: {"told": _told(speech)} for cell, speech in SPEECHES.items()}
    fails = {cell: meant for cell, (_, meant) in FAULTS.items()}
    silent = {"reasoning": {"told": _told(SPEECHES["reasoning"]) | {"reasoning": ""}}}
    return dict.fromkeys(ENGINES, told | fails) | {"openai": told | silent | fails}


async def results() -> list[dict[str, Any]]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rollout-gateway-npm-")))
        first, *more = [await stack.enter_async_context(running(server)) for server in servers().values()]
        return await asyncio.to_thread(_run, folder, first, more)


def _run(folder: Path, first: str, more: list[str]) -> list[dict[str, Any]]:
    with serving(first, folder, *more) as gateway:
        for script in HERE.glob("*.mjs"):
            # Node looks for packages beside and above the script that imports them.
            shutil.copy(script, INSTALLED)
        command = ["node", "conformance.mjs", gateway.url, json.dumps(cells())]
        done = subprocess.run(command, cwd=INSTALLED, stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> int:
    found = asyncio.run(results())
    names = [*SPEECHES, *FAULTS]
    print(f"| SDK | dialect | engine | {' | '.join(names)} |\n|---|---|---|{'---|' * len(names)}")
    rows: dict[tuple[str, str, str], dict[str, list[bool]]] = {}
    for one in found:
        row = rows.setdefault((one["sdk"], one["dialect"], one["engine"]), {})
        row.setdefault(one["cell"], []).append(one["ok"])
    for key, row in rows.items():
        marks = ["—" if name not in row else " ".join("✓" if ok else "✗" for ok in row[name]) for name in names]
        print(f"| {' | '.join(key)} | {' | '.join(marks)} |")
    wrong = [one for one in found if not one["ok"]]
    for one in wrong:
        print(json.dumps(one, ensure_ascii=False), file=sys.stderr)
    print(f"\n{len(found) - len(wrong)} of {len(found)} calls as they should be (whole, streamed).")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

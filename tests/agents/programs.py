"""The programs: how each is started, what is set so that it asks the gateway and nobody else, and its tools' names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from adapters.scripts.replies import Reply
from adapters.scripts.speech import say
from tests.agents.task import FILES, REVIEW, RUN, TASK, WRITE, called, plays

INSTALLED: Final = Path(".venv/agents").absolute()
_SCRIPTS: Final = Path(__file__).parent / "scripts"
_OPENAI: Final = {"OPENAI_BASE_URL": "BASE/v1", "OPENAI_API_KEY": "none"}


@dataclass(frozen=True, slots=True)
class Program:
    """`BASE` in commands, variables and files is the session's base URL, without `/v1`."""

    name: str
    command: tuple[str, ...]
    reply: Reply
    env: Mapping[str, str] = field(default_factory=lambda: _OPENAI)
    files: Mapping[Path, str] = field(default_factory=dict)
    agents: int = 1
    """With its sub-agents."""
    named: bool = False
    """Whether its calls say which agent makes them."""
    titles: int = 0
    """Calls for itself, that are told apart as `aux`."""


def programs(work: Path, home: Path) -> Iterator[Program]:
    """As they are in these folders: where the task is done, and where a program's own settings are."""
    for api in ("chat_completions", "responses"):
        for mode in ("whole", "streamed"):
            for script in ("agents_sdk", "langgraph_agent"):
                yield _script(script, api, mode)
    yield from map(_mini_swe_agent, ("litellm", "litellm_response"))
    yield _claude_code(work)
    yield _codex(home)
    for package in ("openai-compatible", "openai", "anthropic"):
        yield _opencode(work, package)
    yield from (_qwen_code(work, home, dialect) for dialect in ("openai", "anthropic"))


def _script(script: str, api: str, mode: str) -> Program:
    return Program(
        f"{script} {api} {mode}",
        (str(INSTALLED / "bin/python"), str(_SCRIPTS / f"{script}.py"), api, mode, TASK),
        plays(
            [called("write_file", path=name, content=content) for name, content in FILES.items()],
            called("run", command=RUN),
            review=called("review", **{"input" if script == "agents_sdk" else "asked": REVIEW}),
            read=called("read_file", path="calc.py"),
        ),
        agents=2,
    )


def _mini_swe_agent(model_class: str) -> Program:
    submit = called("bash", command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
    return Program(
        f"mini-swe-agent {model_class}",
        (
            *(str(INSTALLED / "bin/mini"), "-m", "openai/scripted", "--model-class", model_class),
            *("-y", "--exit-immediately", "-o", "trajectory.json", "-t", TASK),
        ),
        plays(
            [called("bash", command=command) for command in WRITE],
            called("bash", command=RUN),
            end=say("That is all.", calls=[submit]),
        ),
        env=_OPENAI
        | {"MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    )


def _claude_code(work: Path) -> Program:
    return Program(
        "claude-code",
        (
            *(str(INSTALLED / "node_modules/.bin/claude"), "-p", TASK),
            # Which root may say too, unlike --dangerously-skip-permissions.
            *("--allowedTools", "Bash,Write,Read,Agent"),
        ),
        plays(
            [called("Write", file_path=str(work / name), content=content) for name, content in FILES.items()],
            called("Bash", command=RUN, description="Run the test"),
            review=called("Agent", description="Review", prompt=REVIEW, subagent_type="general-purpose"),
            read=called("Read", file_path=str(work / "calc.py")),
        ),
        env={
            "ANTHROPIC_BASE_URL": "BASE",
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_MODEL": "scripted",
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": "scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        agents=2,
        named=True,
    )


def _codex(home: Path) -> Program:
    settings = """\
model = "scripted"
model_provider = "gateway"
web_search = "disabled"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.gateway]
name = "gateway"
base_url = "BASE/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
"""
    return Program(
        "codex",
        (
            *(str(INSTALLED / "node_modules/.bin/codex"), "exec", "--skip-git-repo-check"),
            *("--dangerously-bypass-approvals-and-sandbox", TASK),
        ),
        plays(
            [called("exec_command", cmd=command) for command in WRITE],
            called("exec_command", cmd=RUN),
            review=called("multi_agent_v1__spawn_agent", message=REVIEW),
            read=called("exec_command", cmd="cat calc.py"),
            wait="multi_agent_v1__wait_agent",
        ),
        files={home / ".codex/config.toml": settings},
        agents=2,
        named=True,
    )


def _opencode(work: Path, package: str) -> Program:
    provider = {
        "npm": f"@ai-sdk/{package}",
        "options": {"baseURL": "BASE/v1", "apiKey": "none"},
        "models": {"scripted": {"limit": {"context": 65536, "output": 8192}}},
    }
    settings = {
        "model": "gateway/scripted",
        "small_model": "gateway/scripted",
        "provider": {"gateway": provider},
        "autoupdate": False,
        "share": "disabled",
        "permission": "allow",
    }
    return Program(
        f"opencode {package}",
        (str(INSTALLED / "node_modules/opencode-linux-x64/bin/opencode"), "run", TASK),
        plays(
            [called("write", filePath=str(work / name), content=content) for name, content in FILES.items()],
            called("bash", command=RUN, description="Run the test"),
            review=called("task", description="Review", prompt=REVIEW, subagent_type="general"),
            read=called("read", filePath=str(work / "calc.py")),
        ),
        env={"OPENCODE_DISABLE_MODELS_FETCH": "1"},
        files={work / "opencode.json": json.dumps(settings)},
        agents=2,
        named=True,
        titles=1,
    )


def _qwen_code(work: Path, home: Path, dialect: str) -> Program:
    settings = {"privacy": {"usageStatisticsEnabled": False}, "general": {"enableAutoUpdate": False}}
    return Program(
        f"qwen-code {dialect}",
        (str(INSTALLED / "node_modules/.bin/qwen"), "-y", "--auth-type", dialect, "-m", "scripted", TASK),
        plays(
            [called("write_file", file_path=str(work / name), content=content) for name, content in FILES.items()],
            called("run_shell_command", command=RUN, is_background=False),
            review=called("agent", description="Review", prompt=REVIEW, subagent_type="general-purpose"),
            read=called("read_file", file_path=str(work / "calc.py")),
        ),
        env=_OPENAI | {"ANTHROPIC_BASE_URL": "BASE", "ANTHROPIC_API_KEY": "none"},
        files={home / ".qwen/settings.json": json.dumps(settings)},
        agents=2,
    )

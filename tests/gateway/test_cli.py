"""The command line: exit statuses, sentences, and nothing slow before `--help`."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from gateway.cli import main


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: object
    output: str
    errors: str


Run = Callable[..., Ended]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command in this process, in an empty folder and with no settings but those given."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("ROLLOUT_GATEWAY_"):
            monkeypatch.delenv(name)

    def run(*arguments: str, **environ: str) -> Ended:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        return Ended(caught.value.code, *capsys.readouterr())

    return run


def clean_environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROLLOUT_GATEWAY_")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept | {"PYTHONPATH": str(Path(__file__).parents[2])}


def test_help_names_the_commands(run: Run) -> None:
    shown = run("--help")
    assert shown.status == 0
    for command in ("serve", "demo", "verify", "samples", "export", "drift", "sessions", "traces", "db", "keys"):
        assert f"\n  {command} " in shown.output


def test_help_waits_for_no_server() -> None:
    imported = subprocess.run(
        [sys.executable, "-c", "import gateway.cli, sys; print(*sys.modules)"],
        env=clean_environ(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.split()
    assert not {"uvicorn", "starlette", "fastapi", "sqlalchemy", "pydantic", "httpx", "numpy"} & set(imported)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--backend", "http://a,engin=vllm"],
            "rollout-gateway: --backend: option 'engin' of backend http://a is unknown",
        ),
        (["--capture", "exactly"], "rollout-gateway: --capture: Input should be 'exact', 'ids' or 'stream'"),
        (["--workers", "2"], "rollout-gateway: --workers 2: SQLite takes one gateway process"),
        (["--config", "none.yaml"], "none.yaml can't be read: No such file or directory"),
    ],
)
def test_wrong_settings_are_a_sentence_and_status_2(run: Run, tmp_path: Path, arguments: list[str], says: str) -> None:
    ended = run("serve", *arguments)
    assert ended.status == 2
    assert says in ended.errors
    assert "Traceback" not in ended.errors
    assert list(tmp_path.iterdir()) == []


def test_a_listener_for_others_without_keys_is_a_sentence_and_status_1(run: Run) -> None:
    ended = run("serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104
    assert ended.status == 1
    assert "set ROLLOUT_GATEWAY_KEYS" in ended.errors
    assert "Traceback" not in ended.errors


def test_an_unknown_option_is_an_error_with_the_nearest(run: Run) -> None:
    ended = run("serve", "--bakend", "http://a")
    assert ended.status == 2
    assert "--backend" in ended.errors


def test_an_unknown_variable_is_an_error_with_the_nearest(run: Run) -> None:
    ended = run("serve", ROLLOUT_GATEWAY_DATABSE="sqlite:///x.db")
    assert ended.status == 2
    assert "did you mean ROLLOUT_GATEWAY_DATABASE?" in ended.errors


def test_a_database_that_cannot_be_opened_is_a_sentence_and_status_1() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "gateway", "serve", "--port", "0", "--database", "sqlite:////no/such/folder/x.db"],
        env=clean_environ(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr == (
        "rollout-gateway: /no/such/folder/x.db can't be opened: there is no folder /no/such/folder; make it first\n"
    )


def test_reading_from_no_gateway_is_a_sentence_and_status_1(run: Run) -> None:
    ended = run("traces", "list", "--url", "http://127.0.0.1:9")
    assert ended.status == 1
    assert ended.errors.startswith("rollout-gateway: no gateway answers at http://127.0.0.1:9")


def test_help_says_with_what_verify_ends(run: Run) -> None:
    shown = " ".join(run("verify", "--help").output.split())
    assert "Exits with 0 if nothing failed, 1 if something did, and 2 if the server can't be checked" in shown


@pytest.mark.parametrize("listed", ["sessions", "traces"])
def test_help_says_where_a_list_begins(run: Run, listed: str) -> None:
    shown = " ".join(run(listed, "list", "--help").output.split())
    assert re.search("(?i)from the oldest on.* --cursor goes on where the page before ended", shown)


@pytest.mark.parametrize("port", ["99999", "-1"])
def test_a_port_that_is_none_is_a_wrong_use_of_the_demo(run: Run, port: str) -> None:
    ended = run("demo", "--port", port)
    assert ended.status == 2
    assert "'--port'" in ended.errors


def test_a_verify_key_that_is_not_set_is_a_sentence_and_status_2(run: Run) -> None:
    ended = run("verify", "http://127.0.0.1:9", "--api-key-env", "NO_SUCH_KEY")
    assert ended.status == 2
    assert "the environment variable NO_SUCH_KEY is not set" in ended.errors


def test_db_upgrade_makes_a_database(run: Run, tmp_path: Path) -> None:
    assert run("db", "upgrade", "--database", "sqlite:///new.db").status == 0
    assert (tmp_path / "new.db").stat().st_size > 0


def test_serve_gives_its_url_by_file_says_how_to_use_it_and_ends_with_0_when_told_to(run: Run, tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "gateway",
            "serve",
            "--port",
            "0",
            "--ready-file",
            str(ready),
            "--log-format",
            "console",
        ],
        cwd=tmp_path,
        env=clean_environ(),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 30
        while not ready.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        told = json.loads(ready.read_text())
        assert told["pid"] == process.pid
        assert httpx.get(f"{told['url']}/healthz", timeout=5).status_code == 200
        assert run("traces", "list", "--url", told["url"]).status == 0
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert f"base_url = {told['url']}/sessions/{{session_id}}/v1" in errors
    assert "none: calls are refused until one is added with --backend URL" in errors
    assert "\x1b" not in errors, "colours are for terminals"
    assert not ready.exists()

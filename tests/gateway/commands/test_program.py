"""What a hint calls the command, so that it can be typed as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.commands.program import typed


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in a virtual environment that is not on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "elsewhere"))
    path = tmp_path / "project" / ".venv" / "bin" / "rollout-gateway"
    path.parent.mkdir(parents=True)
    path.touch(mode=0o755)
    return path


def test_inside_the_folder_it_is_called_by_its_way_from_there(script: Path) -> None:
    folder = script.parents[2]
    assert typed(".venv/bin/rollout-gateway", folder) == ".venv/bin/rollout-gateway"
    assert typed(str(script), folder) == ".venv/bin/rollout-gateway"


def test_elsewhere_it_is_called_by_its_whole_path(script: Path, tmp_path: Path) -> None:
    assert typed(str(script), tmp_path / "other") == str(script)


def test_on_the_path_it_is_called_by_its_name(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(script.parent))
    assert typed(str(script), script.parents[2]) == "rollout-gateway"


@pytest.mark.parametrize("started_as", ["gateway/__main__.py", "-c", "", ".venv/bin/not-there/rollout-gateway"])
def test_what_is_no_script_of_that_name_says_nothing_better(script: Path, started_as: str) -> None:
    assert typed(started_as, script.parents[2]) == "rollout-gateway"

"""The page of promises names tests that exist, for every failure that is to be shown so far."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")

# Rows are added with the work that shows them.
PROMISED = {
    *(f"A{number}" for number in range(1, 14)),
    *(f"E{number}" for number in range(1, 12)),
    *(
        "B1",
        "B2",
        "B3",
        "B4",
        "B5",
        "B6",
        "B7",
        "B8",
        "B9",
        "B10",
        "B11",
        "B12",
        "C1",
        "C2",
        "C3",
        "C4",
        "C5",
        "C6",
        "C7",
        "D1",
        "D2",
        "D3",
        "D4",
        "D7",
        "D8",
        "D5",
        "D6",
        "D9",
        "D10",
        "D11",
        "D12",
        "D13",
        "D14",
        "D15",
        "D16",
        "D17",
        "D18",
        "D19",
        "F1",
        "F2",
        "F3",
        "F4",
        "F5",
        "F6",
        "F7",
        "F8",
        "F9",
        "F10",
        "F12",
        "F13",
        "F14",
        "F15",
        "F16",
        "F17",
        "F18",
    ),
}

_ROW = re.compile(r"^\| ([A-F]\d+) \|(.*)\|(.*)\|(.*)\|$", re.MULTILINE)
_NAME = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def _rows() -> dict[str, list[tuple[str, str]]]:
    return {number: _NAME.findall(shown_by) for number, _, _, shown_by in _ROW.findall(PAGE)}


def _tests_in(path: str) -> Iterator[str]:
    """Names of the file's test functions, also inside classes."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


def test_every_promise_names_tests_that_exist() -> None:
    for number, named in _rows().items():
        assert named, f"{number} names no test"
        for path, name in named:
            assert (ROOT / path).is_file(), f"{number}: {path} is not there"
            assert name in _tests_in(path), f"{number}: {path} has no {name}"


def test_every_failure_that_is_to_be_shown_has_its_row_once() -> None:
    numbers = [number for number, *_ in _ROW.findall(PAGE)]
    assert sorted(numbers) == sorted(PROMISED)


def test_no_test_is_named_outside_a_row() -> None:
    """A row that the pattern above misses would go unchecked."""
    assert len(_NAME.findall(PAGE)) == PAGE.count("::") == sum(map(len, _rows().values()))

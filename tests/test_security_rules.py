"""Rules of security that hold for every line of the program, read from its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
FILES: Final = [path for folder in ("adapters", "storage", "gateway") for path in sorted((ROOT / folder).rglob("*.py"))]
UNPICKLING: Final = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
RAW_SQL: Final = {"text", "execute", "exec_driver_sql", "executemany", "executescript", "literal_column"}


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def name_of(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def is_made_up(node: ast.expr) -> bool:
    """A string that is put together, in whatever way."""
    if isinstance(node, ast.JoinedStr):
        return any(isinstance(part, ast.FormattedValue) for part in node.values)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add | ast.Mod) and any(
            isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
            for side in (node.left, node.right)
        )
    return isinstance(node, ast.Call) and name_of(node) in ("format", "join")


def where(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def test_nothing_is_unpickled_nor_run_from_text() -> None:
    found = [
        where(path, node)
        for path in FILES
        for node in nodes(path)
        if any(module.split(".")[0] in UNPICKLING for module in imports(node))
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec"))
        or (isinstance(node, ast.keyword) and node.arg == "allow_pickle" and getattr(node.value, "value", True))
    ]
    assert found == []


def test_no_statement_is_put_together_from_text() -> None:
    """Values are bound. SQLite binds none in a PRAGMA, where they are numbers of ours; a migration names its tables."""
    found = [
        where(path, node)
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.Call) and name_of(node) in RAW_SQL and node.args and is_made_up(node.args[0])
        if "migrations" not in path.parts and not ast.unparse(node.args[0]).startswith("f'PRAGMA ")
    ]
    assert found == []


def test_tokenizers_run_no_code_of_a_models() -> None:
    loads = [
        node
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.Call) and name_of(node) == "from_pretrained"
    ]
    assert loads
    for load in loads:
        told = {each.arg: getattr(each.value, "value", None) for each in load.keywords}
        assert (told["trust_remote_code"], told["local_files_only"]) == (False, True)


def test_no_client_trusts_the_environments_proxies_or_follows_redirects() -> None:
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.keyword) and node.arg in ("trust_env", "follow_redirects", "verify"):
                assert getattr(node.value, "value", None) is (node.arg == "verify"), where(path, node)
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("httpx.Client", "httpx.AsyncClient"):
                told = {each.arg for each in node.keywords}
                assert "trust_env" in told or None in told, where(path, node)
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("urllib.request.", "requests.")):
                raise AssertionError(f"{where(path, node)} asks with a client that trusts the environment")


def test_session_ids_are_no_file_names() -> None:
    """Who opens files, makes folders or names them does not know of sessions."""
    opening = {"open", "write_bytes", "write_text", "mkdir", "with_name", "joinpath"}
    found = [
        where(path, node)
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.Call) and name_of(node) in opening
        if any("session_id" in ast.unparse(argument) for argument in node.args)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("statement", "made_up"),
    [
        ("text('SELECT 1')", False),
        ("text(f'SELECT {value}')", True),
        ("text('SELECT ' + value)", True),
        ("text('SELECT %s' % value)", True),
        ("text('SELECT {}'.format(value))", True),
        ("execute(select(table))", False),
    ],
)
def test_the_rule_sees_what_it_is_to_see(statement: str, made_up: bool) -> None:
    call = ast.parse(statement, mode="eval").body
    assert isinstance(call, ast.Call)
    assert is_made_up(call.args[0]) == made_up

"""The two clients are one: the same calls of the same names, and nothing imported that a trainer does not need."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from gateway import client
from gateway.client import AsyncClient, AsyncItems, AsyncOpenSession, AsyncWork, Client, Items, OpenSession, Work

IMPORTED = """
import sys
import gateway.client
own = {name for name in sys.modules if name.startswith("gateway.") and not name.startswith("gateway.client")}
names = {name.partition(".")[0] for name in sys.modules}
print(own | names & {"adapters", "storage", "pyarrow", "torch", "msgspec", "pydantic", "sqlalchemy", "fastapi"})
"""


@pytest.mark.parametrize(
    ("blocking", "on_a_loop"),
    [(Client, AsyncClient), (OpenSession, AsyncOpenSession), (Work, AsyncWork), (Items, AsyncItems)],
)
def test_what_one_can_the_other_can(blocking: type, on_a_loop: type) -> None:
    assert methods(on_a_loop) == methods(blocking)


def methods(kind: type) -> dict[str, list[str]]:
    """The public ones with their parameters; results differ in how they are waited for."""
    return {
        name: [str(parameter) for parameter in inspect.signature(method).parameters.values()]
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def test_a_trainer_that_imports_it_imports_nothing_of_the_gateway() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_all_that_it_gives_out_can_be_named() -> None:
    given = {name for name, value in vars(client).items() if inspect.isclass(value)}
    assert given == set(client.__all__)

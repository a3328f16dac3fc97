"""How many files and sockets there may be, in a process whose limits are its own."""

import subprocess
import sys

import pytest

from gateway.commands.descriptors import connections_for


def _with_limits(soft: int, hard: int) -> tuple[str, str]:
    """The limit after it was raised, and what was logged."""
    program = f"""
import logging, resource
from gateway.commands.descriptors import raise_descriptor_limit
logging.basicConfig()
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(raise_descriptor_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    return ended.stdout.strip(), ended.stderr


def test_the_limit_goes_up_as_far_as_the_machines_owner_allows() -> None:
    told, log = _with_limits(512, 8000)
    assert (told, log) == ("8000 8000", "")


def test_few_are_told_with_what_they_are_enough_for() -> None:
    told, log = _with_limits(512, 1128)
    assert told == "1128 1128"
    assert "500 calls at a time" in log


@pytest.mark.parametrize(("descriptors", "connections"), [(1128, 500), (65_536, 32_704), (100, 1)])
def test_each_connection_leaves_room_for_one_to_a_backend(descriptors: int, connections: int) -> None:
    assert connections_for(descriptors) == connections

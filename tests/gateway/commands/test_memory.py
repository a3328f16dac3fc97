from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Eight threads that allocate at the same time, each in an arena of its own if it may. glibc tells how many there are.
_PROGRAM = """
import ctypes, os, sys, tempfile, threading
from gateway.commands.memory import share_memory

print(share_memory())
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.fopen.restype, libc.malloc_info.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]
libc.fclose.argtypes = [ctypes.c_void_p]
together = threading.Barrier(8)

def work():
    together.wait()
    libc.malloc(1_000)
    together.wait()

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
with tempfile.NamedTemporaryFile("r") as told:
    file = libc.fopen(told.name.encode(), b"w")
    libc.malloc_info(0, file)
    libc.fclose(file)
    print(told.read().count("<heap nr="))
"""


def told(environment: dict[str, str]) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ran.stdout.split()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="arenas are glibc's")
def test_threads_share_two_arenas_unless_the_owner_says_otherwise() -> None:
    assert told({}) == ["True", "2"]
    shared, arenas = told({"MALLOC_ARENA_MAX": "5"})
    assert (shared, int(arenas) > 2) == ("False", True)

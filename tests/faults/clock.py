"""A wall clock that jumps, for one process: a library before libc's own, which adds what a file says.

`unshare --time` moves only the monotonic clock, and setting the machine's own would move everybody's. It is compiled
here, in a moment, where there is a C compiler.
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

import pytest

_SOURCE: Final = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile const long long *jumped;
static int (*told)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    told = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("JUMPED_BY");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *seen = file < 0 ? MAP_FAILED : mmap(0, sizeof(long long), PROT_READ, MAP_SHARED, file, 0);
    if (seen != MAP_FAILED) jumped = seen;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    if (!told) begin();
    int failed = told(id, now);
    if (!failed && jumped && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += *jumped;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    int failed = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place) *place = now.tv_sec;
    return now.tv_sec;
}
"""


class Clock:
    """`jump` moves the wall clock of every process that has `environ`."""

    def __init__(self, folder: Path) -> None:
        """Skips the test where there is no compiler."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("there is no C compiler here, and without one no clock that jumps")
        source, library, offset = folder / "clock.c", folder / "clock.so", folder / "jumped-by"
        source.write_text(_SOURCE)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        offset.write_bytes(bytes(8))
        with offset.open("r+b") as file:
            self._jumped = mmap.mmap(file.fileno(), 8)
        self.environ = {"LD_PRELOAD": os.fspath(library), "JUMPED_BY": os.fspath(offset)}

    def jump(self, seconds: int) -> None:
        """From the true time."""
        self._jumped[:] = struct.pack("q", seconds)

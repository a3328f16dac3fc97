"""Nothing is kept per session but bounded caches (docs/promises.md F16)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

KEPT = 10_000
WARM_UP, THEN = 10_250, 2_750


def test_sessions_that_come_and_go_leave_no_more_behind_than_the_caches_hold(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.gateway.many_sessions"]
    database = f"sqlite:///{tmp_path / 'rollouts.db'}"
    run = subprocess.run(
        [*program, database, str(WARM_UP), str(THEN)], check=True, capture_output=True, text=True, timeout=300
    )
    told = json.loads(run.stdout)
    # Whatever hangs off the parts that a call goes through: none of it has as many items as there were sessions.
    assert told["warm"]["largest"] == told["then"]["largest"] == KEPT
    # Each session's body, ids and rows are some 5 KB while they are held.
    assert told["then"]["rss"] - told["warm"]["rss"] < THEN * 3_000

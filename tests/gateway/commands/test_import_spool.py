from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from storage.opening import open_database
from storage.store import Store
from tests.storage.examples import call
from tests.storage.test_outages import locked


async def _left(folder: Path) -> None:
    """What a gateway that ended while its database was locked left beside it."""
    store = Store.open(folder / "a.db", gateway_id="dead")
    with locked(folder / "a.db"):
        await store.finish(call("s", [1], [2]), timeout=0.1)
        await store.finish(call("s", [1], [2], http_status=2**63), timeout=0.1)  # More than a column can have.
        await store.close()


def _import(folder: Path, database: Path) -> tuple[int, str, str]:
    command = [
        sys.executable,
        "-m",
        "gateway",
        "db",
        "import-spool",
        str(folder),
        "--database",
        f"sqlite:///{database}",
    ]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROLLOUT_GATEWAY_")}
    ran = subprocess.run(command, env=kept, capture_output=True, text=True, timeout=60, check=False)
    return ran.returncode, ran.stdout, ran.stderr


def test_what_was_imported_and_what_was_not_is_said_and_the_exit_status_tells(tmp_path: Path) -> None:
    asyncio.run(_left(tmp_path))
    status, _, complaint = _import(tmp_path / "a.db-spool", tmp_path / "b.db")
    assert status == 2
    assert complaint.startswith("rollout-gateway: there is no file")  # A typo moves nothing anywhere.
    open_database(tmp_path / "b.db").close()
    status, told, complaint = _import(tmp_path / "a.db-spool", tmp_path / "b.db")
    assert "1 traces imported, 0 were there already, 0 dropped (their sessions were deleted), 1 refused." in told
    assert status == 1
    assert "refused" in complaint
    assert len(list((tmp_path / "a.db-spool" / "refused").iterdir())) == 1
    status, _, complaint = _import(tmp_path / "nowhere", tmp_path / "b.db")
    assert (status, complaint) == (1, f"rollout-gateway: there is no folder {tmp_path / 'nowhere'}\n")

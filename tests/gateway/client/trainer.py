"""A trainer's process: claims, reads and acknowledges until there is nothing left, and writes down what it has done."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Literal, cast

from gateway.client import ClaimExpired, Client

LEASE = 1.0


def train(url: str, unit: Literal["session", "group"], ledger: Path, hangs_at: int) -> None:
    """At its claim number `hangs_at` it hangs before it acknowledges."""
    claims = 0

    def note(step: str, claim_id: str, sessions: tuple[str, ...]) -> None:
        with ledger.open("a") as file:
            file.write(json.dumps([step, claim_id, sessions]) + "\n")

    with Client(url) as client:
        while True:
            try:
                with client.claim(run="r1", unit=unit, lease=LEASE, wait=2 * LEASE) as work:
                    if work.claim is None:
                        return
                    claims += 1
                    read = tuple(dict.fromkeys(sample.session_id for sample in work.samples()))
                    assert read == work.session_ids
                    note("claimed", work.claim.claim_id, read)
                    if claims == hangs_at:
                        time.sleep(60)
            except ClaimExpired:
                continue  # On a machine that is busy for that long: somebody else trains on it.
            note("acknowledged", work.claim.claim_id, work.session_ids)


if __name__ == "__main__":
    url, unit, ledger, hangs_at = sys.argv[1:]
    train(url, cast(Literal["session", "group"], unit), Path(ledger), int(hangs_at))

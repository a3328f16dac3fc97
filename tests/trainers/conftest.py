"""What trainers' own code says of our rows. Their packages are gigabytes, which `make trainers` keeps apart."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("trl") is not None else ["test_*.py"]

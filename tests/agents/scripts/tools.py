"""What the coding agents of this folder may do, each in its working directory."""

import subprocess
from pathlib import Path


def write_file(path: str, content: str) -> str:
    """Write a file."""
    Path(path).write_text(content)
    return f"wrote {path}"


def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


def run(command: str) -> str:
    """Run a command."""
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr

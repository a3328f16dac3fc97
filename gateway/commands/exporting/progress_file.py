"""How far an export has come, kept beside its files: what was asked for, and each partition's cursor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

import msgspec

from gateway.commands.errors import CommandFailed
from gateway.commands.exporting.destination import Destination

# Readers of Parquet folders pass over names with an underscore in front.
NAME: Final = "_export.json"


class OtherExport(CommandFailed):
    """The destination has files of another export."""


class Place(msgspec.Struct):
    """Where one partition's export has come to."""

    parts: int = 0
    cursor: str | None = None


class Progress(msgspec.Struct):
    """Written after each part: a part that it does not count is written anew, under the same name."""

    asked: dict[str, str]
    partitions: dict[str, Place] = {}
    version: int = 1

    @classmethod
    def at(cls, destination: Destination, asked: Mapping[str, str]) -> Self:
        """As it was left there, or from the beginning. Raises OtherExport."""
        written = destination.read(NAME)
        if written is None:
            if destination.has("run=*/day=*/part-*"):
                raise OtherExport(f"{destination.url} has parts of an export that has no {NAME}: choose another folder")
            return cls(dict(asked))
        try:
            found = msgspec.json.decode(written, type=cls)
        except msgspec.DecodeError as exc:
            raise OtherExport(f"{destination.url}/{NAME} is not an export's: {exc}") from exc
        differing = sorted(name for name in {*asked, *found.asked} if asked.get(name) != found.asked.get(name))
        if differing:
            raise OtherExport(
                f"{destination.url} has an export that was asked for otherwise ({', '.join(differing)}): "
                "choose another folder"
            )
        return found

    def place(self, folder: str) -> Place:
        return self.partitions.setdefault(folder, Place())

    def save(self, destination: Destination) -> None:
        destination.write(NAME, msgspec.json.format(msgspec.json.encode(self), indent=1))

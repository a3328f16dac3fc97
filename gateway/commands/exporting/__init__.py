"""`export`: what a running gateway has recorded, as files in a folder or an object store."""

from gateway.commands.exporting.asked import Asked
from gateway.commands.exporting.destination import Destination
from gateway.commands.exporting.run import Export

__all__ = ["Asked", "Destination", "Export"]

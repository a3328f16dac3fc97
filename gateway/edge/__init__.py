"""The server's edge: what is read of a connection before there is a call, and who is turned away there."""

from gateway.edge.connection import AgentConnection
from gateway.edge.doorway import Doorway

__all__ = ["AgentConnection", "Doorway"]

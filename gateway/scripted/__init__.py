"""Scripted inference servers on loopback: what the demo, the tests and the benchmarks put behind the gateway."""

from gateway.scripted.call import Call
from gateway.scripted.faults import HEALTHY, Ending, Fault
from gateway.scripted.loopback import free_port, listening
from gateway.scripted.replay import ReplayServer
from gateway.scripted.server import ScriptedServer, running

__all__ = [
    "HEALTHY",
    "Call",
    "Ending",
    "Fault",
    "ReplayServer",
    "ScriptedServer",
    "free_port",
    "listening",
    "running",
]

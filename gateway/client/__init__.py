"""A gateway as trainers use it, in Python: `Client`, and `AsyncClient` for programs on an event loop.

Needs httpx and numpy alone: nothing of the gateway's own is imported, and neither torch nor pyarrow.

    with Client(url).session(run="r1", group="task-7") as s:
        agent(base_url=s.base_url)
        s.reward(0.7)
"""

from gateway.client.asynchronous import AsyncClient, AsyncItems, AsyncOpenSession, AsyncWork
from gateway.client.blocking import Client, Items, OpenSession, Work
from gateway.client.errors import (
    ClaimExpired,
    Conflict,
    EngineRefused,
    GatewayError,
    InvalidCall,
    NotDrained,
    NotFound,
    PauseExpired,
    Unauthorized,
    Unavailable,
    Unreachable,
    UnreadableAnswer,
)
from gateway.client.samples import Finding, RoutedExperts, Sample, SampledSpan, WeightSpan
from gateway.client.saving import Exported
from gateway.client.status import GatewayStatus
from gateway.client.traces import Choice, Trace
from gateway.client.updates import (
    BackendVersion,
    EngineAnswer,
    GateStatus,
    Pause,
    Resumed,
    WeightEvent,
    WeightVersions,
)
from gateway.client.values import Backend, Claim, Group, Reward, Session

__all__ = [
    "AsyncClient",
    "AsyncItems",
    "AsyncOpenSession",
    "AsyncWork",
    "Backend",
    "BackendVersion",
    "Choice",
    "Claim",
    "ClaimExpired",
    "Client",
    "Conflict",
    "EngineAnswer",
    "EngineRefused",
    "Exported",
    "Finding",
    "GateStatus",
    "GatewayError",
    "GatewayStatus",
    "Group",
    "InvalidCall",
    "Items",
    "NotDrained",
    "NotFound",
    "OpenSession",
    "Pause",
    "PauseExpired",
    "Resumed",
    "Reward",
    "RoutedExperts",
    "Sample",
    "SampledSpan",
    "Session",
    "Trace",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "UnreadableAnswer",
    "WeightEvent",
    "WeightSpan",
    "WeightVersions",
    "Work",
]

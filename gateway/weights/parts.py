"""A gateway's part for weights, put together: the gate that calls go through, and what opens and closes it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Self

from gateway.backends import Backends
from gateway.patience import Patience
from gateway.upstream import Upstream
from gateway.weights.control import Control
from gateway.weights.engines import Engines
from gateway.weights.following import Following, followed
from gateway.weights.gate import Gate
from gateway.weights.versions import Versions
from storage.weights import Weights


@dataclass(frozen=True, slots=True)
class WeightParts:
    gate: Gate
    versions: Versions
    following: Following
    control: Control

    @classmethod
    def of(
        cls,
        weights: Weights,
        backends: Backends,
        upstream: Upstream,
        patience: Patience,
        *,
        gateway_id: str,
        shared: bool,
    ) -> Self:
        gate, versions, engines = Gate(), Versions(backends, gateway_id), Engines(backends, upstream)
        following = Following(
            weights, backends, gate, versions, engines, patience, gateway_id=gateway_id, shared=shared
        )
        return cls(gate, versions, following, Control(weights, backends, versions, engines, following, shared=shared))

    def followed(self) -> AbstractAsyncContextManager[None]:
        return followed(self.following, self.gate)

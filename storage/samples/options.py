"""What a trainer may choose of a session's samples: how they are cut, and what is kept that is left out by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

SampleStyle = Literal["merged", "traces"]
LogprobsWanted = Literal["required", "optional"]
AgentsWanted = Literal["all", "main"]


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """Each value says what differs from the default. Nonsense is a ValueError."""

    style: SampleStyle = "merged"
    """`merged`: one sample a path through the session. `traces`: one sample a choice, its whole prompt with mask 0."""
    aux: bool = False
    """Keep calls of purpose `aux`."""
    agents: AgentsWanted = "all"
    """`main`: without the calls of agents that another one spawned, as far as their harness says so."""
    retries: bool = False
    """Keep superseded attempts: those that another trace names in its `retry_of`."""
    cut: bool = False
    """Keep cut-short traces (`client_disconnected`, `interrupted`, `backend_error`) that are exact all the same. The
    others are never trained: the session is incomplete."""
    logprobs: LogprobsWanted = "required"
    """`optional`: a sampled token without its logprob is no longer fatal."""
    complete: bool = False
    """Nothing of a session that lost tokens."""
    fatal: bool = False
    """Give samples with fatal findings too."""
    min_weight_version: str | None = None
    max_weight_version: str | None = None
    """A sample is in when all its trained tokens are from versions in between, both included. Whole numbers compare
    as numbers, all else as text; a token whose version nobody told is outside."""
    vocab_size: int | None = None
    """Ids from here on are a fatal finding."""

    def __post_init__(self) -> None:
        if self.style not in get_args(SampleStyle):
            raise ValueError(f"style is one of {', '.join(get_args(SampleStyle))}, not {self.style!r}")
        if self.logprobs not in get_args(LogprobsWanted):
            raise ValueError(f"logprobs is one of {', '.join(get_args(LogprobsWanted))}, not {self.logprobs!r}")
        if self.agents not in get_args(AgentsWanted):
            raise ValueError(f"agents is one of {', '.join(get_args(AgentsWanted))}, not {self.agents!r}")
        if self.vocab_size is not None and self.vocab_size < 1:
            raise ValueError(f"vocab_size is how many ids the model knows, not {self.vocab_size}")

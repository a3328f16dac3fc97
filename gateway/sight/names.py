"""The metrics of a gateway: every name with its unit, its meaning and its labels, and nothing else.

Labels are few and bounded: words of ours, engines, and backends, which an administrator names. Sessions, runs, keys,
models and weight versions are none: agents and trainers make as many of those as they like, and each would be a series
for ever. `rollout-gateway traces` and `/api` answer questions about those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]

PREFIX: Final = "rollout_gateway_"


@dataclass(frozen=True, slots=True)
class Name:
    """One metric. A counter's name ends with `_total`; `bounds` are the upper ones of a histogram's buckets."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    @property
    def full(self) -> str:
        return PREFIX + self.name


_FIRST_TOKEN: Final = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_BETWEEN_TOKENS: Final = (0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)
_CALL: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_COMMIT: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_LAG: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

# Agents' calls, as they end.
CALLS: Final = Name("calls_total", "counter", "Agents' calls that ended.", ("dialect", "engine", "status"))
REFUSALS: Final = Name("refusals_total", "counter", "Calls that the gateway itself refused, by reason.", ("reason",))
ANSWERED: Final = Name("answered_total", "counter", "Calls whose agent got a whole answer.")
RECORDED: Final = Name("recorded_total", "counter", "Of those the ones whose trace was recorded before the end.")
LOST: Final = Name("unrecorded_total", "counter", "Calls whose trace neither database nor spool took.")
CALL_SECONDS: Final = Name("call_seconds", "histogram", "A call, from its head to its end.", ("dialect",), _CALL)
FIRST_TOKEN: Final = Name(
    "first_token_seconds", "histogram", "Until a stream's first token.", ("backend",), _FIRST_TOKEN
)
BETWEEN_TOKENS: Final = Name(
    "between_tokens_seconds", "histogram", "Between two tokens, mean of a stream.", ("backend",), _BETWEEN_TOKENS
)
TOKENS: Final = Name("tokens_total", "counter", "Tokens as engines count them.", ("engine", "kind"))
VERDICTS: Final = Name("verdicts_total", "counter", "Answers by how sure their token ids are.", ("engine", "fidelity"))
LOGPROBS: Final = Name("logprobs_verdicts_total", "counter", "Answers by their logprobs.", ("engine", "fidelity"))
COMMIT_WAIT: Final = Name("record_wait_seconds", "histogram", "An end's wait for its record.", (), _COMMIT)
KEEPALIVES: Final = Name("keepalives_total", "counter", "Calls whose agent was sent keep-alives.")

# Backends.
ATTEMPTS: Final = Name("backend_attempts_total", "counter", "Tries at backends by their result.", ("backend", "result"))
FAILOVERS: Final = Name("failovers_total", "counter", "Calls that a second or later try answered.")
BACKEND_UP: Final = Name("backend_up", "gauge", "0 while a backend is passed over for its failures.", ("backend",))
BACKEND_IN_FLIGHT: Final = Name("backend_in_flight_calls", "gauge", "Calls at a backend now.", ("backend",))
BACKEND_INFO: Final = Name("backend_info", "gauge", "What each backend is.", ("backend", "engine", "version", "source"))

# Trainers.
SESSIONS_ENDED: Final = Name("sessions_ended_total", "counter", "Sessions that were ended over HTTP.", ("status",))
CLAIMS: Final = Name("claims_total", "counter", "What became of claims.", ("action",))

# The gateway now.
IN_FLIGHT: Final = Name("in_flight_calls", "gauge", "Agents' calls now.")
BODY_BYTES: Final = Name("request_body_bytes", "gauge", "Bodies of agents' calls that are held now.")
HELD: Final = Name("held_calls", "gauge", "Calls that wait behind a pause.")
PAUSES: Final = Name("pauses", "gauge", "Pauses that stand.")
PAUSED_FOR: Final = Name("pause_seconds", "gauge", "For how long the oldest of them has stood.")
CONNECTIONS: Final = Name("upstream_connections", "gauge", "Connections to backends.", ("state",))
LAG: Final = Name("event_loop_lag_seconds", "histogram", "How late the event loop wakes a timer.", (), _LAG)
READY: Final = Name("ready", "gauge", "1 where /readyz says so.")
STOPPING: Final = Name("stopping", "gauge", "1 once it was told to stop.")
BUILD: Final = Name("build_info", "gauge", "The program.", ("version",))
WORKER_UP: Final = Name("worker_up", "gauge", "0 where a worker does not tell its metrics.", ())

# Recording.
QUEUED: Final = Name("writer_queued_jobs", "gauge", "Jobs that wait for the writer.")
QUEUED_BYTES: Final = Name("writer_queued_bytes", "gauge", "Their size in memory.")
WRITER_LAG: Final = Name("writer_lag_seconds", "gauge", "For how long the oldest of them has waited.")
WRITER_UP: Final = Name("writer_up", "gauge", "1 while the writer lives.")
WRITER_RESTARTS: Final = Name("writer_restarts_total", "counter", "Times that the writer failed and began again.")
COMMITS: Final = Name("commits_total", "counter", "Transactions of the writer.")
LAST_COMMIT: Final = Name("last_commit_seconds", "gauge", "How long the last of them took.")
COMMITTED: Final = Name("committed_traces_total", "counter", "Ended traces that are in the database.")
ROWS_REFUSED: Final = Name("refused_rows_total", "counter", "Rows that could not be written at all.")
DROPPED_LATE: Final = Name("dropped_rows_total", "counter", "Rows of sessions that had been deleted.")
DATABASE_UP: Final = Name("database_up", "gauge", "0 while the database can't be written.")
SPOOL_UP: Final = Name("spool_up", "gauge", "0 while the spool can't be written.")
SPOOL_DEPTH: Final = Name("spool_traces", "gauge", "Traces that are in the spool and not in the database.")
SPOOL_BYTES: Final = Name("spool_bytes", "gauge", "The spool's size.")
SPOOL_AGE: Final = Name("spool_oldest_seconds", "gauge", "For how long the oldest of them has waited.")
SPOOL_REFUSED: Final = Name("spool_refused_total", "counter", "What no database took and was put aside.")
DISK_FREE: Final = Name("disk_free_bytes", "gauge", "Room left where records are written.", ("place",))
DISK_SIZE: Final = Name("disk_size_bytes", "gauge", "Room there in all.", ("place",))

"""The log: every line of ours, of the server's and of libraries through one renderer, for a person or a machine.

A line names things by their ids and says what happened. It never has a body or a secret: not at `debug`, not in a
traceback. Libraries have no `debug` here, for what they would tell then is what they were given.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Sequence
from typing import Final, Literal, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

from gateway.sight.context import CALL
from gateway.sight.redaction import Redaction
from gateway.sight.tracebacks import traceback_of

LogFormat = Literal["auto", "console", "json"]

_OURS: Final = ("adapters", "gateway", "storage")


def set_up(
    level: str,
    log_format: LogFormat,
    *,
    secrets: Iterable[str] = (),
    worker: int | None = None,
    stream: TextIO | None = None,
) -> None:
    """For this process, in the place of what was set up before. `secrets` are left out wherever they would stand."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Formatter(is_json(log_format, stream), Redaction(secrets), worker, colors=stream.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel("INFO" if level == "debug" else level.upper())
    for name in _OURS:
        logging.getLogger(name).setLevel(level.upper())
    server = logging.getLogger("uvicorn.error")
    server.addFilter(lambda record: record.msg != "Application startup failed. Exiting.")  # We say why.
    if level in ("info", "debug"):
        server.setLevel("WARNING")  # Its greeting; ours says more.
        logging.getLogger("alembic").setLevel("WARNING")  # How a new database came to its tables.


def is_json(log_format: LogFormat, stream: TextIO | None = None) -> bool:
    """`auto` is for whoever reads: a person at a terminal, or what collects lines."""
    return log_format == "json" or (log_format == "auto" and not (stream or sys.stderr).isatty())


class _Formatter(structlog.stdlib.ProcessorFormatter):
    def __init__(self, json: bool, redaction: Redaction, worker: int | None, *, colors: bool) -> None:
        self._redaction = redaction
        told: Sequence[Processor] = (
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            _ids,
            _Worker(worker),
            structlog.processors.ExceptionRenderer(_traceback),
        )
        renderer: Processor = (
            structlog.processors.JSONRenderer(serializer=_json)
            if json
            else structlog.dev.ConsoleRenderer(colors=colors, timestamp_key="time", sort_keys=False, pad_event_to=0)
        )
        super().__init__(
            processors=[self.remove_processors_meta, renderer],
            foreign_pre_chain=told,
            keep_exc_info=False,
            keep_stack_info=False,
        )

    def format(self, record: logging.LogRecord) -> str:
        return self._redaction.of(super().format(record))


def _ids(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    ids = CALL.get()
    if ids is not None:
        event["request_id"] = ids.request_id
        if ids.trace_id is not None:
            event["trace_id"] = ids.trace_id
        if ids.session_id is not None:
            event["session_id"] = ids.session_id
    return event


class _Worker:
    """Which of `--workers N` it is."""

    def __init__(self, number: int | None) -> None:
        self._number = number

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        if self._number is not None:
            event["worker"] = self._number
        return event


def _traceback(exc_info: ExcInfo) -> str:
    return traceback_of(exc_info[1])


def _json(event: EventDict, **_: object) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()

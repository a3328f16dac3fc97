"""Why a connection or a request's head is turned away. No session is known there, so nothing is recorded."""

from __future__ import annotations

from gateway.refusals import Refusal


class Malformed(Refusal):
    """What came is no request of HTTP/1.1, or one that two servers could read in two ways."""

    status = 400
    code = "malformed_request"


class NoTunnel(Refusal):
    status = 405
    code = "method_not_allowed"

    def __init__(self) -> None:
        super().__init__("This server opens no tunnels.")


class TargetTooLong(Refusal):
    status = 414
    code = "target_too_long"


class HeadTooLarge(Refusal):
    status = 431
    code = "headers_too_large"


class WrongVersion(Refusal):
    status = 505
    code = "http_version_not_supported"


class TooManyConnections(Refusal):
    status = 503
    code = "too_many_connections"
    retry = True
    retry_after = 1

"""What of a request's head is refused that httptools takes: whatever another server before us could read otherwise.

httptools 0.9 (llhttp 9.4) refuses by itself: `Transfer-Encoding` beside `Content-Length`, either of them twice, codings
behind `chunked`, folded lines, bare CR and LF, spaces before a colon, control characters, and sizes that are no number.
`tests/gateway/edge/test_smuggling.py` holds it to that.
"""

from __future__ import annotations

from typing import Final

from gateway.edge.refusals import HeadTooLarge, Malformed, TargetTooLong, WrongVersion

Headers = list[tuple[bytes, bytes]]

MAX_TARGET_BYTES: Final = 8 * 1024
MAX_HEAD_BYTES: Final = 64 * 1024
MAX_HEADERS: Final = 128
# What says of a connection only whether it is kept. Whatever else `Connection` names is meant for the next hop alone.
_KEPT: Final = frozenset({b"keep-alive", b"close", b"Keep-Alive", b"Close"})


def check_head(version: str, target: bytes, headers: Headers) -> None:
    """Takes out of the headers what is meant for this hop alone. Names are in lower case. Raises Refusal."""
    if len(target) > MAX_TARGET_BYTES:
        raise TargetTooLong(f"The request's target is longer than {MAX_TARGET_BYTES} bytes.")
    if len(headers) > MAX_HEADERS:
        raise HeadTooLarge(f"The request has more than {MAX_HEADERS} headers.")
    if version not in ("1.1", "1.0"):
        raise WrongVersion(f"This server speaks HTTP/1.1, not HTTP/{version}.")
    names = [name for name, _ in headers]
    hosts = names.count(b"host")
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        raise Malformed("A request has one Host header.")
    if b"transfer-encoding" in names:
        _check_coding(version, headers)
    if b"connection" in names:
        drop_named(headers)


def _check_coding(version: str, headers: Headers) -> None:
    if version == "1.0":
        raise Malformed("HTTP/1.0 has no Transfer-Encoding (RFC 9112, 6.1).")
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if codings != [b"chunked"]:
        raise Malformed("The only Transfer-Encoding that this server takes is `chunked`.")


def drop_named(headers: Headers) -> None:
    """Those that `Connection` names (RFC 9110, 7.6.1). `Host` can't be one of them."""
    told = [value for name, value in headers if name == b"connection"]
    if all(value in _KEPT for value in told):
        return
    named = {option.strip().lower() for value in told for option in value.split(b",")}
    headers[:] = [(name, value) for name, value in headers if name not in named or name == b"host"]

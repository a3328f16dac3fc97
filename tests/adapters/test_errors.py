"""A refusal reads the same out of every envelope."""

from __future__ import annotations

import pytest

from adapters.errors import error_of, read_error
from adapters.raw import open_object
from adapters.schema import Error


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"error":{"message":"no","type":"T","param":"p","code":400}}', Error("no", "T", 400, "p")),
        (b'{"error":{"message":"no","type":"T","param":null,"code":null}}', Error("no", "T", 418)),
        (b'{"error":{"message":"no","code":"context_length_exceeded"}}', Error("no", None, "context_length_exceeded")),
        (
            b'{"object":"error","message":"no","type":"BadRequest","param":null,"code":400}',
            Error("no", "BadRequest", 400),
        ),
        (b'{"message":"no","type":"Bad Request","code":400}', Error("no", "Bad Request", 400)),
        (
            b'{"type":"error","error":{"type":"invalid_request_error","message":"no"}}',
            Error("no", "invalid_request_error", 418),
        ),
        (b'{"error":"no"}', Error("no", None, 418)),
        (b'{"detail":"Not Found"}', Error("Not Found", None, 418)),
        (
            b'{"detail":[{"type":"missing","loc":["body","messages"],"msg":"Field required"}]}',
            Error('Field required at ["body","messages"]', None, 418),
        ),
        (b'{"error":{"code":5}}', Error('{"code":5}', None, 418)),
        (b'{"something":"else"}', Error('{"something":"else"}', None, 418)),
        (b"Internal Server Error", Error("Internal Server Error", None, 418)),
        (
            b"<html><head><title>502 Bad Gateway</title></head><body><h1>nginx</h1></body></html>",
            Error("502 Bad Gateway", None, 418),
        ),
        (b"<p>No &amp; no</p><script>x()</script>", Error("No & no", None, 418)),
        (b"", Error("HTTP 418 without a word of explanation", None, 418)),
        (b"\xff\xfe", Error("��", None, 418)),
    ],
)
def test_every_envelope_gives_the_engines_words(body: bytes, error: Error) -> None:
    assert read_error(418, body) == error


def test_a_page_of_any_size_is_cut() -> None:
    assert len(read_error(500, b"x" * 1_000_000).message) == 4000


@pytest.mark.parametrize(
    "root", [b'{"choices":[]}', b'{"error":null}', b'{"error":false}', b'{"error":{}}', b'{"message":"hello"}']
)
def test_an_answer_that_is_no_error_is_not_taken_for_one(root: bytes) -> None:
    assert error_of(open_object(root)) is None

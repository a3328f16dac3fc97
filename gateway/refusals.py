"""What the gateway itself answers when it cannot pass a call on: a status, a sentence that helps, and no more."""

from __future__ import annotations

from adapters.schema import Error


class Refusal(Exception):
    """A call that gets an error of the gateway's own. Subclasses name the boundary that refused."""

    status = 500
    code: str | None = None
    retry = False
    """Whether the same call may be sent again (`x-should-retry`, which OpenAI's and Anthropic's SDKs obey)."""
    retry_after: int | None = None
    """Seconds after which that makes sense."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.error = Error(message, code=self.code, param=param)

    @property
    def headers(self) -> list[tuple[str, str]]:
        headers = [("x-should-retry", "true")] if self.retry else []
        return headers if self.retry_after is None else [*headers, ("retry-after", str(self.retry_after))]


class InvalidRequest(Refusal):
    """The body or a header is not what the dialect allows."""

    status = 400

    def __init__(self, error: Error) -> None:
        super().__init__(error.message)
        self.error = error


class BudgetSpent(Refusal):
    """The session has used up what it was given. `gently`: the agent gets an answer that ends, instead of an error."""

    status = 400
    code = "budget_exceeded"

    def __init__(self, message: str, *, gently: bool) -> None:
        super().__init__(message)
        self.gently = gently

    @property
    def headers(self) -> list[tuple[str, str]]:
        return [("x-should-retry", "false")]


class Unauthorized(Refusal):
    status = 401
    code = "invalid_api_key"


class Forbidden(Refusal):
    status = 403
    code = "forbidden"


class ModelNotFound(Refusal):
    status = 404
    code = "model_not_found"


class NotFound(Refusal):
    status = 404
    code = "not_found"


class MethodNotAllowed(Refusal):
    status = 405
    code = "method_not_allowed"


class Late(Refusal):
    """The request took too long to arrive."""

    status = 408
    code = "request_timeout"
    retry = True


class SessionClosed(Refusal):
    """The session has ended; its traces may already be training data."""

    status = 409
    code = "session_closed"

    @property
    def headers(self) -> list[tuple[str, str]]:
        return [("x-should-retry", "false")]  # SDKs take a 409 for a lock, and would send the call again.


class SessionGone(Refusal):
    """The session was deleted and stays deleted."""

    status = 410
    code = "session_deleted"


class TooLarge(Refusal):
    status = 413
    code = "request_too_large"


class UnsupportedEncoding(Refusal):
    status = 415
    code = "unsupported_content_encoding"


class TooManyCalls(Refusal):
    """As many calls run as may, of this key or of all."""

    status = 429
    code = "too_many_calls"
    retry = True
    retry_after = 1


class RateLimited(Refusal):
    """The key has used what it may use in a minute."""

    status = 429
    code = "rate_limit_exceeded"
    retry = True

    def __init__(self, message: str, retry_after: int) -> None:
        """In seconds."""
        super().__init__(f"{message} Try again in {retry_after} s.")
        self.retry_after = retry_after


class TooManyBytes(Refusal):
    """The bodies of all requests together are as large as they may be."""

    status = 429
    code = "too_many_bytes"
    retry = True
    retry_after = 1


class BadGateway(Refusal):
    """A backend answered with something that is no answer."""

    status = 502
    code = "backend_error"


class NotRecordable(Refusal):
    """Nothing can be recorded now, so nothing is asked of a backend."""

    status = 503
    code = "cannot_record"
    retry = True


class Stopping(Refusal):
    """The gateway was told to stop, and the call had no end within its grace."""

    status = 503
    code = "gateway_stopping"
    retry = True


class NoBackendAvailable(Refusal):
    """There is no backend, or none that can be reached."""

    status = 503
    code = "no_backend"

    def __init__(
        self,
        message: str = "No backend is configured. Start the gateway with `--backend http://HOST:PORT`, "
        "or add one with POST /api/admin/backends.",
    ) -> None:
        super().__init__(message)


class BackendTimeout(Refusal):
    status = 504
    code = "backend_timeout"


class Defect(Refusal):
    """An error of the gateway's own making."""

    status = 500
    code = "gateway_error"

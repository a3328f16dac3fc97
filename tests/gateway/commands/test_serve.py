"""`serve` around a gateway of a few lines: the listener, the ready file, starting, stopping and not starting."""

import asyncio
import json
import os
import signal
import socket
import threading
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from starlette.types import Receive, Scope, Send

from gateway.commands.listening import CannotServe, listen, url_of
from gateway.commands.serve import run
from gateway.settings import Settings
from storage.errors import CannotOpen

HERE = Settings(port=0)


class Fake:
    """A gateway that answers 200, a little later where asked for, and writes down what happens to it."""

    def __init__(self, refuses: Exception | None = None, *, is_watched: bool = False) -> None:
        self.refuses = refuses
        self.is_watched = is_watched
        self.events: list[str] = []
        self.called = threading.Event()

    def stop(self) -> None:
        self.events.append("stop")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            if self.refuses is not None:
                raise self.refuses
            await send({"type": "lifespan.startup.complete"})
            await receive()
            self.events.append("closed")
            await send({"type": "lifespan.shutdown.complete"})
            return
        self.called.set()
        try:
            await asyncio.sleep({"/": 0, "/slow": 0.5, "/endless": 60}[scope["path"]])
        except asyncio.CancelledError:
            await asyncio.sleep(0.1)
            self.events.append("recorded as interrupted")
            raise
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
        self.events.append("answered")


def serve_until_stopped(gateway: Fake, ready_file: Path, settings: Settings, path: str) -> list[httpx.Response]:
    """Runs here, for signals come to the main thread; another thread calls it, then sends SIGTERM."""
    answers: list[httpx.Response] = []
    clients: list[threading.Thread] = []

    def client(url: str) -> None:
        def call() -> None:
            try:
                answers.append(httpx.get(url + path, timeout=10))
            except httpx.TransportError:
                return

        calling = threading.Thread(target=call)
        calling.start()
        gateway.called.wait(5)
        os.kill(os.getpid(), signal.SIGTERM)
        calling.join()

    def announce(_: Settings, url: str) -> None:
        clients.append(threading.Thread(target=client, args=[url]))
        clients[0].start()

    run(gateway, settings, ready_file=ready_file, announce=announce)
    for thread in clients:
        thread.join()
    return answers


def test_a_call_that_runs_at_sigterm_is_answered_and_then_the_gateway_closes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "gateway.commands.server")
    gateway = Fake()
    answers = serve_until_stopped(gateway, tmp_path / "ready", HERE, "/slow")
    assert [answer.text for answer in answers] == ["ok"]
    assert gateway.events == ["stop", "answered", "closed"]
    assert caplog.messages == [f"told to stop: 1 calls may go on for {HERE.stop_grace:g} s", "stopped"]


def test_what_outlasts_the_grace_records_itself_before_the_gateway_closes(tmp_path: Path) -> None:
    gateway = Fake()
    serve_until_stopped(gateway, tmp_path / "ready", Settings(port=0, stop_grace=0), "/endless")
    assert gateway.events == ["stop", "recorded as interrupted", "closed"]


def test_the_ready_file_names_url_and_process_and_goes_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    path.write_text('{"url": "http://127.0.0.1:1", "pid": 1}')
    told: list[dict[str, object]] = []

    class Watching(Fake):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "lifespan":
                assert not path.exists(), "what a dead gateway left must not be taken for this one's"
            else:
                told.append({**json.loads(path.read_text()), "port": scope["server"][1]})
            await super().__call__(scope, receive, send)

    serve_until_stopped(Watching(), path, HERE, "/slow")
    [ready] = told
    assert ready == {"url": f"http://127.0.0.1:{ready['port']}", "pid": os.getpid(), "port": ready["port"]}
    assert list(tmp_path.iterdir()) == []


def test_an_answer_does_not_name_its_server(tmp_path: Path) -> None:
    [answer] = serve_until_stopped(Fake(), tmp_path / "ready", HERE, "/")
    assert "server" not in answer.headers


def test_a_database_that_cannot_be_opened_is_one_sentence(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    refusing = Fake(refuses=CannotOpen("no such folder: /nope"))
    with pytest.raises(CannotServe, match=r"^no such folder: /nope$"):
        run(refusing, HERE, ready_file=tmp_path / "ready", announce=lambda *_: None)
    assert "Traceback" not in caplog.text
    assert not (tmp_path / "ready").exists()


def test_any_other_failure_to_start_is_logged_whole(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(CannotServe, match="see above"):
        run(Fake(refuses=RuntimeError("a bug")), HERE, ready_file=None, announce=lambda *_: None)
    assert "RuntimeError: a bug" in caplog.text


def test_a_taken_port_is_said() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(CannotServe, match=r"Address already in use; --port 0"):
        listen("127.0.0.1", taken.getsockname()[1])


def test_an_address_of_another_machine_is_said_and_no_other_port_advised() -> None:
    with pytest.raises(CannotServe, match="no interface of this machine has that address") as caught:
        listen("192.0.2.1", 0)
    assert "--port" not in str(caught.value)


def test_a_host_that_does_not_exist_is_said() -> None:
    with pytest.raises(CannotServe, match="can't listen on nowhere"):
        listen("nowhere.invalid", 0)


def test_a_ready_file_in_no_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(CannotServe, match=r"the ready file .* can't be written: No such file"):
        run(Fake(), HERE, ready_file=tmp_path / "no" / "ready", announce=lambda *_: None)


def test_a_ready_file_that_can_be_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, why in ((Path("/"), "Is a directory"), (tmp_path / "file" / "ready", "Not a directory")):
        with pytest.raises(CannotServe, match=f"the ready file {path} can't be written: {why}"):
            run(Fake(), HERE, ready_file=path, announce=lambda *_: None)


def test_the_url_is_one_that_this_machine_can_call() -> None:
    everywhere = Settings(host="0.0.0.0", port=0, keys=(SecretStr("k"),))  # noqa: S104
    with listen(everywhere.host, 0) as listener:
        assert url_of(everywhere, listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_public_url_goes_above_what_this_machine_calls_itself() -> None:
    with listen("127.0.0.1", 0) as listener:
        assert url_of(Settings(public_url="https://gw.example"), listener) == "https://gw.example"


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_an_ipv6_host_is_in_brackets() -> None:
    with listen("::1", 0) as listener:
        assert url_of(Settings(host="::1"), listener) == f"http://[::1]:{listener.getsockname()[1]}"

from __future__ import annotations

from storage.jobs import Pin
from storage.overlay import Overlay
from tests.storage.examples import session


def test_a_pin_that_is_committed_while_its_session_is_read_is_seen() -> None:
    overlay = Overlay()
    pin = Pin(1024, "s", "backend-1")
    overlay.add(pin)
    before = overlay.pins()
    read = session("s")
    overlay.remove(pin)
    assert overlay.over(read, before) == session("s", backend="backend-1")
    assert overlay.over(read, overlay.pins()) == read


def test_a_pin_that_came_while_the_session_was_read_is_the_later() -> None:
    overlay = Overlay()
    overlay.add(Pin(1024, "s", "backend-1"))
    before = overlay.pins()
    overlay.add(Pin(1024, "s", "backend-2"))
    assert overlay.over(session("s"), before) == session("s", backend="backend-2")

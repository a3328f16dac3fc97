from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.spool import frames as spool_frames
from storage.spool.frames import HEADER_SIZE, Damage, Frame, damage_behind, header, mark_of

MARK = b"\x01\x02\x03\x04\x05\x06\x07\x08"
frame = partial(spool_frames.frame, MARK)
bodies = st.lists(st.binary(max_size=60) | st.just(spool_frames.frame(b"another?", b"a frame")), max_size=5)


def frames(data: bytes, offset: int = 0) -> list[Frame | Damage]:
    return list(spool_frames.frames(MARK, data, offset))


@given(bodies)
def test_what_was_framed_is_read_up_to_the_zeros_behind_it(told: list[bytes]) -> None:
    data = b"".join(map(frame, told))
    assert [found.body for found in frames(data) if isinstance(found, Frame)] == told
    assert frames(data + bytes(100)) == frames(data)


@given(bodies)
def test_a_file_that_ends_anywhere_gives_the_frames_before_it_and_nothing_else(told: list[bytes]) -> None:
    data = b"".join(map(frame, told))
    whole = frames(data)
    for cut in range(len(data)):
        assert frames(data[:cut]) == [found for found in whole if found.end <= cut]
        torn = data[:cut] + bytes(len(data) - cut)
        assert frames(torn) == [found for found in whole if torn[: found.end] == data[: found.end]]


def test_any_byte_that_changed_costs_its_own_frame_alone_and_is_told() -> None:
    first, second, third = frame(b"first"), frame(b"second"), frame(b"third")
    data = first + second + third
    for at in range(len(first), len(first) + len(second)):
        damaged = data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :]
        assert frames(damaged) == [
            Frame(0, len(first), b"first"),
            Damage(len(first), len(first) + len(second)),
            Frame(len(first) + len(second), len(data), b"third"),
        ]


@given(st.binary(max_size=3 * 4096), st.integers(HEADER_SIZE, 2 * 4096))
def test_a_frame_that_was_cut_at_any_page_is_no_damage(body: bytes, offset: int) -> None:
    whole = frame(body)
    for page in range(0, offset + len(whole), 4096):
        written = whole[: max(0, page - offset)]
        assert damage_behind(MARK, written.ljust(4 * 4096, b"\0"), offset) == 0


@given(st.binary(max_size=60), st.integers(HEADER_SIZE, 2 * 4096 - 100))
def test_any_byte_of_a_last_frame_that_changed_is_damage(body: bytes, offset: int) -> None:
    whole = frame(body + b"its end")
    for at in range(len(whole)):
        changed = whole[:at] + bytes([whole[at] ^ 0x80]) + whole[at + 1 :]
        assert damage_behind(MARK, changed + bytes(4096), offset) == len(whole)


def test_reading_goes_on_where_it_stopped() -> None:
    data = frame(b"first") + frame(b"second")
    first, *rest = frames(data)
    assert frames(data[first.end :], offset=first.end) == rest


@pytest.mark.parametrize("size", range(HEADER_SIZE))
def test_a_file_whose_header_is_not_whole_has_no_mark(size: int) -> None:
    assert mark_of(header(MARK)) == MARK
    assert mark_of(header(MARK)[:size]) is None
    assert mark_of(bytes(HEADER_SIZE)) is None

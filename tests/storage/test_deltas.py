from __future__ import annotations

import random
from base64 import b64decode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.deltas import BadDelta, Encoder, begin_alike, common_prefix, decode

encode = Encoder().encode


def noise(length: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(length)


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=3000), st.none() | st.binary(max_size=3000))
def test_what_is_encoded_is_decoded(payload: bytes, base: bytes | None) -> None:
    assert decode(encode(payload, base), base) == payload


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 40_000), st.integers(0, 3000), st.binary(max_size=40))
def test_what_shares_a_beginning_is_decoded(prefix: int, length: int, inserted: bytes) -> None:
    base = noise(50_000, seed=1)
    payload = base[:prefix] + inserted + base[prefix + 10 : prefix + 10 + length]
    assert decode(encode(payload, base), base) == payload


@pytest.mark.parametrize("length", range(13))
def test_a_base_may_be_of_a_few_bytes(length: int) -> None:
    payload, base = noise(100, seed=1) * 20, noise(length, seed=2)
    assert decode(encode(payload, base), base) == payload


def test_a_growing_history_costs_its_new_part() -> None:
    base, new = noise(400_000, seed=1), noise(1_000, seed=2)
    assert len(encode(base + new, base)) < 1_100


def test_a_history_that_changed_near_its_start_costs_the_change() -> None:
    base = noise(400_000, seed=1)
    assert len(encode(base[:150] + b"Today is Saturday." + base[160:], base)) < 500


def test_of_a_history_of_megabytes_the_begin_is_not_forgotten() -> None:
    base = noise(6_000_000, seed=1)
    assert len(encode(base[:150] + b"Today is Saturday." + base[160:], base)) < 5_000_000


def test_a_compacted_history_costs_what_is_new_in_it() -> None:
    base, summary = noise(400_000, seed=1), noise(1_000, seed=2)
    assert len(encode(base[:5_000] + summary + base[300_000:], base)) < 1_500


def test_noise_is_not_made_longer_than_by_its_form() -> None:
    payload = noise(5_000, seed=1)
    assert len(encode(payload)) == len(encode(payload, noise(5_000, seed=2))) == 5_001


def test_a_difference_needs_its_base() -> None:
    base = noise(5_000, seed=1)
    blob = encode(base + b"more", base)
    for other in (None, b"", base[:100]):
        with pytest.raises(BadDelta):
            decode(blob, other)


@pytest.mark.parametrize("base", [None, bytes(range(256)) * 8])
def test_cut_bytes_are_an_error_of_their_own(base: bytes | None) -> None:
    payload = bytes(range(256)) * 8 + b"new words" * 100
    blob = encode(payload, base)
    for cut in range(len(blob)):
        with pytest.raises(BadDelta):
            decode(blob[:cut], base)


def test_an_unknown_form_is_an_error() -> None:
    with pytest.raises(BadDelta, match="unknown form"):
        decode(b"\x09abc")


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 40_000), st.binary(max_size=5))
def test_the_common_prefix_ends_where_the_two_differ(length: int, rest: bytes) -> None:
    base = noise(40_000, seed=1)
    found = common_prefix(base, base[:length] + rest)
    assert base[:found] == (base[:length] + rest)[:found]
    assert found >= length
    assert found == len(base) or found == length + len(rest) or base[found] != (base[:length] + rest)[found]


def test_a_call_made_again_costs_its_form() -> None:
    payload = noise(5_000, seed=1)
    for base in (payload, payload + b"more"):
        assert len(encode(payload, base)) < 20
        assert decode(encode(payload, base), base) == payload


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 5_000), st.binary(max_size=5_000), st.binary(max_size=5_000))
def test_two_begin_alike_that_share_more_than_half_of_the_shorter(shared: int, one: bytes, other: bytes) -> None:
    one, other = noise(shared, seed=1) + one, noise(shared, seed=1) + other
    assert begin_alike(one, other) == (common_prefix(one, other) > min(len(one), len(other)) // 2)


def test_a_few_floats_are_kept_as_they_are_and_many_alike_are_compressed() -> None:
    few, many = b"\0\0\x80\xbf" * 500, b"\0\0\x80\xbf" * 5_000
    assert len(Encoder().encode_floats(few)) == len(few) + 1
    assert len(Encoder().encode_floats(many)) < len(many) // 10
    for floats in (few, many):
        assert decode(Encoder().encode_floats(floats)) == floats


WRITTEN_BEFORE = {
    # As the program wrote them that had another library for zstd, and digested dictionaries.
    "whole": (
        b"ASi1L/1gmRJFDQDGWjAVoBtaA3CTn6NoqYrN3lJKmRIoV6VOPQAsABsARVEURVEUBEEQBEEQBHHOOeecc44xxhhjjDGllFJKKaUQ"
        b"QgghhBDy//+qqlpV1aggjilkAwhgIEA4KAAYAVVVVVVVVVVVVVVVPQg4ACwQGDQoJAgAGEIIIYT8/7+qqlZVNcYYY4wxRkURqqqq"
        b"qqqqqqqqqqqqqqqqqqqqqqqqqqqqqlVVAwkEAAQGDf////////////////////////////////8BgZCoIfT2mAMxRxJNGh8SuEKn"
        b"H/b//zfbFaG0pjI6wNJKS1oIVU1L+RNTm33k9+/v8sf2+Ds+x7/xNb6Mj/EvPou/4qP4E5/Ej/gh/sN3+Bs+w7fwK/wJH+E/+Aa/"
        b"4Cf4A7/AD/gC/H/f3/f7/H7f6/v5Ht+79/b+ek/vzXt5H+/D+3ff3bf77D5f9wSg4p8Cwg6paQlkMuYI+8fIJ+Tz+HR8Gh+Mz+JT"
        b"8Ul8dsS/xzS4WWHy4eCjhNHNwZkUpTYNPiqYfBz4KB2eMTNaRsm4MU6MhnEw8kWUVbM55zznrCfLqakG"
    ),
    "against a base": (
        b"AtwFAAAAAAAAwhAAACi1L/1gvQy1AwByBAgOwKXVRpo1inOrvmaqMwPBSKju////////JRhABtUJmzgg4JWtA5XIrQd4kEEBDzIo"
        b"8CCDAg+yUOBBBgUeZFDAgwwKPMigwIMMFHiQQYEHGRTwIIMCDzIo8CADBR5kUOBBBgU8yKAYeCFJGIhLLwj2aicB"
    ),
    "against its beginning": (
        b"AtAHAAAAAAAA0AcAACi1L/1gyQpdBgCWkBoSsKWQ4QckB0ySASGWMJlesQS4JAAJAA4AD8MwDMNSSimllFIIIYQQMjMzMzMzMzMz"
        b"Y4wxhhBCCCGEECQg//////////8PVVVVVVVVVVVVVdX//38CBAOAwUBBVVVVVVVVVVVVVVVVVVUBgP+oIL4BsJNy8hLYgr///78B"
        b"JgwVKgwZKgxZT2w5SzhLN0ts1sQQPhbXTDPNZKaZZlfLWeIwGxaGubAoTBMWhHmwGMyChWAOLAIzYAkw/5Xib8X5a4IYei0Psm9Z"
        b"EA=="
    ),
    "again": (b"ApkTAAAAAAAAAAAAAA=="),
}


@pytest.mark.parametrize("form", WRITTEN_BEFORE)
def test_what_an_earlier_program_wrote_is_read(form: str) -> None:
    base = b"".join(b"%d files, " % number for number in range(400))
    payload = base[:1500] + b"another way " * 60 + base[1500:] + b"the end"
    bases = {"against a base": base, "against its beginning": payload[:2000], "again": payload}
    assert decode(b64decode(WRITTEN_BEFORE[form]), bases.get(form)) == payload

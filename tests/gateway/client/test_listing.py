"""Lists are read page by page, end where nothing more comes, and say where to go on."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.client import calls
from gateway.client.listing import Listing, followed, listed
from gateway.client.values import Page

SOME: Page[Any] = Page(("a", "b"), "after-b", True)
MORE: Page[Any] = Page(("c",), "after-c", True)
END: Page[Any] = Page((), "after-c", True)


def walked(listing: Listing[Any], *pages: Page[Any]) -> list[tuple[Any, ...]]:
    """The items of these pages; each has to be asked for."""
    given = []
    for page in pages:
        assert listing.next_page() is not None
        given.append(listing.took(page))
    return given


def asked(listing: Listing[Any]) -> dict[str, str]:
    call = listing.next_page()
    assert call is not None
    return dict(call.params)


def test_a_tail_ends_where_its_cursor_stays() -> None:
    listing = listed(calls.groups, {})
    assert walked(listing, SOME, MORE, END) == [("a", "b"), ("c",), ()]
    assert listing.next_page() is None
    assert listing.cursor == "after-c"


def test_a_list_ends_without_a_cursor() -> None:
    listing = listed(calls.sessions, {})
    assert walked(listing, SOME, Page(("c",), None, True)) == [("a", "b"), ("c",)]
    assert listing.next_page() is None


def test_a_page_of_nothing_is_no_end_where_its_cursor_goes_on() -> None:
    listing = listed(calls.samples, {})
    walked(listing, Page((), "after-those-without-tokens", True), SOME)
    assert asked(listing)["cursor"] == "after-b"


def test_the_cursor_is_behind_what_was_given_out_whole() -> None:
    listing = listed(calls.samples, {"cursor": "before"})
    assert listing.cursor == "before"
    walked(listing, SOME)
    assert listing.cursor == "before"
    listing.next_page()
    assert listing.cursor == "after-b"


def test_only_the_first_page_is_waited_for() -> None:
    listing = listed(calls.groups, {"wait": 30, "run": "r1"})
    assert asked(listing) == {"run_id": "r1", "wait": "30"}
    listing.took(SOME)
    assert asked(listing) == {"run_id": "r1", "cursor": "after-b"}


def test_a_list_that_is_followed_waits_at_its_end() -> None:
    listing = followed(calls.groups, {}, idle=None)
    walked(listing, SOME, Page((), "after-b", True))
    assert asked(listing) == {"cursor": "after-b", "wait": "30.0"}
    walked(listing, MORE, END)
    assert asked(listing) == {"cursor": "after-c", "wait": "30.0"}


def test_a_list_that_is_followed_ends_after_so_long_without_news() -> None:
    listing = followed(calls.groups, {"wait": 20}, idle=0)
    assert asked(listing) == {}
    listing.took(SOME)
    assert listing.next_page() is None


def test_a_list_that_lacked_something_says_so() -> None:
    listing = listed(calls.groups, {})
    walked(listing, Page(("a",), "after-a", False), Page(("b",), None, True))
    assert listing.complete is False


@pytest.mark.parametrize(
    ("filters", "params"),
    [
        ({"run": "r1", "complete": True}, {"run_id": "r1", "require": "complete"}),
        ({"complete": False, "aux": True}, {"aux": "true"}),
        ({"status": ["finished", "failed"], "page_size": 3}, {"status": "finished,failed", "limit": "3"}),
    ],
)
def test_keywords_become_parameters(filters: dict[str, Any], params: dict[str, str]) -> None:
    assert asked(listed(calls.samples, filters)) == {"shape": "packed", "limit": "16", **params}

"""Where a reader of a list is: which page to ask for next, and when there is no more."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

from gateway.client.call import Call
from gateway.client.values import Page

Item = TypeVar("Item")

PageCall: TypeAlias = Callable[[str | None, float], Call[Page[Item]]]
"""The call for the page behind a cursor, that waits so many seconds for it to have something."""

_WAIT: Final = 30.0
"""Seconds of one call of a list that is followed."""


class Listing(Generic[Item]):
    """Pages one after another, each asked for when the one before has been given out. Without a call: none.

    A list that is followed has no end: it waits for what comes, until `idle` seconds have brought nothing.
    """

    def __init__(
        self,
        page: PageCall[Item] | None,
        *,
        cursor: str | None = None,
        wait: float = 0.0,
        follow: bool = False,
        idle: float | None = None,
    ) -> None:
        self._page = page
        self._wait = wait
        self._follow = follow
        self._idle = idle
        self._news = time.monotonic()
        self._ahead = cursor
        self.cursor = cursor
        self.complete = True

    def next_page(self) -> Call[Page[Item]] | None:
        """The call for it; null at the end."""
        self.cursor = self._ahead
        return None if self._page is None else self._page(self.cursor, self._wait)

    def took(self, page: Page[Item]) -> tuple[Item, ...]:
        """The items of the page that came."""
        # A list that can grow has a cursor at its end too: the one that it was asked for.
        at_end = page.next is None or page.next == self.cursor
        self._ahead = page.next or self.cursor
        self.complete = self.complete and page.complete
        if page.items:
            self._news = time.monotonic()
        if self._over() if self._follow else at_end:
            self._page = None
        if not self._follow:
            self._wait = 0.0
        return page.items

    def _over(self) -> bool:
        return self._idle is not None and time.monotonic() - self._news >= self._idle


def listed(pages: Callable[[Mapping[str, Any]], PageCall[Item]], filters: Mapping[str, Any]) -> Listing[Item]:
    """What there is now."""
    page, cursor, wait = _parted(pages, filters)
    return Listing(page, cursor=cursor, wait=wait or 0.0)


def followed(
    pages: Callable[[Mapping[str, Any]], PageCall[Item]], filters: Mapping[str, Any], idle: float | None
) -> Listing[Item]:
    """What there is now, and what comes."""
    page, cursor, wait = _parted(pages, filters)
    patience = _WAIT if wait is None else wait
    return Listing(page, cursor=cursor, wait=patience if idle is None else min(patience, idle), follow=True, idle=idle)


def _parted(
    pages: Callable[[Mapping[str, Any]], PageCall[Item]], filters: Mapping[str, Any]
) -> tuple[PageCall[Item], str | None, float | None]:
    """What stays the same from page to page, and what does not."""
    same = {name: value for name, value in filters.items() if name not in ("cursor", "wait")}
    return pages(same), filters.get("cursor"), filters.get("wait")


class Listed(Generic[Item]):
    """A list, page by page as it is walked through. After an error the walk can go on where it was."""

    def __init__(self, listing: Listing[Item]) -> None:
        self._listing = listing
        self._held: deque[Item] = deque()
        """Of the page that came last, what is not given out."""

    @property
    def cursor(self) -> str | None:
        """Where another list goes on: behind the last page that was given out whole."""
        return self._listing.cursor

    @property
    def complete(self) -> bool:
        """False once a page lacked something that is still on its way to the database."""
        return self._listing.complete

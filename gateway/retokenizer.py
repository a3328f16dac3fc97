"""Ids and counts for backends that give text alone: made in a thread, under a time limit, and marked as made."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from adapters.request import CanonicalRequest
from adapters.retokenize import Encoder, retokenize
from adapters.schema import Completion
from adapters.token_ids import TokenIds
from gateway.text_encoder import TextEncoder, TokenizerUnavailable

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Retokenizer:
    """The tokenizers that the backends' settings name, each loaded once, when it is first needed.

    `load_timeout` and `timeout` are seconds for a load and for one answer. What takes longer goes on in its thread
    and is not waited for: the trace says that it has no ids, and why.
    """

    def __init__(
        self, load: Callable[[str], Encoder] = TextEncoder.load, *, load_timeout: float = 60.0, timeout: float = 5.0
    ) -> None:
        self._load = load
        self._load_timeout = load_timeout
        self._timeout = timeout
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="tokenizer")
        self._encoders: dict[str, asyncio.Future[Encoder]] = {}

    async def warm(self, tokenizers: Iterable[str]) -> None:
        """Load these, so that no call has to wait for it. Raises TokenizerUnavailable.

        One that failed before is tried anew, which calls don't do: its folder may be there by now.
        """
        for tokenizer in dict.fromkeys(tokenizers):
            known = self._encoders.get(tokenizer)
            if known is not None and known.done() and (known.cancelled() or known.exception() is not None):
                del self._encoders[tokenizer]
            await self._encoder(tokenizer)

    async def completion(self, tokenizer: str, request: CanonicalRequest, completion: Completion) -> Completion:
        """The completion with ids and counts made from its text, or with the reason why there are none.

        As it is where the engine told ids itself.
        """
        if not completion.choices or any(choice.token_ids is not None for choice in completion.choices):
            return completion
        try:
            encoder = await self._encoder(tokenizer)
            made = self._in_thread(lambda: retokenize(completion, request, encoder))
            return await asyncio.wait_for(asyncio.shield(made), self._timeout)
        except TokenizerUnavailable as exc:
            why = str(exc)
        except TimeoutError:
            why = f"the tokenizer {tokenizer} took longer than {self._timeout:g} s"
        except ValueError as exc:
            why = f"the tokenizer {tokenizer}: {exc}"
        why = f"no ids could be made from the text: {why}"
        return replace(completion, anomalies=(*completion.anomalies, why[:500]))

    async def prompt_tokens(self, tokenizer: str, request: CanonicalRequest) -> int | None:
        """How long the request's prompt is; None where this tokenizer can't tell."""
        try:
            encoder = await self._encoder(tokenizer)
            ids = self._in_thread(lambda: encoder.prompt(request, 0))
            return len(await asyncio.wait_for(asyncio.shield(ids), self._timeout))
        except (TokenizerUnavailable, TimeoutError, ValueError) as exc:
            logger.warning("the tokenizer %s could not count a prompt: %s", tokenizer, exc)
            return None

    async def decoder(self, tokenizer: str) -> Callable[[TokenIds], str]:
        """What makes text of ids; it blocks. Raises TokenizerUnavailable."""
        return (await self._encoder(tokenizer)).decode

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _encoder(self, tokenizer: str) -> Encoder:
        encoder = self._encoders.get(tokenizer)
        if encoder is None:
            encoder = self._encoders[tokenizer] = self._in_thread(lambda: self._load(tokenizer))
            encoder.add_done_callback(lambda loaded: _log(tokenizer, loaded))
        try:
            return await asyncio.wait_for(asyncio.shield(encoder), self._load_timeout)
        except TimeoutError:
            raise TokenizerUnavailable(
                f"the tokenizer {tokenizer} was not loaded within {self._load_timeout:g} s"
            ) from None

    def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work)


def _log(tokenizer: str, loaded: asyncio.Future[Encoder]) -> None:
    if not loaded.cancelled() and (error := loaded.exception()) is not None:
        logger.error("no ids from the text of backends with the tokenizer %s: %s", tokenizer, error)

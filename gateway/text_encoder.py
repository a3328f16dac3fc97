"""A model's own tokenizer and chat template, through `transformers`: from files of this machine, without their code."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from adapters.request import CanonicalRequest
from adapters.schema import Choice
from adapters.token_ids import TokenIds
from gateway import template_input

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_ENDED_BY_ITSELF: Final = ("stop", "tool_calls")


class TokenizerUnavailable(Exception):
    """There is no tokenizer to load, or nothing to load it with. Says what to do about it."""


class TextEncoder:
    """Renders requests and replies as the model's template would. Blocking, and safe to use from several threads."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._lock = Lock()
        self._render: Callable[..., object] = tokenizer.apply_chat_template
        # An agent's template arguments must not name the renderer's own: it takes no template from a request.
        self._reserved = frozenset(inspect.signature(tokenizer.apply_chat_template).parameters) | {"messages"}

    @classmethod
    def load(cls, path: str) -> TextEncoder:
        """Raises TokenizerUnavailable."""
        try:
            import jinja2  # noqa: F401 (transformers asks for it only when it renders)
            from transformers import AutoTokenizer
        except ImportError as exc:
            raise TokenizerUnavailable(
                f"the tokenizer {path} needs transformers: pip install 'rollout-gateway[tokenizers]'"
            ) from exc
        if not Path(path).exists():
            raise TokenizerUnavailable(f"the tokenizer {path} is no folder of this machine; nothing is downloaded")
        try:
            return cls(AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False))
        except (OSError, ValueError, KeyError, TypeError) as exc:
            raise TokenizerUnavailable(f"the tokenizer {path} cannot be loaded: {exc}") from exc

    def prompt(self, request: CanonicalRequest, index: int) -> TokenIds:
        """Raises ValueError for what cannot be rendered."""
        if request.prompt_token_ids is not None:
            return request.prompt_token_ids[index]
        if request.endpoint == "chat":
            return self._ids(self._rendered(request))
        return self._ids(template_input.prompt(request, index), special=True)

    def reply(self, request: CanonicalRequest, choice: Choice) -> TokenIds:
        """Raises ValueError for what cannot be rendered."""
        said = self._said(request, choice) if request.endpoint == "chat" else choice.text or ""
        if self._tokenizer.eos_token and choice.finish_reason in _ENDED_BY_ITSELF and choice.stop_reason is None:
            said += str(self._tokenizer.eos_token)
        return self._ids(said)

    def decode(self, ids: TokenIds) -> str:
        """The text of ids, special tokens included; of one that is out of the vocabulary, none."""
        with self._lock:
            return str(self._tokenizer.decode(ids.tolist(), clean_up_tokenization_spaces=False))

    def _said(self, request: CanonicalRequest, choice: Choice) -> str:
        """What the template writes for the reply, without its end: the rendered chat with it, less the one without."""
        before = self._rendered(request)
        chat = self._rendered(request, reply=template_input.reply(choice))
        if not chat.startswith(before):
            if choice.tool_calls or choice.reasoning:
                raise ValueError("the template renders a chat with its reply otherwise than without")
            return choice.text or ""
        said = chat.removeprefix(before)
        eos = str(self._tokenizer.eos_token or "")
        return said[: said.rindex(eos)] if eos and eos in said else said

    def _rendered(self, request: CanonicalRequest, reply: template_input.Message | None = None) -> str:
        from jinja2 import TemplateError

        messages = template_input.messages(request)
        try:
            return str(
                self._render(
                    [*messages, reply] if reply is not None else messages,
                    tools=template_input.tools(request),
                    add_generation_prompt=reply is None,
                    tokenize=False,
                    **template_input.switches(request, self._reserved),
                )
            )
        except (TemplateError, TypeError, KeyError, AttributeError) as exc:
            raise ValueError(f"the chat template cannot render this: {exc}") from exc

    def _ids(self, text: str, *, special: bool = False) -> TokenIds:
        # Fast tokenizers raise «Already borrowed» where two threads use one.
        with self._lock:
            return TokenIds(self._tokenizer.encode(text, add_special_tokens=special))

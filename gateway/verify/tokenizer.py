"""The model's own tokenizer, from files of this machine; nothing is downloaded and no code of theirs is run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from adapters.token_ids import TokenIds
from gateway.commands.errors import WrongUse

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class LocalTokenizer:
    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer

    def decode(self, ids: TokenIds) -> str:
        return str(self._tokenizer.decode(ids.tolist(), skip_special_tokens=True, clean_up_tokenization_spaces=False))


def load(path: str) -> LocalTokenizer:
    """Raises WrongUse."""
    if not Path(path).is_dir():
        raise WrongUse(f"--tokenizer {path}: there is no such folder; it is never downloaded")
    try:
        from transformers import AutoTokenizer
    except ImportError as exc:
        raise WrongUse("--tokenizer needs transformers: pip install 'rollout-gateway[tokenizers]'") from exc
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError) as exc:
        raise WrongUse(f"--tokenizer {path}: {exc}") from exc
    return LocalTokenizer(tokenizer)

"""A model's own tokenizer from a folder, as `transformers` reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from adapters.token_ids import TokenIds
from gateway.commands.errors import CommandFailed
from gateway.verify.tokenizer import load


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer = Tokenizer(models.WordLevel({"Hello": 0, "Ġthere": 1, "<end>": 2}, unk_token="<end>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(tmp_path)
    return tmp_path


def test_ids_are_decoded_without_special_tokens(folder: Path) -> None:
    assert load(str(folder)).decode(TokenIds([0, 1, 2])) == "Hello there"


def test_a_folder_without_a_tokenizer_is_said_in_a_sentence(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(CommandFailed, match="--tokenizer") as caught:
            load(str(path))
        assert caught.value.exit_status == 2

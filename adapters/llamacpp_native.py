"""llama.cpp's own `/completion`: its bodies and frames in the shape of a completion, to be read as one.

The gateway plans no call there; what was called by other means can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from msgspec import Raw

from adapters.answer_shape import Chunk, ChunkChoice, WholeAnswer
from adapters.raw import NULL, TRUE, Fields, join_object, text, told

_FINISH: Final = {"eos": b'"stop"', "word": b'"stop"', "limit": b'"length"'}
_ZERO: Final = Raw(b"0")


def native_chunk(chunk: Chunk) -> Chunk:
    """The chunk; of a native frame the choice that it is."""
    if not _is_native(chunk.root):
        return chunk
    return Chunk(_root(chunk.root), (ChunkChoice(0, _choice(chunk.root)),), chunk.error, chunk.odd)


def native_answer(answer: WholeAnswer) -> WholeAnswer:
    """The answer; of a native body the one choice that it is."""
    if not _is_native(answer.root):
        return answer
    return replace(answer, root=_root(answer.root), choices=({"index": _ZERO, **_choice(answer.root)},))


def _is_native(root: Mapping[str, Raw]) -> bool:
    return "choices" not in root and told(root.get("content")) and "stop" in root


def _choice(frame: Mapping[str, Raw]) -> Fields:
    choice: Fields = {"text": frame["content"]}
    if told(tokens := frame.get("tokens")):
        choice["tokens"] = tokens
    if told(entries := frame.get("completion_probabilities")):
        choice["logprobs"] = Raw(join_object({"content": entries}))
    if frame.get("stop") == TRUE:
        kind = text(frame.get("stop_type")) or "none"
        choice["finish_reason"] = Raw(_FINISH.get(kind, b"null"))
        choice["stop_reason"] = frame.get("stopping_word", NULL) if kind == "word" else NULL
    return choice


def _root(frame: Mapping[str, Raw]) -> Fields:
    root: Fields = {"model": frame["model"]} if "model" in frame else {}
    if frame.get("stop") == TRUE:
        # Frames count as they go; the count of a stream that was cut would agree with what came of it.
        named = {"prompt_tokens": "tokens_evaluated", "completion_tokens": "tokens_predicted"}
        root["usage"] = Raw(join_object({name: frame.get(theirs, NULL) for name, theirs in named.items()}))
    return root

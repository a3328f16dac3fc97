"""vLLM's answers on its other two surfaces: `/v1/messages`, which has no ids, and `/v1/responses` with raw tokens.

The gateway plans neither; they are read for those who record them elsewhere.
"""

from __future__ import annotations

from typing import Final

import msgspec

from adapters.answer_shape import WholeAnswer
from adapters.plan import Plan
from adapters.raw import NotJSON, decode, text, told
from adapters.schema import Choice, Completion, Usage
from adapters.token_ids import TokenIds

_FINISH: Final = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"}


class _Part(msgspec.Struct, frozen=True):
    text: str = ""
    thinking: str = ""


class _Item(msgspec.Struct, frozen=True):
    type: str | None = None
    content: list[_Part] = []


class _Raw(msgspec.Struct, frozen=True):
    tokens: list[int] = []


class _Usage(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None


_parts: Final = msgspec.json.Decoder(list[_Part])
_items: Final = msgspec.json.Decoder(list[_Item])
_raws: Final = msgspec.json.Decoder(list[_Raw])
_usage: Final = msgspec.json.Decoder(_Usage)


def read_surface(answer: WholeAnswer, plan: Plan) -> Completion | None:
    """The answer of another surface, or None when this is not one."""
    root = answer.root
    try:
        if text(root.get("type")) == "message" and told(content := root.get("content")):
            parts = decode(content, _parts)
            choice = Choice(
                0,
                text="".join(part.text for part in parts),
                reasoning="".join(part.thinking for part in parts) or None,
                finish_reason=_FINISH.get(text(root.get("stop_reason")) or "", text(root.get("stop_reason"))),
            )
            return _completion(answer, choice, None)
        if text(root.get("object")) == "response" and told(output := root.get("output")):
            items = decode(output, _items)
            choice = Choice(
                0,
                token_ids=_tokens(answer, "output_messages"),
                text="".join(part.text for item in items if item.type == "message" for part in item.content),
                reasoning="".join(part.text for item in items if item.type == "reasoning" for part in item.content)
                or None,
                finish_reason="stop" if text(root.get("status")) == "completed" else "length",
            )
            return _completion(answer, choice, _tokens(answer, "input_messages"))
    except NotJSON as exc:
        return Completion(error=answer.error, anomalies=(*answer.anomalies, str(exc)))
    return None


def _completion(answer: WholeAnswer, choice: Choice, prompt: TokenIds | None) -> Completion:
    counted = decode(raw, _usage) if told(raw := answer.root.get("usage")) else None
    return Completion(
        choices=(choice,),
        prompt_token_ids=prompt,
        served_model=text(answer.root.get("model")),
        usage=None if counted is None else Usage(counted.input_tokens, counted.output_tokens),
        source="output_messages[].tokens" if choice.token_ids is not None else None,
        error=answer.error,
        anomalies=answer.anomalies,
    )


def _tokens(answer: WholeAnswer, name: str) -> TokenIds | None:
    raw = answer.root.get(name)
    if not told(raw):
        return None
    try:
        return TokenIds(token for message in decode(raw, _raws) for token in message.tokens)
    except ValueError as exc:
        raise NotJSON(str(exc)) from exc

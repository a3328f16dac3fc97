"""What an engine says of its weights, and what stands where it has no name for them."""

from __future__ import annotations

from adapters.detect import Reply
from adapters.engines import Configured, identify
from adapters.schema import Choice, Completion, WeightSpan
from adapters.weights import latest, named


def choice(*spans: tuple[str, int, int], index: int = 0) -> Choice:
    return Choice(index, weight_versions=tuple(WeightSpan(*span) for span in spans) or None)


def test_spans_without_a_name_have_the_one_that_is_known() -> None:
    choices = (choice(("default", 0, 4), ("v2", 4, 6)), choice(("default", 0, 3), index=1), choice(index=2))
    assert named(choices, "v1") == (choice(("v1", 0, 4), ("v2", 4, 6)), choice(("v1", 0, 3), index=1), choice(index=2))
    assert named(choices, None) is choices
    told = (choice(("v2", 0, 4)),)
    assert named(told, "v1") is told


def test_the_latest_version_is_the_one_of_the_end() -> None:
    assert latest(Completion((choice(("v1", 0, 4), ("v2", 4, 6)),))) == "v2"
    assert latest(Completion((choice(),), weight_version="v3")) == "v3"
    assert latest(Completion((choice(),))) is None
    assert latest(Completion((choice(),), weight_version="default")) is None
    assert latest(Completion((choice(("v1", 0, 4)), choice(("v2", 0, 4), index=1)))) is None


def test_a_server_says_its_weights_when_it_is_asked_what_it_is() -> None:
    replies = {
        "/v1/models": Reply(200, {}, b'{"data":[{"id":"m","owned_by":"sglang"}]}'),
        "/server_info": Reply(200, {}, b'{"version":"0.5.23","internal_states":[]}'),
        "/model_info": Reply(200, {}, b'{"model_path":"m","weight_version":"step-7"}'),
    }
    assert identify(replies, Configured()).weight_version == "step-7"
    assert identify(replies, Configured(version="0.5.23")).weight_version == "step-7"
    assert identify({**replies, "/model_info": Reply(500)}, Configured()).weight_version is None

"""A long session takes little of the disk, whatever its agent does to the history, and is read back whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.long_sessions import FORMS, TOKENS, TURNS, Form
from benchmarks.sizes import as_documents, record, size_of
from benchmarks.storage import Corpus
from tests.postgres import Postgres

LEAST_RATIO = 15


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'rollouts.db'}"
    postgres = request.getfixturevalue("postgres")
    assert isinstance(postgres, Postgres)
    return postgres.database()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
async def test_a_long_session_takes_a_fifteenth_of_its_json_and_is_read_back_as_it_was(form: Form, place: str) -> None:
    traces = list(form(Corpus.read(), "long"))
    last = traces[-1]
    assert len(traces) == TURNS
    assert TOKENS * 0.97 < len(last.prompt_token_ids or ()) + len(last.choices[0].token_ids or ()) < TOKENS * 1.03
    await record(place, [])
    before = size_of(place)
    found = await record(place, traces)
    kept = [replace(one, turn=None, parent_trace_id=None, parent_index=None) for one in found]
    assert kept == traces
    assert LEAST_RATIO * (size_of(place) - before) < as_documents(traces)

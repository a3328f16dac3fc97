"""Rows as a trainer reads them over HTTP."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from storage.formats.shapes import SHAPES
from storage.samples.sample import Sample
from tests.storage.formats.examples import TOOL_SAMPLE, as_json
from tests.storage.formats.trainers.back import MOE_SAMPLE

PLAIN = TOOL_SAMPLE
MOE = MOE_SAMPLE
BRANCH = replace(TOOL_SAMPLE, branch=1, reward=0.25)


def rows(shape: str, *samples: Sample) -> list[dict[str, Any]]:
    return [as_json(row) for row in SHAPES[shape].rows(samples)]

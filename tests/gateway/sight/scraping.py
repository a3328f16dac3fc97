"""A gateway's metrics as a scrape has them."""

from __future__ import annotations

from typing import TypeAlias

import httpx
from prometheus_client.parser import text_string_to_metric_families

Numbers: TypeAlias = dict[str, float]


async def scraped(agent: httpx.AsyncClient) -> Numbers:
    """By the sample's own text: `name{label="value"}`, labels in their order, without the prefix that all have."""
    answer = await agent.get("/metrics")
    assert answer.status_code == 200, answer.text
    return numbers_of(answer.text)


def numbers_of(text: str) -> Numbers:
    told: Numbers = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            name = sample.name.removeprefix("rollout_gateway_")
            told[f"{name}{{{labels}}}" if labels else name] = sample.value
    return told

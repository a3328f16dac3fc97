"""GRPO in small: 8 rollouts a prompt, rewarded, claimed by complete group, one batch a group. docs/grpo.md explains it.

rollout-gateway demo --serve --port 9090
python docs/grpo.py http://127.0.0.1:9090
"""

# ruff: noqa: T201

import json
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import numpy as np
from openai import OpenAI

from gateway.client import Client, Sample

GROUP_SIZE = 8
PROMPTS = {"weather": "What is the weather in Paris and in London?", "clothes": "Paris or London: where is it warmer?"}
WEATHER = {"Paris": "18 °C and sunny", "London": "11 °C and rain"}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


def agent(base_url: str, key: str, model: str, prompt: str) -> str:
    """Any program that speaks to a `base_url`. A scripted model never varies, so here the agent's patience does."""
    messages = [{"role": "user", "content": prompt}]
    with OpenAI(base_url=base_url, api_key=key) as openai:
        for _ in range(random.randint(1, 3)):
            message = openai.chat.completions.create(model=model, messages=messages, tools=[TOOL]).choices[0].message
            messages.append(message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True))
            for call in message.tool_calls or ():
                weather = WEATHER[json.loads(call.function.arguments)["city"]]
                messages.append({"role": "tool", "tool_call_id": call.id, "content": weather})
    return message.content or ""


def rollout(client: Client, run: str, group: str, model: str) -> None:
    with client.session(run=run, group=group, group_size=GROUP_SIZE) as s:
        answer = agent(s.base_url, s.key, model, PROMPTS[group])
        s.reward(sum(city in answer for city in WEATHER) / len(WEATHER), name="cities")
        s.reward(float(len(answer)), name="length", weight=0)  # Watched, and no part of the sum.


def advantages(samples: list[Sample]) -> np.ndarray:
    """One for each row: its session's reward among those of its group. A session of many rows counts once."""
    rewards = {sample.session_id: sample.reward for sample in samples}
    values = np.array(list(rewards.values()), dtype=np.float32)
    return np.array([(sample.reward - values.mean()) / (values.std() + 1e-6) for sample in samples], dtype=np.float32)


def batch(samples: list[Sample]) -> dict[str, np.ndarray]:
    """Rows of one length, padded on the right: what a trainer's loss takes."""
    rows, length = len(samples), max(map(len, samples))
    ids, mask, logprobs = (np.zeros((rows, length), dtype) for dtype in (np.int32, np.int8, np.float32))
    for row, sample in enumerate(samples):
        ids[row, : len(sample)], mask[row, : len(sample)] = sample.token_ids, sample.mask
        logprobs[row, : len(sample)] = sample.logprobs
    weights = np.array([sample.weight for sample in samples], dtype=np.float32)  # Rows of one session share 1.
    return {"token_ids": ids, "logprobs": logprobs, "advantages": (advantages(samples) * weights)[:, None] * mask}


def main(url: str) -> None:
    run = f"grpo-{uuid4().hex[:8]}"
    with Client(url) as client, ThreadPoolExecutor(GROUP_SIZE) as threads:  # Elsewhere: processes, other machines.
        model = client.backends()[0].models[0]
        rollouts = [threads.submit(rollout, client, run, group, model) for group in PROMPTS for _ in range(GROUP_SIZE)]
        for _ in PROMPTS:
            with client.claim(run=run, unit="group", wait=60) as work:
                if samples := list(work.samples()):  # None if a minute brought no group, or one of unknown tokens.
                    shapes = {name: array.shape for name, array in batch(samples).items()}
                    print(f"{work.group_ids[0]}: rewards {[round(float(s.reward), 2) for s in samples]}, {shapes}")
        for each in rollouts:
            each.result()  # Raises what went wrong in it; its session is `failed`.


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A worker for the real Dynamo frontend: answers the last user message from a table, with real ids and logprobs.

The frontend does the rest: it renders the template, detokenises, cuts at stop strings and parses tools and reasoning.
Dynamo's own frame for workers (`dynamo.common.backend`) ends a call with its first choice, so this one does without.
    python dynamo_scripted.py --model-path DIR --model-name tiny [--worker vllm|sglang] [--burst N] [--delay SECONDS]
"""

import argparse
import asyncio
import json
import os
import signal

from dynamo.common.backend.logprobs import parse_logprob_options
from dynamo.llm import ModelInput, ModelRuntimeConfig, ModelType, WorkerType, register_model
from dynamo.runtime import DistributedRuntime
from tokenizers import Tokenizer

END_OF_TURN, END_OF_TEXT = 151645, 151643


def call(name, arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


PARIS = call("get_weather", {"city": "Paris"})
TOKYO = call("get_weather", {"city": "Tokyo"})
# The first whose words stand in the prompt since its last user message.
ANSWERS = (
    ("</tool_response>", "It is 21 degrees in Paris."),
    ("What is the weather in Paris and Tokyo?", f"{PARIS}\n{TOKYO}"),
    ("Think, then check", f"<think>\nI should call the tool.\n</think>\n\nLet me check.\n{PARIS}"),
    ("What is the weather in Paris?", PARIS),
    ("broken tool call", '<tool_call>\n{"name": "get_weather", "arguments": {"city": \n</tool_call>'),
    ("Think first", "<think>\nTwo plus two makes four.\n</think>\n\nThe answer is 4."),
    ("emoji", "Voilà 🙂 naïve 你好世界 👩‍🔬 done."),
    ("Count to thirty", " ".join(map(str, range(1, 31)))),
    ("Say hello", "Hello! I am a tiny scripted model."),
    ("Once upon a time", " there was a tiny model."),
    ("The quick brown fox", " jumps over the lazy dog."),
)


def logprob(token_id, rank=0):
    return round(-0.001 * (token_id % 997) - 1e-4 - rank, 6)


class Scripted:
    """Its `generate` is what the frontend calls with the prompt's ids."""

    def __init__(self, options):
        self.delay, self.burst, self.engine = options.delay, options.burst, options.worker
        self.tokenizer = Tokenizer.from_file(f"{options.model_path}/tokenizer.json")

    async def generate(self, request, context):
        prompt = list(request.get("token_ids") or [])
        sampled, finish = self.answer(prompt, request.get("stop_conditions") or {})
        tops, _ = parse_logprob_options(request.get("output_options") or {})
        choices = int((request.get("sampling_options") or {}).get("n") or 1)
        told = 0
        for begin in range(0, len(sampled), self.burst):
            part = sampled[begin : begin + self.burst]
            await asyncio.sleep(self.delay)
            for index in range(choices):
                if context.is_stopped():
                    yield {"token_ids": [], "index": index, "finish_reason": "cancelled", **usage(prompt, told)}
                    return
                told += len(part)
                chunk = {"token_ids": part, "index": index}
                if tops is not None:
                    chunk["log_probs"] = [logprob(token_id) for token_id in part]
                    # vLLM's worker names the sampled token even where no alternatives are asked; SGLang's names none.
                    if tops or self.engine == "vllm":
                        chunk["top_logprobs"] = [self.ranked(token_id, max(1, tops)) for token_id in part]
                if begin + self.burst >= len(sampled):
                    data = {"weight_version": "w-7"}
                    if self.engine == "vllm":  # SGLang's worker tells no ids here.
                        data |= {"completion_token_ids": sampled, "prompt_token_ids": prompt}
                    chunk |= {"finish_reason": finish, "engine_data": data, **usage(prompt, told)}
                yield chunk

    def answer(self, prompt, stop):
        """The ids to give, as far as `max_tokens` lets, and why they end."""
        text = self.tokenizer.decode(prompt, skip_special_tokens=False)
        chat = "<|im_start|>" in text
        said = text[max(0, text.rfind("<|im_start|>user")) :]
        answer = next((answer for words, answer in ANSWERS if words in said), "I do not know.")
        sampled = self.tokenizer.encode(answer, add_special_tokens=False).ids
        sampled.append(END_OF_TURN if chat else END_OF_TEXT)
        limit = stop.get("max_tokens") or 4096
        if stop.get("ignore_eos"):
            return (sampled[:-1] * 2000)[:limit], "length"
        return sampled[:limit], "length" if len(sampled) > limit else "stop"

    def ranked(self, token_id, count):
        return [
            {
                "rank": rank + 1,
                "token_id": token_id + rank,
                "token": self.tokenizer.decode([token_id + rank], skip_special_tokens=False),
                "logprob": logprob(token_id, rank),
            }
            for rank in range(count)
        ]


def usage(prompt, completion):
    counted = {"prompt_tokens": len(prompt), "completion_tokens": completion}
    return {"completion_usage": {**counted, "total_tokens": len(prompt) + completion}}


async def serve(options):
    loop = asyncio.get_running_loop()
    runtime = DistributedRuntime(loop, os.environ.get("DYN_DISCOVERY_BACKEND", "file"), "tcp", event_plane="zmq")
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runtime.shutdown)
    endpoint = runtime.endpoint("dynamo.backend.generate")
    parsers = ModelRuntimeConfig()
    parsers.context_length = 2048
    parsers.tool_call_parser = options.tool_call_parser
    parsers.reasoning_parser = options.reasoning_parser
    await register_model(
        ModelInput.Tokens,
        ModelType.Chat | ModelType.Completions,
        endpoint,
        options.model_path,
        options.model_name,
        worker_type=WorkerType.Aggregated,
        kv_cache_block_size=16,
        runtime_config=parsers,
    )
    await endpoint.serve_endpoint(Scripted(options).generate)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-path", required=True)
    parser.add_argument("--model-name", default="tiny")
    parser.add_argument("--delay", type=float, default=0.002, help="seconds before each chunk")
    parser.add_argument("--burst", type=int, default=1, help="ids in each chunk")
    parser.add_argument("--worker", choices=("vllm", "sglang"), default="vllm", help="whose engine_data to give")
    parser.add_argument("--tool-call-parser")
    parser.add_argument("--reasoning-parser")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()

from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from tests.trainers.rows import BRANCH, PLAIN, rows

IDS = {"<eos>": 0} | {f"w{number}": number for number in range(1, 32)}


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(WordLevel(IDS, unk_token="<eos>"))
    return PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<eos>", pad_token="<eos>")


def model() -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    return Qwen2ForCausalLM(
        Qwen2Config(vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1, **heads)
    )


def test_grpo_trains_a_step_on_rows_as_they_come(tmp_path: Path) -> None:
    told: dict[str, Any] = {}

    def rollouts(prompts: list[Any], trainer: GRPOTrainer) -> dict[str, list[Any]]:
        given = rows("trl", PLAIN, BRANCH)
        return {name: [row[name] for row in given] for name in given[0]}

    def judged(completions: list[Any], reward: list[float], **columns: Any) -> list[float]:
        told.update(columns)
        return reward

    trainer = GRPOTrainer(
        model=model(),
        processing_class=tokenizer(),
        reward_funcs=judged,
        rollout_func=rollouts,
        train_dataset=Dataset.from_dict({"prompt": ["w1 w2"] * 2}),
        args=GRPOConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=2,
            num_generations=2,
            max_steps=1,
            report_to=[],
            use_cpu=True,
            bf16=False,
            save_strategy="no",
            logging_steps=1,
        ),
    )
    trainer.train()
    logged = trainer.state.log_history[0]
    assert logged["rewards/judged/mean"] == 0.5
    assert logged["completions/mean_length"] == 5  # What the mask trains; not the tool's two ids.
    assert told["session_id"] == ["math-17", "math-17"]
    assert told["weight"] == [0.5, 0.5]

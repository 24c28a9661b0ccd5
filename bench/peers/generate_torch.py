"""Greedy decoding with a key/value cache by a random T5 or GPT-2 in PyTorch: the peer of
bench/generate.lua.

    generate_torch.py MODEL BATCH SOURCE NEW

Reads a line, makes NEW tokens behind SOURCE ones for each of BATCH rows, prints the seconds of CPU
time: f32, one thread. No token ends an answer.
"""
import sys
import time

import torch
from transformers import GPT2LMHeadModel, T5ForConditionalGeneration

from sizes import SIZES

CLASSES = {"t5": T5ForConditionalGeneration, "gpt2": GPT2LMHeadModel}


def main():
    name, batch, source, new = sys.argv[1], *map(int, sys.argv[2:5])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    config = SIZES[name]
    model = CLASSES[config.model_type](config).eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    ids = torch.randint(2, config.vocab_size, (batch, source))
    for _ in sys.stdin:
        start = time.process_time()
        rows = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                              max_new_tokens=new)
        seconds = time.process_time() - start
        assert rows.shape[1] == new + (source if config.model_type == "gpt2" else 1)
        print(seconds, flush=True)


main()

#!/usr/bin/env python3
"""Makes what transformers computes with its activations.

    /tmp/golden/bin/python tools/make_golden_activations.py    # the environment of make_golden.py
    /tmp/golden/bin/python tools/make_golden_activations.py DIR
    build/release/ftpipe tools/check_golden.lua DIR/*

The first writes spec/golden/activations.json: values and slopes of those that are built. The
second writes a tiny model of every family with each of them under DIR, with its loss, logits,
gradients and what five steps of optimizers make of it. Run in the root of the sources.
"""
import json
import os
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers.activations import ACT2FN

from make_golden import OPTIMIZERS, losses_of
from make_golden_forms import GPT2_INPUTS, GPT2_SIZE, T5_INPUTS, T5_SIZE, random_model

torch.set_num_threads(1)

POINTS = [-20.0, -9.5, -4.0, -2.5, -1.25, -0.75, -0.25, 0.125, 0.5, 1.0, 1.75, 3.0, 5.5, 6.5, 9.5,
          10.5, 20.0]
# Not built: some have parameters of their own, the others belong to other families.
NAMES = sorted(set(ACT2FN) - {"hardswish", "laplace", "prelu", "sqrtsoftplus", "xielu"})


def activations():
    rows = {}
    for name in NAMES:
        x = torch.tensor(POINTS, dtype=torch.float64, requires_grad=True)
        y = ACT2FN[name](x)
        y.sum().backward()
        rows[name] = {"values": [float("%.9g" % v) for v in y.tolist()],
                      "slopes": [float("%.9g" % v) for v in x.grad.tolist()]}
    with open("spec/golden/activations.json", "w") as file:
        json.dump({"made_by": "tools/make_golden_activations.py", "torch": torch.__version__,
                   "transformers": transformers.__version__, "points": POINTS, "rows": rows},
                  file, separators=(",", ":"))
        file.write("\n")


# ------------------------------------------------------------------------------------------------
# Models.

BERT_SIZE = dict(
    vocab_size=24, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
    max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
BERT_INPUTS = {
    "input_ids": [[5, 9, 22, 7, 3, 1], [14, 2, 1, 8, 0, 0]],
    "token_type_ids": [[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 0, 0]],
    "attention_mask": [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]],
    "start_positions": [3, 2], "end_positions": [4, 3],
}


def save(where, model_class, config_class, sizes, inputs):
    random_model(config_class, model_class, sizes).save_pretrained(where)

    def make():
        return model_class.from_pretrained(where, dtype=torch.float32,
                                           attn_implementation="eager").train()
    inputs = {name: torch.tensor(rows) for name, rows in inputs.items()}
    model = make()
    out = model(**inputs)
    out.loss.backward()
    slopes = {name: parameter.grad for name, parameter in model.named_parameters()}
    largest = max(slope.abs().max() for slope in slopes.values())
    # Some of BERT are 0 but for rounding: biases of keys, and what adds to all logits of a row.
    tensors = {"grad." + name: slope.contiguous() for name, slope in slopes.items()
               if slope.abs().max() > 1e-5 * largest}
    for name in ("logits", "start_logits", "end_logits"):
        if name in out:
            tensors[name] = out[name].detach().contiguous()
    save_file(tensors, where + "/golden.safetensors")
    with open(where + "/golden.json", "w") as file:
        json.dump({
            "family": model.config.model_type, "loss": out.loss.item(), "optimizers": OPTIMIZERS,
            "inputs": {name: rows.tolist() for name, rows in inputs.items()},
            "losses": {name: losses_of(make, inputs, name) for name in OPTIMIZERS},
        }, file)


def models(root):
    for name in NAMES:
        save(os.path.join(root, "gpt2_" + name), transformers.GPT2LMHeadModel,
             transformers.GPT2Config, dict(GPT2_SIZE, activation_function=name), GPT2_INPUTS)
        save(os.path.join(root, "bert_" + name), transformers.BertForQuestionAnswering,
             transformers.BertConfig, dict(BERT_SIZE, hidden_act=name), BERT_INPUTS)
        for said in (name, "gated-" + name):
            save(os.path.join(root, "t5_" + said), transformers.T5ForConditionalGeneration,
                 transformers.T5Config, dict(T5_SIZE, feed_forward_proj=said), T5_INPUTS)


if len(sys.argv) > 1:
    models(sys.argv[1])
else:
    activations()

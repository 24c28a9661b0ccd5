#!/usr/bin/env python3
"""Makes what transformers computes with other forms of models, and with generation_config.json:

    spec/golden/generation.json     greedy answers of embedded models, by what that file asks
    spec/golden/mt5                 a tiny mT5
    spec/golden/t5_headless         a tiny T5 whose config.json asks for a head that is not there
    spec/golden/gpt2_scaled         a tiny GPT-2 whose blocks scale attention by their number
    spec/golden/t5_gated_silu       a tiny T5 with the feed-forward blocks of UL2

    /tmp/golden/bin/python tools/make_golden_forms.py     # the environment of make_golden.py

Run in the root of the sources, on the CPU, with one thread. The directories are as
lua/ftpipe/data/golden.lua reads them.
"""
import json
import os
import shutil

import torch
import transformers
from safetensors.torch import load_file, save_file

torch.set_num_threads(1)

# ------------------------------------------------------------------------------------------------
# Answers, by what generation_config.json asks.

SEARCHES = [
    {}, {"repetition_penalty": 3.0}, {"repetition_penalty": 0.5}, {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2}, {"no_repeat_ngram_size": 3}, {"min_length": 9},
    {"min_new_tokens": 8}, {"min_new_tokens": 3, "min_length": 12}, {"max_new_tokens": 3},
    {"max_length": 30}, {"max_length": 40, "max_new_tokens": 5}, {"early_stopping": True},
    {"repetition_penalty": 1.7, "no_repeat_ngram_size": 2, "min_length": 7},
    {"temperature": 0.3, "top_k": 5, "top_p": 0.9, "do_sample": False},
]
T5_SEARCHES = [
    {"decoder_start_token_id": 12}, {"max_length": 4}, {"eos_token_id": [1, 10]},
    {"eos_token_id": 10, "min_length": 6}, {"decoder_start_token_id": 9, "repetition_penalty": 9.0},
]
T5_IDS = {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
GPT2_IDS = {"eos_token_id": 0, "pad_token_id": 0}
# Answers of the tiny T5 are too short to repeat themselves.
LONG = {"min_new_tokens": 11}
GPT2_SEARCHES = [{"eos_token_id": 256}, {"eos_token_id": [256, 341], "min_new_tokens": 7}]


def answers(model, search, sources, ids):
    asked = dict(ids, **search)
    if "max_length" not in asked:
        asked.setdefault("max_new_tokens", 12)
    model.generation_config = transformers.GenerationConfig(**asked)
    rows = []
    for source in sources:
        given = torch.tensor([source])
        row = model.generate(input_ids=given, attention_mask=torch.ones_like(given))[0].tolist()
        rows.append(row[1:] if model.config.is_encoder_decoder else row[len(source):])
    return {"asked": asked, "answers": rows}


def generation():
    t5 = transformers.T5ForConditionalGeneration.from_pretrained(
        "assets/t5_tiny", dtype=torch.float32, attn_implementation="eager").eval()
    gpt2 = transformers.GPT2LMHeadModel.from_pretrained(
        "assets/gpt2_tiny", dtype=torch.float32, attn_implementation="eager").eval()
    with open("spec/golden/t5/golden.json") as file:
        padded = json.load(file)["inputs"]["input_ids"]
    sources = [[token for token in row if token != 0] for row in padded]
    with open("spec/golden/gpt2/golden.json") as file:
        text = json.load(file)["inputs"]["input_ids"][0]
    prompts = [text[:5], text[3:14], text[9:11]]
    root = {
        "made_by": "tools/make_golden_forms.py", "transformers": transformers.__version__,
        "cases": [
            {"model": "t5_tiny", "sources": sources, "rows": [
                answers(t5, search, sources, T5_IDS)
                for search in SEARCHES + T5_SEARCHES + [dict(LONG, **s) for s in SEARCHES[:6]]]},
            {"model": "gpt2_tiny", "sources": prompts, "rows": [
                answers(gpt2, search, prompts, GPT2_IDS) for search in SEARCHES + GPT2_SEARCHES]},
        ],
    }
    with open("spec/golden/generation.json", "w") as file:
        json.dump(root, file, separators=(",", ":"))
        file.write("\n")


# ------------------------------------------------------------------------------------------------
# Directories.

T5_SIZE = dict(
    vocab_size=24, d_model=8, d_kv=4, d_ff=12, num_layers=2, num_decoder_layers=2, num_heads=2,
    decoder_start_token_id=0, dropout_rate=0.0, relative_attention_num_buckets=8,
    relative_attention_max_distance=20)
GPT2_SIZE = dict(
    vocab_size=24, n_embd=8, n_layer=3, n_head=2, n_inner=12, n_positions=16, bos_token_id=0,
    eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
T5_INPUTS = {
    "input_ids": [[5, 9, 22, 7, 3, 1], [14, 2, 1, 0, 0, 0]],
    "attention_mask": [[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]],
    "labels": [[6, 17, 1], [11, 1, -100]],
}
GPT2_INPUTS = {
    "input_ids": [[5, 9, 22, 7, 3, 1], [14, 2, 11, 8, 20, 4]],
    "labels": [[5, 9, 22, 7, 3, 1], [-100, -100, 11, 8, -100, 4]],
}


def random_model(config_class, model_class, sizes):
    torch.manual_seed(5)
    model = model_class(config_class(**sizes))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.6 if "shared" in name else 0.3))
            if parameter.dim() == 1:
                parameter.add_(1)
    return model


def directory(name, config_class, model_class, sizes, inputs, edit):
    """A model with its outputs; `edit` changes its configuration and its tensors as they are
    saved, as files that other versions of transformers have written are."""
    where = "spec/golden/" + name
    shutil.rmtree(where, ignore_errors=True)
    model = random_model(config_class, model_class, sizes)
    model.save_pretrained(where)
    for extra in os.listdir(where):
        if extra not in ("config.json", "model.safetensors"):
            os.remove(os.path.join(where, extra))
    with open(where + "/config.json") as file:
        config = json.load(file)
    tensors = load_file(where + "/model.safetensors")
    edit(config, tensors)
    with open(where + "/config.json", "w") as file:
        json.dump(config, file, indent=1)
        file.write("\n")
    save_file(tensors, where + "/model.safetensors", metadata={"format": "pt"})
    outputs(where, model_class, inputs)
    for made in os.listdir(where):
        os.chmod(os.path.join(where, made), 0o644)


def outputs(where, model_class, inputs):
    def make():
        return model_class.from_pretrained(where, dtype=torch.float32,
                                           attn_implementation="eager").train()
    inputs = {name: torch.tensor(rows) for name, rows in inputs.items()}
    model = make()
    out = model(**inputs)
    out.loss.backward()
    tensors = {"grad." + name: parameter.grad.contiguous()
               for name, parameter in model.named_parameters()}
    tensors["logits"] = out.logits.detach().contiguous()
    save_file(tensors, where + "/golden.safetensors")
    mask = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"]))
    row = make().eval().generate(
        input_ids=inputs["input_ids"], attention_mask=mask, max_new_tokens=6, do_sample=False,
        num_beams=1, pad_token_id=0)
    with open(where + "/golden.json", "w") as file:
        json.dump({
            "made_by": "tools/make_golden_forms.py", "family": model.config.model_type,
            "transformers": transformers.__version__, "torch": torch.__version__,
            "inputs": {name: rows.tolist() for name, rows in inputs.items()},
            "loss": out.loss.item(), "greedy": row.tolist(),
            "greedy_args": {"max_new_tokens": 6},
        }, file, separators=(",", ":"))
        file.write("\n")


def published_mt5(config, tensors):
    """As google/mt5-small is: no word on feed-forward blocks, a head of its own."""
    for key in ("is_gated_act", "dense_act_fn", "feed_forward_proj"):
        config.pop(key, None)
    config["tie_word_embeddings"] = False
    tensors["lm_head.weight"] = torch.randn_like(tensors["shared.weight"]) * 0.2


def headless(config, _):
    config["tie_word_embeddings"] = False
    config.pop("scale_decoder_outputs", None)


if __name__ == "__main__":
    generation()
    directory("mt5", transformers.MT5Config, transformers.MT5ForConditionalGeneration, T5_SIZE,
              T5_INPUTS, published_mt5)
    directory("t5_headless", transformers.T5Config, transformers.T5ForConditionalGeneration,
              T5_SIZE, T5_INPUTS, headless)
    directory("t5_gated_silu", transformers.T5Config, transformers.T5ForConditionalGeneration,
              dict(T5_SIZE, feed_forward_proj="gated-silu", d_model=4, d_kv=2, d_ff=6, num_layers=1,
                   num_decoder_layers=1), T5_INPUTS, lambda config, tensors: None)
    directory("gpt2_scaled", transformers.GPT2Config, transformers.GPT2LMHeadModel,
              dict(GPT2_SIZE, scale_attn_by_inverse_layer_idx=True, scale_attn_weights=False,
                   reorder_and_upcast_attn=True),
              GPT2_INPUTS, lambda config, tensors: None)

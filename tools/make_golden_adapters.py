#!/usr/bin/env python3
"""Makes spec/golden/NAME_lora: what peft computes with adapters on the embedded models.

    /tmp/golden/bin/pip install peft==0.21.2     # into the environment of make_golden.py
    /tmp/golden/bin/python tools/make_golden_adapters.py

Run in the root of the sources, on the CPU, with one thread. The adapters are peft's own, with
random B, and are saved by it; golden.json and golden.safetensors are as lua/ftpipe/data/golden.lua
reads them. "merged" are the logits of peft's merged model. The model inside is called itself:
peft's own forward for questions leaves token_type_ids out.
"""
import json
import os

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

torch.set_num_threads(1)

STEPS = 5
ADAMW = {"lr": 1e-3, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}
KEPT = ("adapter_config.json", "adapter_model.safetensors")

CASES = {
    "t5": (transformers.T5ForConditionalGeneration, "SEQ_2_SEQ_LM", {"r": 4}),
    "gpt2": (transformers.GPT2LMHeadModel, "CAUSAL_LM",
             {"r": 2, "lora_alpha": 6, "target_modules": ["c_attn", "c_fc"]}),
    "bert": (transformers.BertForQuestionAnswering, "QUESTION_ANS",
             {"r": 3, "use_rslora": True, "target_modules": ["query", "intermediate.dense"]}),
}


def base_model(family):
    model = CASES[family][0].from_pretrained("assets/%s_tiny" % family, dtype=torch.float32,
                                             attn_implementation="eager")
    if family == "bert":  # the embedded weights have no head: that of spec/golden/bert
        golden = load_file("spec/golden/bert/golden.safetensors")
        with torch.no_grad():
            for name in ("qa_outputs.weight", "qa_outputs.bias"):
                model.get_parameter(name).copy_(golden["param." + name])
    return model.train()


def adapted(family, where):
    model = peft.PeftModel.from_pretrained(base_model(family), where, is_trainable=True)
    for name, parameter in model.named_parameters():
        if "lora_" not in name:  # the head of BERT is saved by peft, and not trained here
            parameter.requires_grad_(False)
    return model.train()


def make_adapters(family, where):
    torch.manual_seed(1)
    _, task, settings = CASES[family]
    config = peft.LoraConfig(task_type=task, lora_dropout=0.0,
                             fan_in_fan_out=family == "gpt2", **settings)
    model = peft.get_peft_model(base_model(family), config)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.05)
    model.peft_config["default"].base_model_name_or_path = "embedded:%s_tiny" % family
    model.save_pretrained(where)
    for name in os.listdir(where):
        if name not in KEPT:
            os.remove(os.path.join(where, name))


def trained(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def losses_of(family, where, inputs):
    model, losses = adapted(family, where), []
    optimizer = torch.optim.AdamW(trained(model), **ADAMW)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model.get_base_model()(**inputs).loss
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    return losses


def logits_of(family, out, positions):
    if family == "bert":
        return {"start_logits": out.start_logits, "end_logits": out.end_logits}
    return {"logits": out.logits[:, positions].contiguous()}


def golden(family):
    where = "spec/golden/%s_lora" % family
    os.makedirs(where, exist_ok=True)
    make_adapters(family, where)
    with open("spec/golden/%s/golden.json" % family) as file:
        root = json.load(file)
    inputs = {name: torch.tensor(rows) for name, rows in root["inputs"].items()}
    positions = root.get("logit_positions")
    model = adapted(family, where)
    out = model.get_base_model()(**inputs)
    out.loss.backward()
    tensors = logits_of(family, out, positions)
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            own = name.replace("base_model.model.", "").replace(".default.", ".")
            tensors["grad." + own] = parameter.grad.contiguous()
    merged = adapted(family, where).merge_and_unload()
    for name, tensor in logits_of(family, merged(**inputs), positions).items():
        tensors["merged." + name] = tensor
    result = {
        "made_by": "tools/make_golden_adapters.py", "family": family, "torch": torch.__version__,
        "transformers": transformers.__version__, "peft": peft.__version__,
        "inputs": root["inputs"], "loss": out.loss.item(), "optimizers": {"adamw": ADAMW},
        "losses": {"adamw": losses_of(family, where, inputs)},
    }
    if positions:
        result["logit_positions"] = positions
    save_file({name: t.detach().float().contiguous() for name, t in tensors.items()},
              where + "/golden.safetensors")
    os.chmod(where + "/golden.safetensors", 0o644)
    with open(where + "/golden.json", "w") as file:
        json.dump(result, file, separators=(",", ":"))
        file.write("\n")


for case in CASES:
    golden(case)

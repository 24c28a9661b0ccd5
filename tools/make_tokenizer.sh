#!/bin/sh
# Makes assets/t5_tiny/spiece.model: 252 unigram pieces over the sample world's words, in T5's
# conventions, with every printable letter so that other text can be spelt. The same bytes each
# time: one thread, fixed seeds. Needs luajit and Debian's package `sentencepiece`.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
lua=${LUA:-luajit}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" # the file names below end up in the model

"$lua" "$root/tools/sample.lua" lines 20000 1 >lines.txt
letters='ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
marks='.,:;!?'\''"()-_/&%$+*=<>[]#@'
spm_train --input=lines.txt --model_prefix=spiece --model_type=unigram --vocab_size=252 \
    --pad_id=0 --eos_id=1 --unk_id=2 --bos_id=-1 \
    --pad_piece='<pad>' --eos_piece='</s>' --unk_piece='<unk>' \
    --normalization_rule_name=nmt_nfkc --add_dummy_prefix=true \
    --required_chars="$letters$marks" --num_threads=1 --random_seed=1 2>spm.log ||
    { cat spm.log >&2; exit 1; }

mkdir -p "$root/assets/t5_tiny"
cp spiece.model "$root/assets/t5_tiny/spiece.model"
sha256sum "$root/assets/t5_tiny/spiece.model"

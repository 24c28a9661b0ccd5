"""Configurations of published models, by the names that ftpipe has for them."""
from transformers import BertConfig, GPT2Config, T5Config

T5 = dict(vocab_size=32128, dropout_rate=0.1, feed_forward_proj="relu",
          decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)

SIZES = {
    "t5-small": T5Config(d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, **T5),
    "t5-base": T5Config(d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_heads=12, **T5),
    "bert-base": BertConfig(),
    "bert-large": BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
                             intermediate_size=4096),
    "gpt2": GPT2Config(),
    "gpt2-xl": GPT2Config(n_embd=1600, n_layer=48, n_head=25),
    "t5-3b": T5Config(d_model=1024, d_kv=128, d_ff=16384, num_layers=24, num_heads=32, **T5),
}

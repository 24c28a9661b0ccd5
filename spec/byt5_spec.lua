-- A T5 whose ids are bytes (google/byt5-*): it trains, what is saved is one again, and it predicts.

local core = require("ftpipe.core")
local checkpoint = require("ftpipe.model.checkpoint")
local files = require("spec.support.files")
local process = require("spec.support.process")

local CONFIG = {
   model_type = "t5", architectures = { "T5ForConditionalGeneration" }, d_model = 16, d_kv = 8,
   d_ff = 24, num_heads = 2, num_layers = 3, num_decoder_layers = 1, vocab_size = 384,
   feed_forward_proj = "gated-gelu", tie_word_embeddings = false, dropout_rate = 0.0,
   layer_norm_epsilon = 1e-6, relative_attention_num_buckets = 8,
   relative_attention_max_distance = 20, eos_token_id = 1, pad_token_id = 0,
   decoder_start_token_id = 0, tokenizer_class = "ByT5Tokenizer",
}
local ROW = '{"premise": "Zo\195\171 has a kite.", "hypothesis": "It is hers.", "label": %q}\n'

local function save_random(dir)
   local family = require("ftpipe.model.t5")
   local params = {}
   local program = family.training(family.config(CONFIG),
      { batch = 1, source = 4, target = 4, dropout = 0, grads = false })
   for _, param in ipairs(program:params()) do
      params[param.name] = core.tensor.zeros(param.dims):draw("normal", 0.3, #param.name)
   end
   checkpoint.save(dir, { config = CONFIG, tensors = params })
end

describe("a ByT5 checkpoint", function()
   it("trains and predicts without a vocabulary file", function()
      files.in_directory(function(dir)
         local model, run = dir .. "/model", dir .. "/run"
         save_random(model)
         core.sys.write_file(dir .. "/rows.jsonl",
            ROW:format("entailment") .. ROW:format("not_entailment"))
         local _, err, exit = process.ftpipe { "recipes/t5_rte.lua", "--model", model,
            "--train-file", dir .. "/rows.jsonl", "--eval-file", dir .. "/rows.jsonl",
            "--out", run, "--steps", "2", "--batch", "2", "--micro-batches", "1",
            "--max-source", "100", "--max-target", "16" }
         assert.equal(0, exit, err)
         assert.equal("bytes", checkpoint.open(run .. "/hf"):tokenizer():kind())
         local out
         out, err, exit = process.ftpipe { "predict", run, "--text", "Zo\195\171 has a kite." }
         assert.equal(0, exit, err)
         assert.equal("string", type(core.json.decode(out).answer))
      end)
   end)
end)

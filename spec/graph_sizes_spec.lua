local core = require("ftpipe.core")
local graphs = require("ftpipe.graph")

local function gpt3()
   local raw = {}
   for key, value in pairs(require("ftpipe.model.gpt2").builtin("gpt2-xl")) do raw[key] = value end
   -- Brown et al., "Language Models are Few-Shot Learners", table 2.1
   raw.n_layer, raw.n_embd, raw.n_head, raw.n_positions, raw.n_ctx = 96, 12288, 96, 2048, 2048
   return raw
end

-- Products of a decoder or an encoder of `l` layers of width h over s tokens: 24 s l h^2, scores
-- and what they weigh 4 s^2 l h, half of it (and the diagonal) when causal, the head 2 s h V
-- (Narayanan et al., SC 2021, appendix, forward alone).
local function layers(s, l, h, V, causal)
   local pairs_of = causal and s * (s + 1) / 2 or s * s
   return 24 * s * l * h * h + 4 * pairs_of * l * h + 2 * s * h * V
end

-- T5 with a source of s and a target of t tokens: widths d, inner i, ff f; L layers each way.
local function t5(s, t, L, d, i, f, V)
   local encoder = s * (8 * d * i + 4 * d * f) + 4 * s * s * i
   local decoder = t * (8 * d * i + 4 * d * f) + 4 * t * t * i + t * 4 * d * i + s * 4 * d * i
      + 4 * t * s * i
   return L * (encoder + decoder) + 2 * t * d * V
end

-- Parameters: T5, Raffel et al. (JMLR 2020) and the published checkpoints; GPT-2 XL and BERT-large
-- (without pooler, with the head of SQuAD), the published checkpoints; GPT-3, Brown et al. 2020,
-- table D.1: 174 600 M.
local rows = {
   { "t5-3b", "t5", parameters = 2851598336, size = { batch = 1, source = 512, target = 4 },
      flops = t5(512, 4, 24, 1024, 4096, 16384, 32128) },
   { "t5-11b", "t5", parameters = 11307321344, size = { batch = 1, source = 512, target = 4 },
      flops = t5(512, 4, 24, 1024, 16384, 65536, 32128) },
   { "gpt2-xl", "gpt2", parameters = 1557611200, size = { batch = 1, source = 1024 },
      flops = layers(1024, 48, 1600, 50257, true) },
   { "bert-large-uncased", "bert", parameters = 334094338, size = { batch = 1, source = 512 },
      flops = layers(512, 24, 1024, 2, false) },
   { "GPT-3 175B", "gpt2", raw = gpt3, parameters = 174600e6, size = { batch = 1, source = 2048 },
      flops = layers(2048, 96, 12288, 50257, true) },
}

local PRODUCTS = { linear = true, attention = true, matmul = true }

--- FLOPs of products; attention also counts ten for each score, of its softmax.
local function products(graph, scores)
   local sum = 0
   for _, node in ipairs(graph.nodes) do
      if PRODUCTS[node.op] then sum = sum + node.flops end
   end
   return sum - 10 * scores
end

--- Scores of all layers and heads of a row.
local function scores_of(row)
   local size = row.size
   local s, t = size.source, size.target
   if row[2] == "t5" then
      return 24 * (row[1] == "t5-3b" and 32 or 128) * (s * s + t * t + t * s)
   end
   if row[2] == "bert" then return 24 * 16 * s * s end
   return (row.raw and 96 * 96 or 48 * 25) * s * (s + 1) / 2
end

describe("graphs of published models, from a configuration alone,", function()
   for _, row in ipairs(rows) do
      it("have the published size, in operators, at once: " .. row[1], function()
         local family = require("ftpipe.model." .. row[2])
         local raw = row.raw and row.raw() or family.builtin(row[1])
         local start = core.sys.time_ns()
         local graph = graphs.of(family.training(family.config(raw), row.size), "sim:8x2080ti")
         local seconds = (core.sys.time_ns() - start) / 1e9
         assert.is_true(#graph.nodes >= 300)
         -- a tenth of a second is usual for the largest, on a busy machine
         assert.is_true(seconds < (core.sanitized and 10 or 1), seconds .. " s")
         local parameters = graph:totals().parameter_bytes / 4
         assert.is_true(math.abs(parameters / row.parameters - 1) < 1e-3, "" .. parameters)
         local flops = products(graph, scores_of(row))
         assert.is_true(math.abs(flops / row.flops - 1) < 1e-3, flops .. " " .. row.flops)
      end)
   end
end)

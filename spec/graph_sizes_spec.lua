local core = require("ftpipe.core")
local graphs = require("ftpipe.graph")

-- Parameters, as published.
-- T5: the checkpoints of Raffel et al. (JMLR 2020), and those of v1.1.
local T5 = {
   ["t5-small"] = 60506624, ["t5-base"] = 222903552, ["t5-large"] = 737668096,
   ["t5-3b"] = 2851598336, ["t5-11b"] = 11307321344,
   ["t5-v1_1-small"] = 76961152, ["t5-v1_1-base"] = 247577856, ["t5-v1_1-large"] = 783150080,
   ["t5-v1_1-xl"] = 2849757184, ["t5-v1_1-xxl"] = 11135332352,
}
-- GPT-2: the checkpoints of Radford et al. (2019); GPT-3: Brown et al. (2020), table D.1, in
-- millions.
local GPT = {
   ["gpt2"] = 124439808, ["gpt2-medium"] = 354823168, ["gpt2-large"] = 774030080,
   ["gpt2-xl"] = 1557611200, ["gpt3-13b"] = 12850e6, ["gpt3-175b"] = 174600e6,
}
-- BERT: the checkpoints of Devlin et al. (2019), 109 482 240, 108 310 272, 335 141 888 and
-- 333 579 264, without their pooler of h^2 + h and with the head of SQuAD, 2 h + 2.
local BERT = {
   ["bert-base-uncased"] = 108893186, ["bert-base-cased"] = 107721218,
   ["bert-large-uncased"] = 334094338, ["bert-large-cased"] = 332531714,
}

-- Operations of the products, forward: two for each parameter of a matrix and each row that it
-- multiplies; scores and what they weigh, four for each pair of positions and each column of the
-- heads (Kaplan et al. 2020, table 1; Narayanan et al., SC 2021, appendix, where feed-forward
-- layers are four times as wide: 24 s l h^2 + 4 s^2 l h + 2 s h V).

--- Of l layers over s positions: widths h, of the heads i, of the feed-forward layer f, made of so
-- many matrices; causal: of a pair of positions only one sees the other.
local function layers(l, s, h, i, f, matrices, causal)
   local pairs_seen = causal and s * (s + 1) / 2 or s * s
   return l * (2 * s * (4 * h * i + matrices * h * f) + 4 * pairs_seen * i), l * pairs_seen
end

--- Operations of products and how many scores there are, for one head of each layer.
local flops = {
   t5 = function(c, size)
      local s, t, h, i = size.source, size.target, c.d_model, c.num_heads * c.d_kv
      local matrices = c.gated and 3 or 2
      local encoder, own = layers(c.num_layers, s, h, i, c.d_ff, matrices)
      local decoder, answers = layers(c.num_decoder_layers, t, h, i, c.d_ff, matrices)
      -- the answer looks at the source
      local cross = c.num_decoder_layers * (2 * (2 * t + 2 * s) * h * i + 4 * t * s * i)
      return encoder + decoder + cross + 2 * t * h * c.vocab_size,
         (own + answers + c.num_decoder_layers * t * s) * c.num_heads
   end,
   gpt2 = function(c, size)
      local h = c.n_embd
      local body, scores = layers(c.n_layer, size.source, h, h, c.n_inner, 2, true)
      return body + 2 * size.source * h * c.vocab_size, scores * c.n_head
   end,
   bert = function(c, size)
      local h = c.hidden_size
      local body, scores = layers(c.num_hidden_layers, size.source, h, h, c.intermediate_size, 2)
      return body + 2 * size.source * h * 2, scores * c.num_attention_heads
   end,
}

local PRODUCTS = { linear = true, attention = true, matmul = true }
local SOFTMAX = 10 -- operations that an attention counts for each score beside its products

local function products(graph)
   local sum = 0
   for _, node in ipairs(graph.nodes) do
      if PRODUCTS[node.op] then sum = sum + node.flops end
   end
   return sum
end

local function near(actual, expected)
   assert.is_true(math.abs(actual / expected - 1) < 1e-3, ("%s, published: %s"):format(actual,
      expected))
end

local SIZES = {
   t5 = { batch = 1, source = 512, target = 4 }, gpt2 = { batch = 1, source = 1024 },
   bert = { batch = 1, source = 512 },
}

local function build(kind, name)
   local family = require("ftpipe.model." .. kind)
   local config = family.config(family.builtin(name))
   return graphs.of(family.training(config, SIZES[kind]), "sim:8x2080ti"), config
end

describe("graphs of published models, from a configuration alone,", function()
   for kind, list in pairs { t5 = T5, gpt2 = GPT, bert = BERT } do
      for name, parameters in pairs(list) do
         it("have the published parameters, and operations by the formula: " .. name, function()
            local graph, config = build(kind, name)
            near(graph:totals().parameter_bytes / 4, parameters)
            local expected, scores = flops[kind](config, SIZES[kind])
            near(products(graph) - SOFTMAX * scores, expected)
         end)
      end
   end

   it("are all that there are", function()
      for kind, list in pairs { t5 = T5, gpt2 = GPT, bert = BERT } do
         for _, name in ipairs(require("ftpipe.model." .. kind).builtin_names()) do
            local plain = name:gsub("%-whole%-word%-masking$", "")
            assert.is_truthy(list[plain] or list[plain .. "-uncased"], name)
         end
      end
   end)

   for name, kind in pairs {
      ["t5-3b"] = "t5", ["t5-11b"] = "t5", ["gpt2-xl"] = "gpt2", ["bert-large"] = "bert",
      ["gpt3-175b"] = "gpt2",
   } do
      it("stand in 0.3 s, in operators: " .. name, function()
         local best = math.huge
         for _ = 1, 3 do -- of the process's own time: others have the machine too
            local start = os.clock()
            local graph = build(kind, name)
            best = math.min(best, os.clock() - start)
            assert.is_true(graph.operators:counts().nodes >= 900)
         end
         assert.is_true(best < (core.sanitized and 10 or 0.3), best .. " s")
      end)
   end
end)

--- BERT with a span head and GPT-2 in plain Lua numbers (f64), one sample at a time, written from
-- the papers' equations and nothing of the project: the judges of the graphs.

local M = {}

--- Names of activations, a name for each function.
M.activations = {
   "gelu", "gelu_10", "gelu_new", "leaky_relu", "linear", "mish", "quick_gelu", "relu",
   "relu2", "relu6", "sigmoid", "silu", "tanh",
}

local function dot(a, b)
   local sum = 0
   for i = 1, #a do sum = sum + a[i] * b[i] end
   return sum
end

--- Abramowitz and Stegun 7.1.6: the series of erf, exact to f64 for the small numbers here.
local function erf(x)
   local term, sum = x, x
   for n = 1, 200 do
      term = term * 2 * x * x / (2 * n + 1)
      sum = sum + term
   end
   return 2 / math.sqrt(math.pi) * math.exp(-x * x) * sum
end

local function sigmoid(x) return 1 / (1 + math.exp(-x)) end

local acts = {
   gelu = function(x) return 0.5 * x * (1 + erf(x / math.sqrt(2))) end,
   gelu_new = function(x)
      local u = math.exp(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x ^ 3))
      return 0.5 * x * (1 + (u - 1) / (u + 1))
   end,
   relu = function(x) return math.max(x, 0) end,
   relu2 = function(x) return math.max(x, 0) ^ 2 end,
   relu6 = function(x) return math.min(math.max(x, 0), 6) end,
   leaky_relu = function(x) return math.max(x, 0.01 * x) end,
   linear = function(x) return x end,
   gelu_10 = function(x) return math.min(0.5 * x * (1 + erf(x / math.sqrt(2))), 10) end,
   sigmoid = sigmoid,
   silu = function(x) return x * sigmoid(x) end,
   quick_gelu = function(x) return x * sigmoid(1.702 * x) end,
   mish = function(x) return x * math.tanh(math.log(1 + math.exp(x))) end,
   tanh = math.tanh,
}

--- Weights as BERT's files have them, (out, in).
local function linear(p, name, x)
   local y = {}
   for n, row in ipairs(p[name .. ".weight"]) do y[n] = dot(row, x) + p[name .. ".bias"][n] end
   return y
end

local function norm(p, name, x, eps)
   local mean, variance, y = 0, 0, {}
   for _, v in ipairs(x) do mean = mean + v / #x end
   for _, v in ipairs(x) do variance = variance + (v - mean) ^ 2 / #x end
   for i, v in ipairs(x) do
      y[i] = (v - mean) / math.sqrt(variance + eps) * p[name .. ".weight"][i]
         + p[name .. ".bias"][i]
   end
   return y
end

local function add(a, b)
   local y = {}
   for i = 1, #a do y[i] = a[i] + b[i] end
   return y
end

local function softmax(scores)
   local sum, y = 0, {}
   for i, s in ipairs(scores) do
      y[i] = math.exp(s)
      sum = sum + y[i]
   end
   for i in ipairs(y) do y[i] = y[i] / sum end
   return y
end

local function each(rows, f)
   local list = {}
   for t, row in ipairs(rows) do list[t] = f(row, t) end
   return list
end

local function head_of(row, h, width)
   local part = {}
   for i = 1, width do part[i] = row[(h - 1) * width + i] end
   return part
end

--- Softmax of scaled products of queries and keys, times values, head by head.
-- @tparam function bias what is added to the score of query t and key j
local function attend(q, k, v, heads, bias)
   local width = #q[1] / heads
   return each(q, function(query, t)
      local y = {}
      for h = 1, heads do
         local p_h = softmax(each(k, function(key, j)
            return dot(head_of(query, h, width), head_of(key, h, width)) / math.sqrt(width)
               + bias(t, j)
         end))
         for i = 1, width do
            local sum = 0
            for j = 1, #k do sum = sum + p_h[j] * v[j][(h - 1) * width + i] end
            y[#y + 1] = sum
         end
      end
      return y
   end)
end

local function attention(c, p, name, xs, mask)
   local function project(kind)
      return each(xs, function(x) return linear(p, name .. ".self." .. kind, x) end)
   end
   local y = attend(project("query"), project("key"), project("value"), c.num_attention_heads,
      function(_, j) return mask[j] == 0 and -1e4 or 0 end)
   return each(y, function(row) return linear(p, name .. ".output.dense", row) end)
end

--- BERT's logits of one sample.
-- @tparam table c config.json
-- @tparam table p parameters as nested tables, by name
-- @tparam table ids, types, mask lists of numbers
-- @treturn table start logits
-- @treturn table end logits
function M.bert(c, p, ids, types, mask)
   local e, eps = "bert.embeddings.", c.layer_norm_eps
   local xs = each(ids, function(id, t)
      local x = add(p[e .. "word_embeddings.weight"][id + 1],
         add(p[e .. "position_embeddings.weight"][t],
            p[e .. "token_type_embeddings.weight"][types[t] + 1]))
      return norm(p, e .. "LayerNorm", x, eps)
   end)
   for i = 0, c.num_hidden_layers - 1 do
      local name = ("bert.encoder.layer.%d."):format(i)
      local attended = attention(c, p, name .. "attention", xs, mask)
      xs = each(xs, function(x, t)
         return norm(p, name .. "attention.output.LayerNorm", add(x, attended[t]), eps)
      end)
      xs = each(xs, function(x)
         local h = each(linear(p, name .. "intermediate.dense", x), acts[c.hidden_act])
         return norm(p, name .. "output.LayerNorm", add(x, linear(p, name .. "output.dense", h)),
            eps)
      end)
   end
   local both = each(xs, function(x) return linear(p, "qa_outputs", x) end)
   return each(both, function(y) return y[1] end), each(both, function(y) return y[2] end)
end

--- Weights as GPT-2's files have them, (in, out).
local function conv1d(p, name, x)
   local y = {}
   for n, bias in ipairs(p[name .. ".bias"]) do
      y[n] = bias
      for k, row in ipairs(p[name .. ".weight"]) do y[n] = y[n] + x[k] * row[n] end
   end
   return y
end

local function causal_attention(c, p, name, xs)
   local packed = each(xs, function(x) return conv1d(p, name .. ".c_attn", x) end)
   local function part(i)
      return each(packed, function(row) return head_of(row, i, c.n_embd) end)
   end
   local y = attend(part(1), part(2), part(3), c.n_head,
      function(t, j) return j > t and -math.huge or 0 end)
   return each(y, function(row) return conv1d(p, name .. ".c_proj", row) end)
end

--- GPT-2's logits of one sample, a row for each token.
-- @tparam table c config.json
-- @tparam table p parameters as nested tables, by name
-- @tparam table ids list of numbers
function M.gpt2(c, p, ids)
   local wte, eps = p["transformer.wte.weight"], c.layer_norm_epsilon
   local xs = each(ids, function(id, t) return add(wte[id + 1], p["transformer.wpe.weight"][t]) end)
   for i = 0, c.n_layer - 1 do
      local name = ("transformer.h.%d."):format(i)
      local function normed(which)
         return each(xs, function(x) return norm(p, name .. which, x, eps) end)
      end
      local attended = causal_attention(c, p, name .. "attn", normed("ln_1"))
      xs = each(xs, function(x, t) return add(x, attended[t]) end)
      xs = each(normed("ln_2"), function(x, t)
         local h = each(conv1d(p, name .. "mlp.c_fc", x), acts[c.activation_function])
         return add(xs[t], conv1d(p, name .. "mlp.c_proj", h))
      end)
   end
   local head = p["lm_head.weight"] or wte
   return each(xs, function(x)
      local y = norm(p, "transformer.ln_f", x, eps)
      return each(head, function(row) return dot(row, y) end)
   end)
end

--- Minus the log of the probability of position `at` (counted from 0).
function M.nll(logits, at)
   return -math.log(softmax(logits)[at + 1])
end

return M

--- Greedy decoding, as `ftpipe predict` does it, against PyTorch.
--
--    ftpipe bench/generate.lua [MODEL TEXTS TOKENS NEW]
--
-- Random weights on both sides, f32, one thread, a key/value cache; no token ends an answer. The
-- peer runs when FTPIPE_PEER_PYTHON names a Python with torch and transformers. Both run in turn;
-- the figure is the ratio of medians of CPU time, without the first round, in which weights are
-- packed.

package.path = "bench/?.lua;" .. package.path
local choice = require("ftpipe.data.choice")
local core = require("ftpipe.core")
local decode = require("ftpipe.data.decode")
local models = require("ftpipe.model")
local peers = require("peer")

-- A model, texts at a time, their tokens, new ones.
local CASES = arg[1] and { { arg[1], tonumber(arg[2]), tonumber(arg[3]), tonumber(arg[4]) } } or {
   { "gpt2", 1, 16, 48 },
   { "gpt2", 8, 16, 24 },
   { "t5-small", 1, 128, 48 },
   { "t5-small", 32, 128, 16 },
}
local ROUNDS, WARM = 5, 1

local function random_weights(model, size)
   local list, params = model.family.training(model.config, size):params(), {}
   for _, param in ipairs(list) do params[param.name] = core.tensor.zeros(param.dims) end
   model:initialize(params, 1)
   return params
end

--- Ids of `batch` rows, as lists.
local function rows_of(batch, length, vocab)
   local rows = {}
   for b = 1, batch do
      rows[b] = {}
      for t = 1, length do rows[b][t] = (b * 7919 + t * 104729) % (vocab - 2) + 2 end
   end
   return rows
end

--- A function that decodes once.
local function decoder_of(model, batch, source, new)
   local rules = choice.plain(model.config)
   rules.ends = {}
   local params = random_weights(model, { batch = 1, source = source, target = 1, grads = false })
   local packs = decode.packs(params)
   local size = {
      batch = batch, source = source, target = new, threads = 1, rules = rules, packs = packs,
   }
   local rows = rows_of(batch, source, model.config.vocab_size)
   if model.family.kind == "language_model" then
      local most = {}
      for b = 1, batch do most[b] = new end
      return function()
         return decode.continue(model, params, rows,
            { most = most, threads = 1, rules = rules, packs = packs })
      end
   end
   local decoder = decode.greedy(model, params, size)
   local ids = core.tensor.zeros({ batch, source }, "i32")
   local mask = core.tensor.zeros({ batch, source }, "i32")
   mask:fill(1)
   for b, row in ipairs(rows) do
      for t, id in ipairs(row) do ids:set(b, t, id) end
   end
   return function() return decode.run(decoder, ids, mask) end
end

local function seconds_of(run, new)
   local start = os.clock()
   local rows = run()
   local seconds = os.clock() - start
   for _, row in ipairs(rows) do assert(#row == new) end
   return seconds
end

for _, case in ipairs(CASES) do
   local name, batch, source, new = unpack(case)
   local model = models.open { model = name, init = "random" }
   local run = decoder_of(model, batch, source, new)
   local peer = peers.python("generate_torch.py", name, batch, source, new)
   local ours, theirs = {}, {}
   for round = 1, ROUNDS + WARM do
      local seconds, other = seconds_of(run, new), peer and peer.ask("generate")
      if round > WARM then ours[#ours + 1], theirs[#theirs + 1] = seconds, other end
   end
   local time, other = peers.median(ours), peer and peers.median(theirs)
   if peer then peer.close() end
   print(("generate %s batch %d, %d + %d tokens: ours %.1f ms a token, %s"):format(name, batch,
      source, new, time / new * 1e3, peer and ("torch %.1f"):format(other / new * 1e3)
         or "skipped: torch (" .. peers.NO_PYTHON .. ")"))
   peers.gate(("generate-%s-%d"):format(name, batch), peer and time / other, peers.NO_PYTHON)
end

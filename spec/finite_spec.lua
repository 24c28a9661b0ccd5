--- The first number that is not finite stops the step, and the message says where it came from.

require("ftpipe.base.tensor") -- pointer()
local with = require("ftpipe.base.copy")
local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")

--- The error of a run that diverges, and what it left: losses (of whole steps) and params.
local function diverge(options)
   local record = {}
   local problem = files.failure(pipeline.train, with(options, { record = record }))
   assert.equal("diverged", problem.status)
   assert.equal(4, problem.exit)
   return tostring(problem.message), record
end

--- Whether tables hold the same numbers; NaN is the same as itself.
local function same_numbers(a, b)
   if type(a) ~= "table" then return a == b or (a ~= a and b ~= b) end
   for key, value in pairs(a) do
      if not same_numbers(value, b[key]) then return false end
   end
   return true
end

--- The message without the stage, which depends on the cut.
local function without_stage(message) return (message:gsub("stage %d of %d, ", "")) end

local function plant(name, value)
   return function(params)
      assert(params[name], name)
      params[name]:pointer()[params[name]:count() - 1] = value
   end
end

local function scale(tensor, factor)
   local data = tensor:pointer()
   for i = 0, tensor:count() - 1 do data[i] = factor * data[i] end
end

local NAN, INF = 0 / 0, math.huge

-- Ways to run one training: the error is the same in all of them.
local ways = {}
for devices = 1, 4 do
   for _, schedule in ipairs { "sequential", "gpipe", "1f1b", "async" } do
      ways[#ways + 1] = {
         devices = "cpu:" .. devices, schedule = schedule, threaded = devices % 2 == 1,
         recompute = devices > 2 and "always" or "never",
      }
   end
end
ways[#ways + 1] = { devices = "cpu:2", stages = 5, schedule = "1f1b", recompute = "always" }
ways[#ways + 1] = { devices = "cpu:2x2", schedule = "gpipe" }

--- The message of each way is the one given, but for the stage.
local function assert_message(wanted, options)
   for _, way in ipairs(ways) do
      local message = diverge(with(options, way))
      if options.either then message = message:gsub("gave nan", "gave inf") end
      assert.equal(wanted, without_stage(message))
      assert.matches("; stage %d of %d, micro%-batch", message)
   end
end

describe("a parameter that is not finite", function()
   local cases = {
      { "encoder.block.0.layer.0.SelfAttention.q.weight", NAN,
         "'linear' in encoder/block.0/attn (forward) gave nan" },
      { "encoder.block.2.layer.0.layer_norm.weight", NAN,
         "'rms_norm' in encoder/block.2/attn (forward) gave nan" },
      { "decoder.block.1.layer.2.DenseReluDense.wo.weight", NAN,
         "'linear' in decoder/block.1/ff (forward) gave nan" },
      { "decoder.final_layer_norm.weight", -INF,
         "'rms_norm' in head (forward) gave inf" },
   }
   for _, case in ipairs(cases) do
      it("is named with the node that reads it first: " .. case[1], function()
         assert_message(("step 1: %s from the parameter '%s', which is not finite; "
            .. "micro-batch 0 of 4"):format(case[3], case[1]),
            { plant = plant(case[1], case[2]), steps = 3 })
      end)
   end

   it("is named in the micro-batch that meets it, and nothing is updated by that step", function()
      -- No row of the batches has token 1 but the second of micro-batch 2 of step 3.
      local options = {
         steps = 5, tied = false, dropout = 0,
         plant = function(params) params["shared.weight"]:set(2, 3, NAN) end,
         edit = function(batch, number)
            if number == 2 then batch.input_ids:set(6, 2, 1) end
         end,
      }
      assert_message("step 3: 'embedding' in encoder/embed (forward) gave nan from the parameter "
         .. "'shared.weight', which is not finite; micro-batch 2 of 4", options)
      local short = pipeline.train(with(options, { steps = 2 }))
      for _, schedule in ipairs { "gpipe", "1f1b" } do
         local _, record = diverge(with(options, { devices = "cpu:3", schedule = schedule }))
         assert.same(short.losses, record.losses)
         for name, values in pairs(short.params) do
            assert.is_true(same_numbers(values, record.params[name]), name)
         end
      end
   end)

   local others = {
      { "bert", "bert.encoder.layer.1.output.dense.bias", "encoder/block.1/ff" },
      { "gpt2", "transformer.h.1.attn.c_proj.bias", "block.1/attn" },
   }
   for _, case in ipairs(others) do
      it("is named in models of other families: " .. case[1], function()
         assert_message(("step 1: 'linear' in %s (forward) gave inf from the parameter '%s', which "
            .. "is not finite; micro-batch 0 of 4"):format(case[3], case[2]),
            { family = case[1], gated = true, plant = plant(case[2], INF), steps = 3 })
      end)
   end
end)

describe("a step that is too long", function()
   it("is found by the step after it", function()
      local message, record = diverge { devices = "cpu:2", rate = 1e30, steps = 4 }
      assert.matches("^step 2: '[%w_]+' in %S+ %(%l+%) gave [naif]+; stage %d of 2, "
         .. "micro%-batch 0 of 4$", message)
      assert.equal(1, #record.losses)
   end)
end)

describe("a gradient that is not finite", function()
   it("is named with its node, in backward", function()
      -- A heavy loss that is finite; logits as large as ever, made by large weights of the head.
      assert_message("step 1: 'linear_grad_input' in head (backward) gave inf; "
         .. "micro-batch 1 of 4", {
         steps = 3, tied = false, either = true, -- inf - inf, by the order of the device's sums
         plant = function(params)
            scale(params["lm_head.weight"], 1e4)
            scale(params["decoder.final_layer_norm.weight"], 1e-4)
         end,
         edit = function(batch, number)
            if number == 0 then batch.loss_weight:set(2, 3e36) end
         end,
      })
   end)

   it("is found in the last micro-batch when only the sum over all is not finite", function()
      assert_message("step 1: 'linear_grad_weight' in head (backward) gave inf; "
         .. "micro-batch 3 of 4", {
         steps = 2, tied = false, dropout = 0,
         plant = function(params)
            scale(params["lm_head.weight"], 1e-4)
            scale(params["decoder.final_layer_norm.weight"], 1e4)
         end,
         edit = function(batch) batch.loss_weight:fill(9e33) end,
      })
   end)

   it("is not made by dropout, recomputation or labels that do not count", function()
      pipeline.train { steps = 3, dropout = 0.3, recompute = "always", edit = function(batch)
         for t = 1, 5 do batch.labels:set(1, t, -100) end
      end }
   end)
end)

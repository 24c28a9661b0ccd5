--- What the engine computes, held to formulas that are written out here: clipping, the weight of
-- labels, and the keys of random numbers.

local ffi = require("ffi")

local core = require("ftpipe.core")
require("ftpipe.base.tensor") -- pointer()
local pipeline = require("spec.support.pipeline")

local function assert_close(wanted, found, tolerance, where)
   assert.is_true(math.abs(found - wanted) <= tolerance * math.abs(wanted),
      ("%s: %.9g, expected %.9g"):format(where, found, wanted))
end

--- Trains one step of SGD without momentum; what it did to each number of the parameters, as one
-- list, and the norm.
local function sgd_step(clip, schedule)
   local before = {}
   local run = pipeline.train {
      family = "bert", optimizer = "sgd", hypers = { momentum = 0, weight_decay = 0 }, rate = 1,
      steps = 1, dropout = 0, clip = clip, schedule = schedule or "1f1b", devices = "cpu:2",
      plant = function(params)
         for name, tensor in pairs(params) do before[name] = tensor:totable() end
      end,
   }
   local change = {}
   local function compare(old, new)
      if type(old) == "number" then
         change[#change + 1] = new - old
      else
         for i = 1, #old do compare(old[i], new[i]) end
      end
   end
   local names = {}
   for name in pairs(before) do names[#names + 1] = name end
   table.sort(names)
   for _, name in ipairs(names) do compare(before[name], run.params[name]) end
   return change, run.norms[1]
end

local function norm_of(list)
   local sum = 0
   for _, value in ipairs(list) do sum = sum + value * value end
   return math.sqrt(sum)
end

describe("clipping", function()
   local whole, norm = sgd_step(1e9)

   it("leaves a smaller gradient as it is", function()
      assert_close(norm, norm_of(whole), 1e-4, "the step of SGD at rate 1 is the gradient")
      assert.same(whole, (sgd_step(1.05 * norm)))
   end)

   it("brings a larger gradient to the limit, whatever its size", function()
      for _, share in ipairs { 0.95, 0.6, 0.1 } do
         local clipped, seen = sgd_step(share * norm)
         assert_close(norm, seen, 1e-6, "the norm is that before clipping")
         assert_close(share * norm, norm_of(clipped), 1e-4, ("clipped to %g of it"):format(share))
         local off = {} -- and every number of it by as much
         for i, value in ipairs(clipped) do off[i] = value - share * whole[i] end
         assert.is_true(norm_of(off) < 1e-4 * norm)
      end
   end)
end)

describe("the loss", function()
   local sizes = { t5 = 61, gpt2 = 61 }
   -- where the head's weights are all zero, every token is as likely
   local heads = { t5 = "shared.weight", gpt2 = "wte.weight" }

   for family, vocabulary in pairs(sizes) do
      it("is ln(vocabulary) when all tokens are alike: " .. family, function()
         local run = pipeline.train {
            family = family, steps = 2, rate = 0, devices = "cpu:2",
            plant = function(params)
               local planted = 0
               for name, tensor in pairs(params) do
                  if name:find(heads[family], 1, true) then
                     tensor:fill(0)
                     planted = planted + 1
                  end
               end
               assert.equal(1, planted)
            end,
         }
         for step = 1, 2 do assert_close(math.log(vocabulary), run.losses[step], 1e-6, family) end
      end)
   end

   it("is ln(positions) when all positions are alike: bert", function()
      local run = pipeline.train {
         family = "bert", steps = 1, rate = 0, longest = true, devices = "cpu:2",
         edit = function(batch) batch.mask:fill(1) end,
         plant = function(params)
            for name, tensor in pairs(params) do
               if name:find("qa_outputs", 1, true) then tensor:fill(0) end
            end
         end,
      }
      assert_close(math.log(16), run.losses[1], 1e-6, "16 positions")
   end)
end)

-- Dropout ---------------------------------------------------------------------------------------

--- Makes the numbers of a tensor those of another one of the same shape.
local function overwrite(to, from) ffi.copy(to:pointer(), from:pointer(), 4 * to:count()) end

--- Losses of steps that change nothing, on one batch again and again; what the model and the batch
-- were.
local function frozen(options)
   local found = {}
   local o = {
      family = "t5", rate = 0, optimizer = "sgd", steps = 3, dropout = 0.3, batch = 4,
      micro_batches = 1, longest = true, devices = "cpu:2",
      plant = function(params)
         found.params = {}
         for name, tensor in pairs(params) do
            local values = tensor:totable()
            found.params[name] = core.tensor.from_table(values, "f32")
         end
      end,
      edit = function(batch)
         found.batch = found.batch or batch
         for name, tensor in pairs(batch) do
            local first = found.batch[name]
            if type(first) == "userdata" then overwrite(tensor, first) end
         end
      end,
   }
   for key, value in pairs(options or {}) do o[key] = value end
   local run = pipeline.train(o)
   found.losses, found.plan = run.losses, run.plan
   return found
end

describe("dropout", function()
   it("is drawn anew for each step, for each sample, and from the seed", function()
      local a, b = frozen(), frozen { seed = 8 }
      assert.not_equal(a.losses[1], a.losses[2])
      assert.not_equal(a.losses[2], a.losses[3])
      -- other initial values belong to another seed as well: give both the same
      local same = frozen { seed = 8, plant = function(params)
         for name, tensor in pairs(params) do overwrite(tensor, a.params[name]) end
      end }
      assert.not_equal(a.losses[1], same.losses[1])
      assert.not_equal(b.losses[1], same.losses[1])
   end)

   it("is drawn anew for each node", function()
      local graph = core.graph.new()
      local x = graph:input("x", "f32", { 2, 64 })
      for _, name in ipairs { "first", "second" } do
         graph:output(name, graph:add("dropout", { x }, { p = 0.5 }))
      end
      local ones = core.tensor.zeros({ 2, 64 }):fill(1)
      local out = core.program.new(graph):run({}, { ones }, { seed = 1, step = 1 })
      assert.not_same(out.first:totable(), out.second:totable())
   end)

   it("has the keys of one run of the whole graph with this seed and step", function()
      for _, seed in ipairs { 7, 2 ^ 40 + 3 } do
         local found = frozen { seed = seed, steps = 3 }
         local graph = found.plan.graphs[found.batch.bucket]
         local params, inputs = {}, {}
         for i, param in ipairs(graph:params()) do params[i] = found.params[param.name] end
         for i, input in ipairs(graph:inputs()) do inputs[i] = found.batch[input.name] end
         local program = core.program.new(graph, { grads = true })
         for step = 1, 3 do
            local loss = program:run(params, inputs, { seed = seed, step = step }).loss:get()
            assert_close(found.losses[step], loss, 1e-6, ("seed %d, step %d"):format(seed, step))
         end
      end
   end)

   it("gives a sample the same draws in any micro-batch", function()
      local function losses(micro_batches)
         return frozen({ micro_batches = micro_batches, batch = 8 }).losses
      end
      local whole = losses(1)
      for _, micro_batches in ipairs { 2, 8 } do
         for step, loss in ipairs(losses(micro_batches)) do
            assert_close(whole[step], loss, 1e-5, ("%d micro-batches"):format(micro_batches))
         end
      end
   end)
end)

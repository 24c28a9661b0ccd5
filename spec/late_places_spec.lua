--- Late weights where the stages of a device are not adjacent: runs have the parameters of the
-- formulas, and those of the same stages on devices of their own.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local late = require("spec.support.late")
local pipeline = require("spec.support.pipeline")

-- Two and three stages for each of two devices, by number of stages.
local PLACES = { [4] = { 1, 2, 1, 2 }, [6] = { 1, 2, 1, 2, 1, 2 } }

local function options(family, n_stages, micro_batches, way, more)
   local o = {
      family = family, dropout = 0, devices = "cpu:2", stages = n_stages, steps = 8,
      micro_batches = micro_batches, optimizer = "sgd", rate = 3e-3, hypers = {},
      schedule = way == "2bw" and way or "async", staleness = way ~= "2bw" and way or nil,
      longest = true,
   }
   for key, value in pairs(more or {}) do o[key] = value end
   return o
end

--- Calls f with the options on PLACES, with those on a device for each stage, and with the stage of
-- a parameter: the first that reads it, which owns it.
local function placed(o, f)
   files.in_directory(function(dir)
      local own, first = {}, {}
      for key, value in pairs(o) do own[key] = value end
      own.devices = "cpu:" .. o.stages
      local plan = pipeline.plan(own)
      local stage, graph, params = plan.partition.stage, plan.graphs[1], plan.graphs[1]:params()
      for node, s in ipairs(stage) do
         for _, p in ipairs(graph:node(node).params) do
            local name = params[p].name
            first[name] = math.min(first[name] or s, s)
         end
      end
      o.partition = dir .. "/plan.txt"
      core.sys.write_file(o.partition, pipeline.partition_text(stage, PLACES[o.stages], 2))
      f(o, own, function(name) return first[name] - 1 end)
   end)
end

local function compare(o)
   placed(o, function(_, _, stage_of)
      local run, judge = pipeline.train(o), late.train(o, stage_of)
      local most = late.distance(judge.params, run.params)
      assert.is_true(most <= 1e-6 * pipeline.rounding(), ("parameters differ by %g"):format(most))
      pipeline.assert_memory(run.plan, run.measured)
      o.version = function(_, i, _, m) return math.floor(i / m) end -- none of them late
      local other = late.distance(late.train(o, stage_of).params, run.params)
      assert.is_true(other > 1e-4, ("parameters differ by %g"):format(other))
   end)
end

-- Gradients of weights that a stage takes over from another are not divided by the gap: families
-- with gap-aware share none.
local FORMULAS = {
   { "t5", "stash" }, { "t5", "vertical" }, { "gpt2", "stash" }, { "gpt2", "vertical" },
   { "gpt2", "stash+gap-aware" }, { "bert", "vertical" }, { "bert", "stash+gap-aware" },
   { "bert", "vertical+gap-aware" },
}

-- Where nothing older is kept, T5's stages of one device share one copy of the weights that they
-- both use, which other devices have late.
local WAYS = {
   t5 = { "stash", "vertical", "gap-aware", "2bw" },
   gpt2 = { "none", "predict", "gap-aware", "stash+gap-aware" },
   bert = { "none", "predict", "gap-aware", "vertical" },
}

describe("late weights of stages that are not adjacent", function()
   for n_stages in pairs(PLACES) do
      for _, row in ipairs(FORMULAS) do
         local family, way = row[1], row[2]
         it(("have the parameters of the formula: %s, %s, %d stages on 2 devices"):format(family,
            way, n_stages), function()
            local control = way:match("^%a+")
            compare(options(family, n_stages, 2, way, {
               version = late.versions[control], gap_aware = way ~= control,
               tied = way == control,
            }))
         end)
      end
   end

   for family, ways in pairs(WAYS) do
      for _, way in ipairs(ways) do
         it(("compute what they do on devices of their own: %s, %s"):format(family, way), function()
            for n_stages in pairs(PLACES) do
               placed(options(family, n_stages, 8, way), function(o, own)
                  local run, judge = pipeline.train(o), pipeline.train(own)
                  assert.same(judge.losses, run.losses)
                  assert.same(judge.params, run.params)
               end)
            end
         end)
      end
   end
end)

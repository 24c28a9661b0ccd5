--- What flags may say is what the tables of the program have, and what they say of it is so.

local choices = require("ftpipe.plan.choices")
local core = require("ftpipe.core")
local ft = require("ftpipe")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")
local schedules = require("ftpipe.schedule")

local function help_of(script)
   local text = process.ftpipe { script, "--help" }
   return (text:gsub("%s+", " "))
end

describe("choices", function()
   it("are rows of the tables, and reach help", function()
      local help = help_of("recipes/t5_rte.lua")
      assert.equal(#schedules.list(), #choices.schedules)
      for _, row in ipairs(schedules.list()) do
         assert.truthy(help:find(row.name, 1, true))
      end
      for _, row in ipairs(core.schedule.weights()) do
         assert.truthy(help:find(row.name, 1, true))
      end
      for _, row in ipairs(core.engine.optimizers()) do assert.matches(row.name, help) end
      for _, name in ipairs(choices.rates) do
         local rate = { schedule = name, peak = 1, warmup = 0, steps = 9 }
         assert.is_true(core.engine.rate(rate, 1) > 0)
      end
      assert.matches("--lr-schedule " .. table.concat(choices.rates, "|") .. " ",
         help, 1, true)
      for _, name in ipairs(ft.opts.names { seq = {}, mixed = {} }) do
         assert.matches(name, choices.partitions_help)
      end
   end)

   it("say of a schedule and of staleness whether they run as the engine says of whole plans",
      function()
         local function check(schedule, staleness)
            local stages = schedules.interleaves(schedule) and 4 or nil
            local plan = pipeline.plan {
               schedule = schedule, staleness = staleness, devices = "cpu:2", stages = stages,
               steps = 4, micro_batches = 4,
            }
            assert.equal((plan.blueprint:is_executable()), schedules.runs(schedule, staleness),
               schedule .. " " .. (staleness or ""))
         end
         for _, name in ipairs(choices.schedules) do check(name) end
         for _, name in ipairs(choices.staleness) do check("async", name) end
      end)

   it("are what the search tries, but for the judge, replicas and what groups", function()
      local tried = {}
      local found = ft.planner.search("t5-small", {
         devices = "sim:2x11GB", batch = 8, counts = { 4 },
      })
      for _, row in ipairs(found.rows) do tried[row.options.schedule] = true end
      for _, row in ipairs(schedules.list()) do
         local left_out = row.serial or row.replicates or row.groups
         assert.equal(not left_out, tried[row.name] or false, row.name)
      end
   end)
end)

--- Random settings: each is planned and trained to the promised numbers, or refused before the
-- start, in the same words by a plan and by training.
--
--    FTPIPE_SETTINGS=1000 FTPIPE_SEED=2 ftpipe tools/spec.lua spec/settings_spec.lua

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local equality = require("spec.support.equality")
local pipeline = require("spec.support.pipeline")
local placement = require("ftpipe.placement")
local random = require("ftpipe.base.random")
local schedules = require("ftpipe.schedule")

local CASES = tonumber(os.getenv("FTPIPE_SETTINGS")) or 60
local SEED = tonumber(os.getenv("FTPIPE_SEED")) or 1
local STEPS = 4

local function names(rows)
   local list = {}
   for i, row in ipairs(rows) do list[i] = row.name end
   return list
end

local SCHEDULES, STALENESS = names(schedules.list()), names(core.schedule.weights())

local EMBEDDINGS = { t5 = "shared.*", gpt2 = "*.wte.*", bert = "*word_embeddings*" }

--- One of a list; nil where it has `false`.
local function pick(draw, list) return draw:pick(list) or nil end

--- Numbers that sum to n, as --replicas takes them.
local function split(draw, n)
   local list = {}
   while n > 0 do
      list[#list + 1] = pick(draw, { 1, 1, 2, n })
      list[#list] = math.min(list[#list], n)
      n = n - list[#list]
   end
   return table.concat(list, "-")
end

--- Where stages are, which a schedule may not take.
local function place(draw, o, n)
   local how = pick(draw, { "seq", "seq", "mixed", "pipedream", "replicas", "replicas", "random" })
   if schedules.places(o.schedule) and how ~= "replicas" then how = "seq" end
   if how == "replicas" then
      o.replicas = split(draw, n)
   else
      o.partition = how == "random" and equality.at_random(draw:integer(1000)) or how
   end
   local several = pick(draw, { false, false, 2 * n, n + 1 })
   if how ~= "random" and how ~= "pipedream" then o.stages = several end
end

--- Settings number `i`.
local function settings(i)
   local draw, n = random.new(1000 * SEED + i, 7), i % 4 + 1
   local o = {
      steps = STEPS, devices = "cpu:" .. n, schedule = pick(draw, SCHEDULES),
      family = pick(draw, { "t5", "gpt2", "bert" }), clip = pick(draw, { 0, 0.5 }),
      micro_batches = pick(draw, { 2, 4, 4, 8 }), batch = 8,
      recompute = pick(draw, { "never", "always", "auto" }),
      swap = pick(draw, { "never", "never", "always", "activations,optimizer", "task" }),
      optimizer = pick(draw, { "adamw", "sgd", "adafactor" }),
      groups = pick(draw, { false, false, "*weight: decay 0.1, rate 0.5", "frozen" }),
   }
   if o.groups == "frozen" then o.groups = EMBEDDINGS[o.family] .. ": frozen" end
   o.update = o.clip == 0 and pick(draw, { "auto", "auto", "end", "device" }) or "auto"
   if schedules.may_be_stale(o.schedule) then
      o.staleness = pick(draw, STALENESS)
      o.max_staleness = pick(draw, { false, false, false, 0, 1 })
   end
   place(draw, o, n)
   return o
end

--- What a refusal says; anything else is a fault.
local function refusal(problem)
   assert(type(problem) == "table" and problem.status, tostring(problem))
   assert(problem.status ~= "out of memory" and #problem.message > 20, problem.message)
   return problem.message
end

--- Whether all of it is on one device each, and drains: what one device computes.
local function is_as_one(o, plan)
   for _, stage in ipairs(plan.blueprint:stages()) do
      if #stage.devices > 1 then return false end
   end
   return schedules.is_synchronous(o.schedule) or o.max_staleness == 0
end

--- The same by one device, one micro-batch after the other.
local function judge(o)
   local own = copy(o, { devices = "cpu:1", schedule = "sequential", partition = "seq", stages = 1,
      recompute = "never", swap = "never", update = "auto", threaded = false })
   own.replicas, own.staleness, own.max_staleness = nil, nil, nil
   return pipeline.train(own)
end

local function assert_same(a, b, what)
   for _, key in ipairs { "losses", "params" } do
      local found = equality.difference(a[key], b[key], key)
      assert(not found, ("%s: %s"):format(what, found))
   end
end

local function assert_fits(run)
   for d, planned in ipairs(run.planned) do
      assert(run.measured[d].total <= planned.total, "more memory than planned")
   end
end

--- Trains by the settings; how it is judged.
local function train(o)
   local run = pipeline.train(o)
   assert(#run.losses == STEPS)
   assert_fits(run)
   assert_same(pipeline.train(copy(o, { threaded = false })), run, "its replay")
   for s, stage in ipairs(run.plan.blueprint:stages()) do
      assert(equality.difference({ stage.least_staleness, stage.most_staleness },
         run.timeline.staleness[s], "staleness") == nil)
   end
   if not is_as_one(o, run.plan) then return "replayed" end
   assert_same(judge(o), run, "one device")
   return "as one"
end

--- What becomes of the settings: "refused", "replayed", "as one".
local function try(o)
   local planned, plan = pcall(function() return pipeline.plan(o):check() end)
   if planned then return train(o) end
   local words = refusal(plan)
   local trained, problem = pcall(pipeline.train, o)
   assert(not trained, "training took what a plan refuses: " .. words)
   assert(refusal(problem) == words, words .. "\n" .. problem.message)
   return "refused", words
end

local function describe_settings(o)
   local list = {}
   for key, value in pairs(o) do
      list[#list + 1] = ("%s = %s"):format(key, placement.title(value))
   end
   table.sort(list)
   return table.concat(list, ", ")
end

describe("any settings", function()
   it("train to what is promised, or are refused before the start", function()
      local counts = { refused = 0, replayed = 0, ["as one"] = 0 }
      for i = 1, CASES do
         local o = settings(i)
         local ok, kind, words = pcall(try, o)
         assert(ok, ("settings %d of seed %d (%s): %s"):format(i, SEED, describe_settings(o),
            type(kind) == "table" and kind.message or tostring(kind)))
         counts[kind] = counts[kind] + 1
         if words and os.getenv("FTPIPE_SETTINGS") then print(i, words) end
      end
      -- nothing is left out by chance
      assert(counts.refused < CASES / 2, "most are refused")
      assert(counts.replayed > CASES / 8 and counts["as one"] > CASES / 8)
   end)
end)

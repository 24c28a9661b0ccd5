--- What asynchronous training costs in quality: the embedded recipes with several seeds, on several
-- cuts, beside their synchronous runs.
--
--    ftpipe bench/staleness.lua [--recipes t5_rte,...] [--devices 2,3,4] [--profiles NAME,...]
--       [--seeds N] [--jobs N] [--log FILE] [--flags "--lr-schedule constant"] [--report]
--       [--controls]
--
-- With --controls, what each way with late weights gives: the newest weights kept ahead (the
-- default), as they are, and every --staleness; one device that drains is beside them, by the same
-- rate. Runs are evaluated every so many steps, which drains them too; "reached" is the first
-- of these evaluations, of those whose value is within 2 % of the mean that the sequential runs end
-- with, and the time is that of so many steps as the plan's simulation has them: a busy machine
-- changes neither. Means have 95 % intervals by Student's distribution.
--
-- What a run computes depends on its seed and its plan alone, so a busy machine changes no figure
-- here; a measured profile may cut elsewhere, which is why the cut is printed: the operators in each
-- stage. Synchronous results do not depend on devices, so one device gives them. Every run is a
-- process of its own, so many at a time.
--
-- With --log, every run that is over stands in FILE, a line each, and is not made again: the same
-- command goes on where it was stopped, and a larger one (more seeds, more devices) adds to it.
-- Another program is another FILE. --report makes no runs: it prints what FILE has.

local ft = require("ftpipe")
local core = require("ftpipe.core")

local function names_of(text)
   local items = {}
   for item in text:gmatch("[^,%s]+") do items[#items + 1] = item end
   return items
end

local args = ft.args {
   "What asynchronous training costs in quality.",
   recipes = { type = "string", value = "NAMES",
      default = "t5_rte,t5_wic,t5_boolq,t5_multirc,gpt2_wikitext2,bert_squad", help = "which" },
   devices = { type = "string", value = "NUMBERS", default = "2,3,4", help = "numbers of devices" },
   profiles = { type = "string", value = "NAMES", default = "measured,modelled",
      help = "costs that stages are balanced by" },
   seeds = { type = "int", min = 1, default = 10, help = "seeds 1 to N" },
   jobs = { type = "int", min = 1, default = 2, help = "runs at a time" },
   log = { type = "string", value = "FILE", help = "runs that were made, a line each" },
   controls = { type = "boolean", default = false, help = "each way with late weights, beside" },
   every = { type = "int", min = 1, default = 100, help = "steps between its evaluations" },
   report = { type = "boolean", default = false, help = "print what --log has, make no runs" },
   flags = { type = "string", value = "TEXT", default = "",
      help = "more flags of the asynchronous runs" },
}

-- ---------------------------------------------------------------------------------------------
-- Runs.

local known = {} -- results by key: { metric =, value =, cut = }

local function remember(key, result)
   known[key] = result
   if not args.log then return end
   local file = assert(io.open(args.log, "a"))
   file:write(core.json.encode { key = key, result = result }, "\n")
   file:close()
end

local function read_log()
   local file = args.log and io.open(args.log)
   if not file then return end
   local text = file:read("*a")
   file:close()
   for line in text:gmatch("([^\n]*)\n") do
      local row = core.json.decode(line)
      known[row.key] = row.result
   end
   local rest = text:match("[^\n]+$") -- of a line during which the machine stopped
   if rest then core.sys.write_file(args.log, text:sub(1, #text - #rest)) end
end

--- Operators in each run of one stage, from a plan file: "26 50".
local function cut_of(plan)
   return (plan:match("\nnode%-stage ([^\n]*)"):gsub("%d+%*(%d+)", "%1"))
end

--- Evaluations of a run: { step, value } of each.
local function curve_of(metrics)
   local list = {}
   for line in metrics:gmatch("[^\n]+") do
      local row = core.json.decode(line)
      if row.eval_loss then list[#list + 1] = { row.step, row.value } end
   end
   return list
end

--- Starts a run; gives a function that waits for it and gives its result.
local function start(recipe, flags)
   local directory = os.tmpname()
   os.remove(directory)
   local pipe = assert(io.popen(("'%s' recipes/%s.lua %s --out %s 2>&1"):format(
      core.sys.executable(), recipe, flags, directory)))
   return function()
      local said = pipe:read("*a")
      pipe:close()
      if not core.sys.exists(directory .. "/summary.json") then
         error(("%s %s ended without a result:\n%s"):format(recipe, flags, said), 0)
      end
      local summary = core.json.decode(core.sys.read_file(directory .. "/summary.json"))
      local cut = cut_of(core.sys.read_file(directory .. "/plan.txt"))
      local result = { metric = summary.metric, value = summary.value, cut = cut,
         better = summary.better, step_s = summary.step_seconds_predicted,
         curve = curve_of(core.sys.read_file(directory .. "/metrics.jsonl")) }
      os.execute(("rm -rf '%s'"):format(directory))
      return result
   end
end

--- Makes the runs { recipe =, flags = } that are not known, so many at a time.
local function make(runs)
   local waiting = {}
   local function finish()
      local first = table.remove(waiting, 1)
      remember(first.key, first.wait())
   end
   for _, run in ipairs(runs) do
      if not known[run.key] then
         if #waiting == args.jobs then finish() end
         waiting[#waiting + 1] = { key = run.key, wait = start(run.recipe, run.flags) }
      end
   end
   while #waiting > 0 do finish() end
end

-- ---------------------------------------------------------------------------------------------
-- The table.

--- The cuts of runs, each once.
local function cuts_of(results)
   local seen, cuts = {}, {}
   for _, result in ipairs(results) do
      if not seen[result.cut] then cuts[#cuts + 1] = result.cut end
      seen[result.cut] = true
   end
   return table.concat(cuts, "; ")
end

local function print_row(recipe, name, results)
   local sum, least, most, values = 0, math.huge, -math.huge, {}
   for i, result in ipairs(results) do
      local value = result.value
      sum, least, most = sum + value, math.min(least, value), math.max(most, value)
      values[i] = (value < 10 and "%.3f" or "%.1f"):format(value)
   end
   print(("%-15s %-12s mean %6.2f  from %6.2f to %6.2f | %s | %s | %s"):format(recipe, name,
      sum / #results, least, most, table.concat(values, " "), results[1].metric, cuts_of(results)))
end

--- A row of the table: one recipe and plan, all seeds; of those that were made, with --report.
local function row(recipe, name, flags)
   local runs, results = {}, {}
   for seed = 1, args.seeds do
      local all = ("%s --seed %d"):format(flags, seed)
      runs[seed] = { recipe = recipe, flags = all, key = recipe .. " " .. all }
   end
   if not args.report then make(runs) end
   for _, run in ipairs(runs) do results[#results + 1] = known[run.key] end
   if #results > 0 then print_row(recipe, name, results) end
end

-- ---------------------------------------------------------------------------------------------
-- Ways with late weights.

-- By degrees of freedom: how many standard errors hold 95 % of Student's distribution.
local STUDENT = { 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262 }

local WITHIN = 0.02 -- of the mean that sequential runs end with

--- Mean, and half of its 95 % interval (nil of one value).
local function mean_of(values)
   local sum, squares, n = 0, 0, #values
   for _, value in ipairs(values) do sum = sum + value end
   if n < 2 then return sum / n end
   for _, value in ipairs(values) do squares = squares + (value - sum / n) ^ 2 end
   return sum / n, (STUDENT[n - 1] or 1.96) * math.sqrt(squares / (n - 1) / n)
end

--- Ways with late weights: { name, flags }, the sequential run first.
local function ways(devices, profile)
   local own = ("--devices cpu:%s --profile %s --eval-every %d %s "):format(devices, profile,
      args.every, args.flags)
   local list = {
      { "sequential", ("--schedule sequential --devices cpu:1 --profile modelled --eval-every %d "
         .. "--lr-schedule cooldown"):format(args.every) },
      { "ahead", own .. "--schedule async --lr-schedule cooldown" },
      { "newest", own .. "--schedule async --lr-schedule cooldown --look-ahead none" },
   }
   for _, way in ipairs(core.schedule.weights()) do
      if way.name ~= "none" and ft.schedule.runs("async", way.name) then
         list[#list + 1] = { way.name, own .. "--schedule async --lr-schedule cooldown --staleness "
            .. way.name }
      end
   end
   return list
end

--- The value at the last step, whatever was better before.
local function last_of(result) return result.curve[#result.curve][2] end

--- The first step whose evaluation is as good as the goal; nil: none was.
local function reached(result, goal)
   for _, point in ipairs(result.curve) do
      local short = result.better == "lower" and point[2] - goal or goal - point[2]
      if short <= 0 and point[1] > 0 then return point[1] end
   end
   return nil
end

local function print_way(recipe, name, results, goal)
   local last, steps, seconds, values, fails = {}, {}, {}, {}, 0
   for i, result in ipairs(results) do
      last[i] = last_of(result)
      values[i] = (last[i] < 10 and "%.3f" or "%.1f"):format(last[i])
      local step = reached(result, goal)
      if step then steps[#steps + 1] = step else fails = fails + 1 end
      if step and result.step_s then seconds[#seconds + 1] = step * result.step_s end
   end
   local mean, half = mean_of(last)
   local time = #seconds > 0 and ("%6.2f s"):format((mean_of(seconds))) or "       -"
   print(("%-15s %-11s %8.3f %s  reached by %d of %d, after %5s steps, %s | %s"):format(recipe, name,
      mean, half and ("+- %6.3f"):format(half) or "         ", #steps, #steps + fails,
      #steps > 0 and ("%.0f"):format((mean_of(steps))) or "-", time, table.concat(values, " ")))
end

--- The results of a way, by seed: those that are known.
local function results_of(recipe, flags)
   local list = {}
   for seed = 1, args.seeds do
      list[#list + 1] = known[("%s %s --seed %d"):format(recipe, flags, seed)]
   end
   return list
end

--- Every way with late weights, seed by seed, so that what is there is comparable at any time.
local function compare_ways(recipes, devices, profile)
   local list, runs = ways(devices, profile), {}
   for seed = 1, args.seeds do
      for _, recipe in ipairs(recipes) do
         for _, way in ipairs(list) do
            local flags = ("%s --seed %d"):format(way[2], seed)
            runs[#runs + 1] = { recipe = recipe, flags = flags, key = recipe .. " " .. flags }
         end
      end
   end
   if not args.report then make(runs) end
   for _, recipe in ipairs(recipes) do
      local judge = results_of(recipe, list[1][2])
      if #judge > 0 then
         local last = {}
         for i, result in ipairs(judge) do last[i] = last_of(result) end
         local goal = mean_of(last) * (judge[1].better == "lower" and 1 + WITHIN or 1 - WITHIN)
         print(("%s, %s, on %s devices, cut by costs that are %s; goal: %.3f"):format(recipe,
            judge[1].metric, devices, profile, goal))
         for _, way in ipairs(list) do
            local results = results_of(recipe, way[2])
            if #results > 0 then print_way(recipe, way[1], results, goal) end
         end
      end
   end
end

io.stdout:setvbuf("line")
read_log()
if args.controls then
   for _, devices in ipairs(names_of(args.devices)) do
      for _, profile in ipairs(names_of(args.profiles)) do
         compare_ways(names_of(args.recipes), devices, profile)
      end
   end
   return
end
for _, recipe in ipairs(names_of(args.recipes)) do
   row(recipe, "1f1b", "--schedule 1f1b --devices cpu:1 --profile modelled")
   for _, devices in ipairs(names_of(args.devices)) do
      for _, profile in ipairs(names_of(args.profiles)) do
         row(recipe, ("%s %s"):format(devices, profile),
            ("--schedule async --devices cpu:%s --profile %s %s"):format(devices, profile,
               args.flags))
      end
   end
end

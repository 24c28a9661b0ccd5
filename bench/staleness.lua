--- What asynchronous training costs in quality: the embedded recipes with several seeds, on several
-- cuts, beside their synchronous runs.
--
--    ftpipe bench/staleness.lua [--recipes t5_rte,...] [--devices 2,3,4] [--profiles NAME,...]
--       [--seeds N] [--jobs N] [--log FILE] [--flags "--lr-schedule constant"] [--report]
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

local function list(text)
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
      os.execute(("rm -rf '%s'"):format(directory))
      return { metric = summary.metric, value = summary.value, cut = cut }
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

io.stdout:setvbuf("line")
read_log()
for _, recipe in ipairs(list(args.recipes)) do
   row(recipe, "1f1b", "--schedule 1f1b --devices cpu:1 --profile modelled")
   for _, devices in ipairs(list(args.devices)) do
      for _, profile in ipairs(list(args.profiles)) do
         row(recipe, ("%s %s"):format(devices, profile),
            ("--schedule async --devices cpu:%s --profile %s %s"):format(devices, profile,
               args.flags))
      end
   end
end

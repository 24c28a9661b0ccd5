--- Many runs of one recipe or command, and which is best: what `ftpipe sweep FILE.lua` reads.
--
--    return ft.sweep {
--       run = { "recipes/t5_rte.lua", steps = 100, eval_every = 25 },
--       space = { lr = ft.sweep.log(1e-4, 3e-3), clip = { 0, 1 } },
--       method = "tpe", trials = 12, prune = { kind = "asha", min = 25 },
--    }
--
-- `run` is what stands on a command line: words, and flags by their names with what they are in
-- every trial. `space` has the flags that change. Of a recipe counts the value of its metric on
-- held-out data; of a command, which has to print JSON, the number that `metric` names in it
-- ("seconds_per_batch"; a dot goes into objects).

local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local guard = require("ftpipe.base.guard")
local methods = require("ftpipe.sweep.methods")
local opts = require("ftpipe.base.opts")
local prunes = require("ftpipe.sweep.prune")
local spaces = require("ftpipe.sweep.space")

local M = {}
local Sweep = { __name = "sweep" }

local RULES = {
   run = { type = "table", required = true, help = "words and flags of a trial's command line" },
   space = { type = "table", required = true, help = "flags that change: lists, or ranges" },
   metric = { type = "string", help = "a number that a trial left; a recipe's own if absent" },
   goal = { choices = { "max", "min" }, help = "of the metric; a recipe's own if absent" },
   method = { choices = methods.names, default = "tpe", help = "what is tried next" },
   trials = { type = "int", min = 1, help = "at most; all there are when absent" },
   time = { type = "seconds", above = 0, help = "after which no trial begins" },
   grid_steps = { type = "int", min = 1, default = 5, help = "of a range, with method grid" },
   prune = { type = "table", help = "when a trial is given up: kind, min, eta" },
   jobs = { type = "int", min = 1, default = 1, help = "trials at once, on CPUs of their own" },
   seed = { type = "int", min = 0, max = 2 ^ 31, default = 1, help = "of what is tried" },
}

local PRUNE = {
   kind = { choices = prunes.names, required = true, help = "rule" },
   min = { type = "int", min = 1, required = true, help = "steps before the first decision" },
   eta = { type = "int", min = 2, default = 3, help = "of asha: the best one in so many goes on" },
}

function Sweep:__tostring()
   return ("sweep of %s: %s, %s"):format(table.concat(self.run, " "), self.method,
      self.trials and counted(self.trials, "trial") or "no limit of trials")
end

--- The flags of `run`, also of those that are written as words, with the words in which they are.
local function flags_of(run)
   local flags = {}
   for key, value in pairs(run) do
      local name = key
      if type(key) == "string" then
         spaces.check_flag("run", key, value)
      elseif type(value) ~= "string" then
         opts.fail("ft.sweep", "run[%s] is a %s, expected a word", tostring(key), type(value))
      else
         name = value:match("^%-%-([^=]+)")
         name = name and name:gsub("%-", "_")
         value = value:match("=(.*)$") or run[key + 1] or ""
      end
      if name and flags[name] then opts.fail("ft.sweep", "run says %s twice", name) end
      if name then flags[name] = tostring(value) end
   end
   return flags
end

--- Refuses a command line that is none, or that says a flag twice.
local function check_run(o)
   local flags = flags_of(o.run)
   for _, parameter in ipairs(o.parameters) do
      if flags[parameter.name] then
         opts.fail("ft.sweep", "%s is in run and in space", parameter.name)
      end
   end
   for _, name in ipairs(o.is_recipe and { "out", "resume" } or {}) do
      if flags[name] or o.space[name] ~= nil then
         opts.fail("ft.sweep", "%s: the sweep gives each trial of a recipe its own", name)
      end
   end
   for _, devices in ipairs { flags.devices or "cpu", unpack(o.space.devices or {}) } do
      if o.is_recipe and (tonumber(tostring(devices):match("^hosts:(%d+)")) or 1) > 1 then
         opts.fail("ft.sweep", "devices %s are of several processes, and a trial is one: give it "
            .. "those of this machine, as cpu:2", devices)
      end
   end
end

--- Refuses what the method, or the rule by which trials are given up, does not go by.
local function check_idle(o, definition)
   if definition.grid_steps and o.method ~= "grid" then
      opts.fail("ft.sweep", "grid_steps is for method grid, and method %s has no steps: leave it "
         .. "out", o.method)
   end
   if o.prune then
      local eta = o.prune.eta
      o.prune = opts.check("ft.sweep: prune", PRUNE, o.prune)
      if eta and o.prune.kind ~= "asha" then
         opts.fail("ft.sweep: prune", "eta is for kind asha, and kind %s has none: leave it out",
            o.prune.kind)
      end
   end
end

--- A sweep, checked.
-- @tparam table definition
-- @treturn sweep the options with their defaults, and `parameters`, sorted by name
function M.new(definition)
   local o = opts.check("ft.sweep", RULES, definition)
   if type(o.run[1]) ~= "string" then
      opts.fail("ft.sweep", "run begins with a recipe or a command, as \"recipes/t5_rte.lua\"")
   end
   o.parameters = spaces.parameters(o.space)
   check_idle(o, definition)
   local size = methods.size(o.method, o.parameters, o)
   if size then o.trials = math.min(o.trials or size, size) end
   o.is_recipe = core.sys.exists(o.run[1]) == "file"
   check_run(o)
   if not o.is_recipe and o.run[1]:match("%.lua$") then
      opts.fail("ft.sweep", "run: there is no file '%s'", o.run[1])
   end
   if o.is_recipe and (o.metric == nil) ~= (o.goal == nil) then
      opts.fail("ft.sweep", "metric and goal go together; without both the recipe's own metric "
         .. "counts, which it says to be better when higher or lower")
   end
   if not o.is_recipe and not (o.metric and o.goal) then
      opts.fail("ft.sweep", "'%s' is no recipe: of a command, metric and goal say what counts",
         o.run[1])
   end
   if o.prune and not o.is_recipe then
      opts.fail("ft.sweep", "prune: '%s' is no recipe, which alone evaluates on its way", o.run[1])
   end
   return setmetatable(o, Sweep)
end

--- Numbers from low to high, where each factor is as likely as another.
-- @tparam number low above 0
-- @tparam number high
function M.log(low, high) return spaces.range(low, high, "log") end

--- Numbers from low to high.
-- @tparam number low
-- @tparam number high
function M.linear(low, high) return spaces.range(low, high, "linear") end

--- Whole numbers from low to high.
-- @tparam int low
-- @tparam int high
function M.whole(low, high) return spaces.range(low, high, "linear", true) end

--- Refuses a sweep that would go on for ever; flags may have bounded what the file does not.
-- @local
function M.check_end(sweep)
   if not sweep.trials and not sweep.time then
      opts.fail("ft.sweep", "method %s does not end by itself in this space: give trials or time, "
         .. "or --trials or --time", sweep.method)
   end
end

--- Whether a value is what ft.sweep gives.
-- @local
function M.is(value) return getmetatable(value) == Sweep end

M.takes = { ["ft.sweep"] = RULES }

guard("ft.sweep", M, {
   log = "low: number, high: number", linear = "low: number, high: number",
   whole = "low: int, high: int",
})

return setmetatable(M, { __call = function(_, definition) return M.new(definition) end })

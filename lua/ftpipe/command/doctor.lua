--- ftpipe doctor: what this machine has, and what to do next.

local args = require("ftpipe.recipe.args")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local cuda = require("ftpipe.placement.cuda")
local hub = require("ftpipe.model.hub")
local links = require("ftpipe.placement.links")
local processor = require("ftpipe.base.processor")
local shared = require("ftpipe.base.shared")
local units = require("ftpipe.base.units")

local M = { help = "what this machine has for ftpipe, and what to do next" }

M.declared = {
   "Says what this machine has: cores, libraries, memory, devices with their measured rates,\n"
      .. "links that were measured, models on disk, and what to try first. Exit code 1 when\n"
      .. "something keeps ftpipe from running.",
   "ftpipe doctor",
   "ftpipe doctor --quick",
   quick = { type = "boolean", default = false, help = "measure nothing" },
   format = { choices = { "table", "json" }, default = "table", help = "what is printed" },
}

local MODELS_MOST = 8 -- that are named

local function machine()
   return ("%s, %s%s"):format(processor(), counted(core.sys.cores(), "core"),
      core.sys.has_bf16() and ", bf16 products" or ", no bf16 products: f32 is faster")
end

--- Directories with a config.json below some well known ones.
local function models()
   local found = {}
   local function look(path)
      if core.sys.exists(path) ~= "directory" then return end
      for _, name in ipairs(core.sys.list_dir(path)) do
         local dir = path .. "/" .. name
         local snapshots = dir .. "/snapshots"
         if core.sys.exists(dir .. "/config.json") == "file" then found[#found + 1] = dir end
         if core.sys.exists(snapshots) == "directory" then look(snapshots) end
      end
   end
   for _, path in ipairs { hub.root(), "models", "." } do pcall(look, path) end
   return found, hub.root()
end

--- Rates of the devices of this machine as they are, all of them working; none where "cpu" means
-- others than its cores.
local function devices(quick)
   local list, measure = {}, not quick and core.engine.devices("cpu")[1].in_host
   local cluster = require("ftpipe.placement.cluster").new("cpu", { measure = measure })
   for i, device in ipairs(cluster) do
      list[i] = { name = device.name, memory_bytes = device.memory_bytes,
         flops = measure and device.flops_per_s or nil,
         bytes_per_s = measure and device.bytes_per_s or nil }
   end
   return list
end

--- Cards with their budgets, or why there are none to compute on.
local function cards()
   local there, why = cuda.available()
   if not there then return "none: " .. why end
   local names = {}
   for i, card in ipairs(cuda.devices()) do
      names[i] = ("%s, budget %s"):format(card.name, units.format_bytes(card.memory_bytes))
   end
   return table.concat(names, "; ")
end

--- What the program works with: Lua, the index of sweeps, several processes.
local function libraries()
   local database = core.database.open(":memory:")
   local sqlite = database:run("SELECT sqlite_version() AS version")[1].version
   database:close()
   return { type(jit) == "table" and jit.version or _VERSION, "SQLite " .. sqlite,
      core.ranks.module() and "module for MPI" or "no module for MPI: one process" }
end

--- What keeps ftpipe from running here.
local function problems()
   local list = {}
   if core.sys.memory() < 1e9 then
      list[#list + 1] = "less than 1 GB of memory may be used; the recipes need some 300 MB"
   end
   if not core.sys.may_write(".") then
      list[#list + 1] = "nothing can be written in this directory; --out elsewhere"
   end
   return list
end

local function report(data)
   print("ftpipe    " .. core.version)
   print("machine   " .. data.machine)
   print("libraries " .. table.concat(data.libraries, ", "))
   print(("memory    %s for this process"):format(units.format_bytes(data.memory_bytes)))
   for _, device in ipairs(data.devices) do
      local rates = device.flops and (", %.1f GFLOP/s, copies %s/s"):format(device.flops / 1e9,
         units.format_bytes(device.bytes_per_s)) or ""
      print(("device    %s, budget %s%s"):format(device.name,
         units.format_bytes(device.memory_bytes), rates))
   end
   for _, line in ipairs(data.links) do print("links     " .. line) end
   print("gpu       " .. data.gpu)
   for i = 1, math.min(#data.models, MODELS_MOST) do print("model     " .. data.models[i]) end
   if #data.models == 0 then
      print(("model     none in %s or here; tiny ones of T5, GPT-2 and BERT are inside"):format(
         data.hub))
   elseif #data.models > MODELS_MOST then
      print(("          and %d more"):format(#data.models - MODELS_MOST))
   end
   for _, problem in ipairs(data.problems) do print("problem   " .. problem) end
   local recipe = shared("recipes/t5_rte.lua") or "recipes/t5_rte.lua"
   print(("next      %-48s a minute, nothing to download"):format("ftpipe " .. recipe))
   print("          ftpipe plan t5-3b --devices sim:4x11GB --search  hardware that is not here")
   if data.models[1] then
      print(("          ftpipe %s --model %s --dry-run"):format(recipe, data.models[1]))
   end
end

--- @tparam {string,...} argv the words after "doctor"
function M.run(argv)
   local flags = args.read(M.declared, argv, "doctor")
   local found, cache = models()
   local data = {
      version = core.version, machine = machine(), memory_bytes = core.sys.memory(),
      libraries = libraries(), devices = devices(flags.quick), gpu = cards(),
      models = found, hub = cache, links = links.kept(), problems = problems(),
   }
   if flags.format == "json" then
      data.models, data.problems = core.json.array(data.models), core.json.array(data.problems)
      data.devices, data.links = core.json.array(data.devices), core.json.array(data.links)
      print(core.json.encode(data, { indent = 2, sort = true }))
   else
      report(data)
   end
   if #problems() > 0 then os.exit(1, true) end
end

return M

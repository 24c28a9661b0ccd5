--- ftpipe profile MODEL: what every operator of a model costs on a device, measured or modelled.

local checks = require("ftpipe.model.check")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local directories = require("ftpipe.store.directory")
local keys = require("ftpipe.base.keys")
local links = require("ftpipe.placement.links")
local named = require("ftpipe.base.named")
local args = require("ftpipe.recipe.args")
local argvs = require("ftpipe.base.argv")
local models = require("ftpipe.model")
local precision = require("ftpipe.trained.precision")
local profiles = require("ftpipe.profile")
local usage = require("ftpipe.base.usage")

local M = { help = "what every operator of a model costs on a device" }

M.declared = {
   "What every operator of a model costs on a device, and how well their sum agrees with a whole\n"
      .. "step. CPU devices and cards are measured, described ones (sim:) modelled.",
   "ftpipe profile t5-small --devices cpu:2 --batch 2 --out t5-small.profile",
   "ftpipe profile gpt2 --devices cuda:0 --precision bf16 --batch 4 --max-source 1024",
   "ftpipe profile t5-base --devices sim:4x8GB --calibrate t5-small.profile",
   "mpirun -n 2 ftpipe profile --links --devices cpu:1",
   "ftpipe profile t5-3b --devices sim:8x2080ti --batch 4 --out t5-3b.profile",
   model = { default = "t5-small" },
   devices = true,
   batch = { default = 1, help = "samples of a micro-batch" },
   max_source = true, max_target = true, dropout = true, precision = true,
   optimizer = { help = "update rule that is measured; of what is modelled it is AdamW" },
   recompute_too = { type = "boolean", default = false, help = "forward run again for backward" },
   seconds = { type = "number", min = 0, default = 4, help = "of measuring, about" },
   calibrate = { type = "string", value = "FILE",
      help = "a measured profile that corrects what is modelled, operator by operator" },
   links = { type = "boolean", default = false,
      help = "the ways between the processes that mpirun has started, instead" },
   out = { type = "string", value = "FILE", help = "where to write the profile" },
}

--- The devices of so many processes as a list that means the same anywhere.
-- @tparam string devices those that are asked for: of all processes, or of one
-- @tparam int n processes
local function devices_of(devices, n)
   local list = core.engine.devices(devices)
   local ranks = list[#list].rank + 1
   if devices:find("^hosts:") and ranks ~= n then
      usage("--devices %s is of %s, and %s started", devices, counted(ranks, "process",
         "processes"), counted(n, "was", "were"))
   elseif not list[1].executes then
      usage("--devices %s are not here, and --links measures between processes that are: expected "
         .. "what each has, as cpu:1", devices)
   end
   devices = devices:gsub("cpu$", "cpu:" .. #list / ranks) -- as many as there are here
   return devices:find("^hosts:") and devices or ("hosts:%dx%s"):format(n, devices)
end

--- A line for each pair that was measured, and all of it as ft.cluster takes it.
-- @tparam string devices those that are asked for
local function print_links(devices)
   local all = core.ranks.all()
   devices = all and devices_of(devices, #all)
   local found = links.find(true)
   for _, way in ipairs(found.ways) do
      print(("rank %d and rank %d (host %s): %.1f us%s, %.3f GB/s there, %.3f GB/s back"):format(
         way.from, way.to, found.hosts[way.to + 1], way.latency_ns / 1e3,
         links.asks(way.eager_bytes), way.to_bytes_per_s / 1e9, way.from_bytes_per_s / 1e9))
   end
   print(links.text(links.description(devices, found)))
end

--- Ways between processes need no model, nor what is said of one.
local function refuse_of_operators(given)
   for _, name in ipairs(keys(given)) do
      if name ~= "links" and name ~= "devices" then
         usage("--%s is of operators, --links measures ways between processes; leave one of them "
            .. "out", name:gsub("_", "-"))
      end
   end
end

--- @tparam {string,...} argv words after the sub-command's name
function M.run(argv)
   local model_name = argvs.word(argv)
   if model_name then
      for _, word in ipairs(argv) do
         if word == "--model" or word:find("^%-%-model=") then
            usage("profile has a model already, %s; leave --model out", model_name)
         end
      end
      table.insert(argv, 1, "--model=" .. model_name)
   end
   local o, given = args.read(M.declared, argv, "profile MODEL")
   if o.links then
      refuse_of_operators(given)
      return print_links(o.devices)
   end
   if o.out then directories.check_written(o.out) end
   local model = models.open(named.flags { model = o.model, init = "random" })
   if given.max_target then checks.answers(model, o) end
   local devices = core.engine.devices(o.devices)
   local device = devices[1]
   precision.check_rates(o, devices)
   local measure = device.measures and not o.calibrate
   for _, name in ipairs { "seconds", "optimizer", "recompute_too" } do
      if given[name] and not measure then
         usage("--%s is of measuring, and %s is modelled; leave one of them out",
            name:gsub("_", "-"), o.calibrate and "--calibrate" or "--devices " .. o.devices)
      end
   end
   local graph = model.family.training(model.config, named.like(o, {
      batch = o.batch, source = o.max_source, target = o.max_target,
      dropout = o.dropout or model.config.dropout_rate,
   }))
   precision.apply(o.precision, graph, device)
   local profile = profiles(graph, o.devices, {
      fresh = measure, whole = measure and device.in_host, dtype = o.precision,
      before = function(seconds)
         local slow = profiles.slow_words(o.batch, seconds)
         if slow then io.stderr:write(slow, "\n") end
      end,
      optimizer = o.optimizer, seconds = o.seconds, recompute = o.recompute_too,
      calibrate = o.calibrate and profiles.load(o.calibrate):calibration(),
   })
   print(profile)
   if o.out then profile:save(o.out) end
end

return M

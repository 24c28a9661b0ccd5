--- Small trainings that several processes and one have to do alike: what spec/several_spec.lua
-- runs here, and in processes of its own.

local core = require("ftpipe.core")
local pipeline = require("spec.support.pipeline")

local M = {}

local function case(name, options) return { name = name, options = options } end

--- Those for so many devices.
function M.of(devices)
   local by_number = {
      [2] = {
         case("sequential", { schedule = "sequential" }),
         case("gpipe, gpt2, recomputed", { schedule = "gpipe", family = "gpt2",
            recompute = "always" }),
         case("1f1b, bert, clipped", { family = "bert", clip = 0.5 }),
         case("zero-bubble", { schedule = "zero-bubble" }),
         case("interleaved", { schedule = "interleaved", stages = 4 }),
         case("zb-v", { schedule = "zb-v", stages = 4 }),
         case("async", { schedule = "async" }),
         case("async, clipped", { schedule = "async", clip = 0.5 }),
         case("async, stash", { schedule = "async", staleness = "stash" }),
         case("async, predict", { schedule = "async", staleness = "predict" }),
         case("2bw", { schedule = "2bw" }),
         case("data-parallel", { schedule = "data-parallel" }),
         case("harmony-pp, swapped", { schedule = "harmony-pp", swap = "task" }),
         case("harmony-pp, joint", { schedule = "harmony-pp", swap = "task", stages = 4,
            forward_micro_batches = 2 }),
         case("harmony-dp, joint", { schedule = "harmony-dp", swap = "task", stages = 4,
            forward_micro_batches = 2, family = "bert" }),
      },
      [4] = {
         case("1f1b", {}),
         case("1f1b, mixed", { partition = "mixed", stages = 8 }),
         case("async, gap-aware", { schedule = "async", staleness = "gap-aware" }),
         case("async, vertical", { schedule = "async", staleness = "vertical" }),
         case("replicas", { replicas = "2-2" }),
      },
   }
   return by_number[devices]
end

--- What came of a case on a device list: losses, and a digest of all parameters.
-- @param[opt] shape other options of all cases: steps, layers, batch
function M.train(which, devices, shape)
   local options = { devices = devices, steps = 5 }
   for key, value in pairs(shape or {}) do options[key] = value end
   for key, value in pairs(which.options) do options[key] = value end
   local done, result = pcall(pipeline.train, options)
   if not done then return which.name .. ": " .. tostring(result) end
   local names, lines = {}, {}
   for name in pairs(result.params) do names[#names + 1] = name end
   table.sort(names)
   for _, name in ipairs(names) do lines[#lines + 1] = core.json.encode(result.params[name]) end
   local losses = {}
   for i, loss in ipairs(result.losses) do losses[i] = ("%.17g"):format(loss) end
   return ("%s: %s %s"):format(which.name, table.concat(losses, " "),
      core.sys.sha256(table.concat(lines)))
end

--- Prints a line for each.
function M.print(devices, list, shape)
   for _, which in ipairs(M.of(devices)) do print(M.train(which, list, shape)) end
end

return M

--- Tasks of Harmony's two schedules: packs of layers, all micro-batches of a pack as one task.
--
-- Li et al., "Harmony: Overcoming the Hurdles of GPU Memory Capacity to Train Massive DNN Models on
-- Commodity Servers", VLDB 2022. Forward packs run in ascending order, then every backward pack is
-- followed at once by the update of its layers. In a *pipeline* the tasks go round the devices in
-- turn and every device sees all samples; with *data* parallelism every device runs all tasks on
-- its share. The last backward pack holds the loss: its forward is its own recomputation.

local class = require("ftpipe.base.class")
local core = require("ftpipe.core")
local opts = require("ftpipe.base.opts")

local M = {}

local rules = {
   mode = { choices = { "pipeline", "data" }, default = "pipeline", help = "what devices share" },
   devices = { type = "int", min = 1, required = true, help = "that work" },
   samples = { type = "int", min = 1, required = true, help = "of an update, on all devices" },
   forward_micro = { type = "int", min = 1, required = true, help = "samples of a micro-batch" },
   backward_micro = { type = "int", min = 1, required = true, help = "samples of a micro-batch" },
   forward_packs = { type = "table", required = true, help = "{ first, last } layers, ascending" },
   backward_packs = { type = "table", required = true, help = "the same, with the last layer" },
}

--- Samples cut into micro-batches of `size`, and one of the rest.
function M.split(samples, size)
   local sizes = {}
   for _ = 1, math.floor(samples / size) do sizes[#sizes + 1] = size end
   if samples % size > 0 then sizes[#sizes + 1] = samples % size end
   return sizes
end

--- Packs of so many layers, the remainder first.
function M.constant_packs(n_layers, size)
   local packs, last = {}, n_layers
   while last > 0 do
      table.insert(packs, 1, { math.max(1, last - size + 1), last })
      last = last - size
   end
   return packs
end

--- The stages of a partition of a chain of layers, as packs.
function M.packs_of(stage)
   local packs = {}
   for layer, s in ipairs(stage) do
      packs[s] = packs[s] or { layer, layer }
      packs[s][2] = layer
   end
   return packs
end

local function refuse(format, ...)
   core.fail("invalid argument", "swap: " .. format:format(...))
end

local function check_tiles(name, packs, last)
   local at = 1
   for i, pack in ipairs(packs) do
      if pack[1] ~= at or pack[2] < pack[1] then
         refuse("%s[%d] is layers %s to %s, expected it to begin with layer %d", name, i,
            class.told(pack[1]), class.told(pack[2]), at)
      end
      at = pack[2] + 1
   end
   if at ~= last then refuse("%s end with layer %d, expected %d", name, at - 1, last - 1) end
end

-- How a value gets from one task to the next.
local function medium(from, to)
   return from.device == to.device and "host" or "peer"
end

--- Who makes what a forward task or the loss reads, and who reads what it makes.
local function connect_forward(forwards, backwards)
   local loss = backwards[#backwards]
   for i, task in ipairs(forwards) do
      local before, after = forwards[i - 1], forwards[i + 1] or loss
      task.input = before and { medium = medium(before, task), from = before }
         or { medium = "data" }
      task.output = { medium = medium(task, after), to = after }
   end
   local before = forwards[#forwards]
   loss.input = before and { medium = medium(before, loss), from = before } or { medium = "data" }
end

--- Backward packs begin with values that the forward task which passes that layer stashes.
local function connect_backward(forwards, backwards)
   for _, task in ipairs(forwards) do
      task.stash = {}
      for j = 1, #backwards - 1 do
         local backward = backwards[j]
         if backward.first >= task.first and backward.first <= task.last then
            task.stash[#task.stash + 1] = { layer = backward.first, to = backward }
            backward.stashed_by = task
         end
      end
   end
   for j = #backwards, 2, -1 do
      local from, to = backwards[j], backwards[j - 1]
      from.gradient_out = { medium = medium(from, to), to = to }
      to.gradient_in = { medium = medium(from, to), from = from }
   end
end

--- Micro-batches that are cut anew on their way to the loss pass through host memory.
local function resize_last(forwards, loss)
   local last = forwards[#forwards]
   if last and last.output.medium == "peer" then
      last.output.medium, loss.input.medium = "message", "message"
   end
end

--- The tasks of one chain in their order; device_of(k) says where its k-th runs, from 0.
local function chain(o, samples, device_of, tasks)
   local forwards, backwards, n = {}, {}, 0
   local function add(kind, pack, micro)
      local task = {
         kind = kind, first = pack[1], last = pack[2], device = device_of(n),
         micros = M.split(samples, micro),
      }
      n = n + 1
      tasks[#tasks + 1] = task
      return task
   end
   for i, pack in ipairs(o.forward_packs) do forwards[i] = add("forward", pack, o.forward_micro) end
   for j = #o.backward_packs, 1, -1 do
      local pack = o.backward_packs[j]
      local task = add("backward", pack, o.backward_micro)
      task.loss = j == #o.backward_packs
      backwards[j] = task
      tasks[#tasks + 1] = {
         kind = "update", first = pack[1], last = pack[2], device = task.device, after = task,
      }
   end
   connect_forward(forwards, backwards)
   connect_backward(forwards, backwards)
   if o.mode == "pipeline" and o.devices > 1 and o.forward_micro ~= o.backward_micro then
      resize_last(forwards, backwards[#backwards])
   end
end

--- Composes the tasks of one update.
-- @tparam table o mode, devices, samples, forward_micro, backward_micro, forward_packs (all but
--   the pack of the loss), backward_packs
-- @treturn table tasks in their order, with mode, devices, forward_micro and backward_micro
function M.compose(o)
   o = opts.check("swap", rules, o)
   local loss = o.backward_packs[#o.backward_packs]
   if not loss then refuse("no backward packs, expected one that ends with the loss") end
   check_tiles("backward_packs", o.backward_packs, loss[2] + 1)
   check_tiles("forward_packs", o.forward_packs, loss[1])
   local tasks = {
      mode = o.mode, devices = o.devices,
      forward_micro = o.forward_micro, backward_micro = o.backward_micro,
   }
   if o.mode == "pipeline" then
      chain(o, o.samples, function(k) return k % o.devices + 1 end, tasks)
      return tasks
   end
   if o.samples < o.devices then
      refuse("%d samples for %d devices, expected one each at least", o.samples, o.devices)
   end
   for device = 1, o.devices do
      local share = math.floor(o.samples / o.devices)
      if device <= o.samples % o.devices then share = share + 1 end
      chain(o, share, function() return device end, tasks)
   end
   return tasks
end

return M

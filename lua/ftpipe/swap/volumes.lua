--- What swapping moves in one update, counted task by task: data parallelism and a pipeline whose
-- devices swap each on its own, and Harmony's two schedules.
--
-- A device holds the working set of one task on one layer. What lasts (weights W, their gradients
-- dW, optimizer state K) comes in when a task needs it and leaves at its end. With `write_back`
-- "always" it is then written even when it is unchanged, as by virtual memory that does not track
-- pages; with "dirty" only when it was changed. The tensor that the next task of the same
-- micro-batch uses stays; stashed inputs X leave once and return once.

local opts = require("ftpipe.base.opts")

local M = {}

local rules = {
   devices = { type = "int", min = 1, required = true },
   micro_batches = { type = "int", min = 1, required = true, help = "of all devices together" },
   layers = { type = "int", min = 1, required = true },
   write_back = { choices = { "always", "dirty" }, default = "always" },
}

local Counter = {}
Counter.__index = Counter

function Counter:add(key, n) self[key] = (self[key] or 0) + n end

--- One use of something that lasts: made here (nothing to fetch), changed, dead afterwards.
function Counter:use(key, o)
   if not o.made then self:add(key, 1) end
   if not o.dies and (o.changed or self.always) then self:add(key, 1) end
end

--- The forward and the backward of one layer for one micro-batch, of devices that swap by
-- themselves. Written back, the accumulator of gradients is a zeroed one at first.
local function one_forward(c)
   c:use("W", {})
   c:add("X", 1)
end

local function one_backward(c, first)
   c:use("W", {})
   c:use("dW", { made = first and not c.always, changed = true })
   c:add("X", 1)
end

--- The update of one layer after all micro-batches.
local function update_later(c)
   c:use("W", { changed = true })
   c:use("dW", { dies = not c.always })
   c:use("K", { changed = true })
end

local function data_parallel(c, o)
   for _ = 1, o.devices do
      for micro = 1, o.micro_batches / o.devices do
         for _ = 1, o.layers do one_forward(c) end
         for _ = 1, o.layers do one_backward(c, micro == 1) end
      end
      for _ = 1, o.layers do
         update_later(c)
         c:add("reduce", 1)
      end
   end
end

local function pipeline(c, o)
   local of_a_device = o.layers / o.devices
   for micro = 1, o.micro_batches do
      for layer = 1, o.layers do
         one_forward(c)
         if layer < o.layers and layer % of_a_device == 0 then c:add("send Y", 1) end
      end
      for layer = o.layers, 1, -1 do
         one_backward(c, micro == 1)
         if layer > 1 and (layer - 1) % of_a_device == 0 then c:add("send dX", 1) end
      end
   end
   for _ = 1, o.layers do update_later(c) end
end

--- Harmony: all micro-batches of a layer, then its update. pass(c, class) moves the value between
-- two layers, for one micro-batch.
local function grouped(c, o, micros, pass)
   for layer = 1, o.layers do
      c:use("W", {})
      for _ = 1, micros do
         c:add("X", 1)
         if layer < o.layers then pass(c, "Y") end
      end
   end
   for layer = o.layers, 1, -1 do
      c:use("W", { changed = true }) -- with the update, while it is there
      c:use("dW", { made = true, dies = true })
      c:use("K", { changed = true })
      for _ = 1, micros do
         c:add("X", 1)
         if layer > 1 then pass(c, "dX") end
      end
   end
end

local function harmony_data_parallel(c, o)
   c.always = false
   for _ = 1, o.devices do
      grouped(c, o, o.micro_batches / o.devices, function(counter, key) counter:add(key, 2) end)
      c:add("reduce", o.layers)
   end
end

local function harmony_pipeline(c, o)
   c.always = false
   local alone = o.devices == 1
   grouped(c, o, o.micro_batches, function(counter, key)
      if alone then counter:add(key, 2) else counter:add("send " .. key, 1) end
   end)
end

-- By name: what is done, and what of the options is divided among the devices evenly.
local schedules = {
   ["dp"] = { walk = data_parallel, divides = "micro_batches" },
   ["pp"] = { walk = pipeline, divides = "layers" },
   ["harmony-dp"] = { walk = harmony_data_parallel, divides = "micro_batches" },
   ["harmony-pp"] = { walk = harmony_pipeline },
}

--- Transfers of one update by class, in tensors of one layer: W, dW, K, X, Y, dX (in and out of
-- host memory), send Y and send dX (to a peer), reduce (each device's own).
-- @tparam string schedule "dp", "pp", "harmony-dp" or "harmony-pp"
-- @tparam table o devices, micro_batches, layers, write_back
function M.count(schedule, o)
   local row = schedules[schedule]
   if not row then
      opts.fail("ft.swap.volumes", "schedule '%s', expected dp, pp, harmony-dp or harmony-pp",
         schedule)
   end
   o = opts.check("ft.swap.volumes", rules, o)
   local divided = row.divides and o[row.divides]
   if divided and divided % o.devices ~= 0 then
      opts.fail("ft.swap.volumes", "%d %s are not a multiple of %d devices", divided,
         (row.divides:gsub("_", "-")), o.devices)
   end
   local c = setmetatable({ always = o.write_back == "always" }, Counter)
   row.walk(c, o)
   c.always = nil
   return setmetatable(c, { __index = function() return 0 end })
end

return M

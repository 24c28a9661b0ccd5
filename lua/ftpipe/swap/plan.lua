--- Harmony's order as a plan, for packs whose backward runs where their forward did.
--
-- A pack is a stage, pack k on device k mod N. A pack's forward takes all micro-batches before the
-- next one's; behind the last pack's backward every backward is followed at once by its update.
-- Weights and the optimizer's state come from the host when they are needed and leave behind the
-- update; what forward leaves for backward goes to the host and returns. The next task's weights
-- come while the last micro-batch of the present one computes.

local core = require("ftpipe.core")
local opts = require("ftpipe.base.opts")

local M = {}

local rules = {
   packs = { type = "int", min = 1, required = true, help = "of layers" },
   devices = { type = "int", min = 1, required = true, help = "that work" },
   micro_batches = { type = "int", min = 1, required = true, help = "of an update" },
   batches = { type = "int", min = 1, default = 1, help = "updates" },
   edge_bytes = { type = "int", min = 0, default = 0, help = "of a micro-batch between packs" },
}

--- What the device of the plan does after each other: forwards of its packs, then backwards; the
-- last pack of all does both in one task.
local function tasks_of(o, device)
   local tasks = {}
   for pack = 0, o.packs - 2 do
      if pack % o.devices == device then tasks[#tasks + 1] = { kind = "forward", pack = pack } end
   end
   for pack = o.packs - 1, 0, -1 do
      if pack % o.devices == device then
         tasks[#tasks + 1] = { kind = pack == o.packs - 1 and "both" or "backward", pack = pack }
      end
   end
   return tasks
end

local Writer = {}
Writer.__index = Writer

function Writer:put(letter, micro, class)
   local name = ("%s%d.%d"):format(letter, self.task.pack, self.batch)
   if micro then name = ("%s.%d"):format(name, micro) end
   self[#self + 1] = class and name .. ":" .. class or name
end

--- What has to be there before a task begins; `stays`: its weights are.
function Writer:fetch(task, stays)
   if not task then return end
   local present = self.task
   self.task = task
   if not stays then self:put("L", 0, "weights") end
   if task.kind ~= "forward" then self:put("L", 0, "optimizer") end
   if task.kind == "backward" then self:put("L", 0, "activations") end
   self.task = present
end

--- One micro-batch of the present task.
function Writer:compute(micro, most)
   local kind = self.task.kind
   if kind ~= "backward" then self:put("F", micro) end
   if kind == "forward" then self:put("O", micro, "activations") end
   if kind == "backward" and micro < most then self:put("L", micro + 1, "activations") end
   if kind ~= "forward" then self:put("B", micro) end
end

function Writer:finish(stays, most)
   if self.task.kind == "forward" then
      if not stays then self:put("D", most, "weights") end
      return
   end
   self:put("U")
   self:put("O", most, "weights")
   self:put("O", most, "optimizer")
end

--- The actions of a device.
local function actions_of(o, device)
   local tasks, most = tasks_of(o, device), o.micro_batches - 1
   local writer = setmetatable({ batch = 0 }, Writer)
   for batch = 0, o.batches - 1 do
      writer.batch = batch
      writer:fetch(tasks[1])
      for i, task in ipairs(tasks) do
         local after = tasks[i + 1]
         local stays = after and after.pack == task.pack -- forward, then backward
         writer.task = task
         for micro = 0, most do
            if micro == most and not stays then writer:fetch(after) end
            writer:compute(micro, most)
         end
         writer:finish(stays, most)
         if stays then writer:fetch(after, stays) end
      end
   end
   return table.concat(writer, " ")
end

--- Micro-batches with something on the device: a backward has the next one's fetched before it.
local function in_flight(o, pack)
   return pack < o.packs - 1 and o.micro_batches > 1 and 2 or 1
end

--- The plan's text, which ft.schedule.parse reads.
function M.text(o)
   o = opts.check("swap.plan", rules, o)
   local lines = {
      "ftpipe-plan 1", "schedule harmony", "stages " .. o.packs, "devices " .. o.devices,
      "micro-batches " .. o.micro_batches, "batches " .. o.batches, "body-batches 0",
      "body-repeats 0",
   }
   for pack = 0, o.packs - 1 do
      lines[#lines + 1] = ("stage %d device %d depth %d in-flight %d"):format(pack,
         pack % o.devices, o.packs - 1 - pack, in_flight(o, pack))
   end
   for pack = 0, o.packs - 2 do
      for _, form in ipairs { "edge F%d>F%d", "edge B%d>B%d" } do
         local backward = form:find("B", 1, true)
         lines[#lines + 1] = (form .. " bytes %d slots %d"):format(backward and pack + 1 or pack,
            backward and pack or pack + 1, o.edge_bytes, o.micro_batches)
      end
   end
   for device = 0, o.devices - 1 do
      lines[#lines + 1] = ("warm-up %d %s"):format(device, actions_of(o, device))
   end
   return table.concat(lines, "\n") .. "\n"
end

--- The plan, proved.
-- @tparam table o packs, devices, micro_batches, batches (1), edge_bytes (0)
-- @treturn schedule_plan :simulate takes swap_bytes by pack, and a machine with homes
function M.plan(o) return core.schedule.parse(M.text(o)):check() end

return M

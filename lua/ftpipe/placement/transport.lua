--- How values pass between cards of several processes: what --transport asks for.

local core = require("ftpipe.core")
local usage = require("ftpipe.base.usage")

local M = {}

--- Why there is nothing to choose; nil where some values may pass in two ways.
local function nothing_to_choose(devices)
   if devices[#devices].rank == 0 then return "are of one process, which needs neither" end
   for _, device in ipairs(devices) do
      if device.channels then return nil end
   end
   return "have no cards: between their processes everything passes by MPI"
end

--- Whether --transport asks for one of the two ways.
local function chooses(o) return o.transport ~= nil and o.transport ~= "auto" end

--- Refuses --transport where it decides nothing.
-- @tparam table o flags, `transport` may be nil
-- @param devices as in --devices, or a list of core.engine.devices
function M.check(o, devices)
   if not chooses(o) then return end
   local why = nothing_to_choose(core.engine.devices(devices))
   if not why then return end
   usage.of(o, "{transport=%s} is for cards of several processes, and the devices %s; leave it "
      .. "out, or give {devices=hosts:2xcuda:0}", o.transport, why)
end

--- Raises `unsupported` where NCCL is asked for and this process has none.
-- @tparam table o flags
-- @param devices
function M.rehearse(o, devices)
   if o.transport == "nccl" then core.engine.check_channels(devices) end
end

return M

--- What the driver says of the cards of this machine.
--
--    local there, why = ft.cuda.available()
--    if there then print(ft.cuda.devices()[1].memory_bytes) else print(why) end

local core = require("ftpipe.core")
local guard = require("ftpipe.base.guard")

local M = {}

--- Whether there are cards to compute on.
-- @treturn boolean there are
-- @treturn string where there are none, why: no driver, one that is too old, or no card
function M.available()
   local there, found = pcall(core.engine.devices, "cuda")
   if there then return true end
   return false, (found.message:gsub("^.-device list \"cuda\": ", ""))
end

--- The cards, as `--devices cuda` has them. An error says why there are none.
-- @treturn table list of { name = "cuda:0", card = number from 0, memory_bytes =, flops_per_s =,
--   bytes_per_s =, link_bytes_per_s =, link_latency_ns = }: rates that work reaches
function M.devices()
   local list = {}
   for i, device in ipairs(core.engine.devices("cuda")) do
      list[i] = { name = device.name, card = device.card }
      for key, value in pairs(device) do
         if key:find("_bytes$") or key:find("_per_s$") or key:find("_ns$") then
            list[i][key] = value
         end
      end
   end
   return list
end

guard("ft.cuda", M, { available = "", devices = "" })

return M

--- The cards of this machine: what the driver says of them, and scripts that compute on one.
--
--    local there, why = ft.cuda.available()
--    if not there then return print(why) end
--    local card = ft.cuda.open("cuda:0")
--    local x = ft.tensor.randn({ 512, 512 }):to(card)
--    local side = card:stream()
--    local begun = side:record()
--    local y = side:run(function() return x:matmul(x):softmax() end)
--    print(side:record():seconds_since(begun), y:to("cpu")[1][1], card)
--
-- What is computed is given to the card's own stream, or to that of `stream:run`, and the call
-- returns before it is done. Numbers are waited for where they are needed: by `t:to("cpu")`, by
-- printing, and on a stream other than the one that made them. Events are for all else.

local cards = require("ftpipe.base.card")
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
-- @treturn table list of { name = "cuda:0", card = number from 0, memory_bytes = (its budget: what
--   plans may use), flops_per_s =, bytes_per_s =, link_bytes_per_s =, link_latency_ns = }: rates
--   that work reaches
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

M.open = cards.open
M.takes = { ["ft.cuda.open"] = cards.open_options }

return M

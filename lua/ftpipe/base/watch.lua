--- Waiting for a run that may hang.

local core = require("ftpipe.core")

local M = {}

local HANG_SECONDS = 300 -- without any action finished anywhere
local POLL_SECONDS = 0.2

--- The next finished batch of an engine's run; one in which nothing moves is an error that says
-- where.
-- @raise lost worker
function M.next(run)
   local moved, since = run:progress(), core.sys.time_ns()
   while true do
      local result = run:next(POLL_SECONDS)
      if result then return result end
      local now = run:progress()
      if now ~= moved then moved, since = now, core.sys.time_ns() end
      if (core.sys.time_ns() - since) / 1e9 > HANG_SECONDS then
         core.fail("lost worker", ("nothing moved for %d s:\n%s"):format(HANG_SECONDS,
            run:describe()))
      end
   end
end

return M

--- What is done with any text that a process gets from rank 0: it is refused in one line, or it is a
-- blueprint whose plan, sent on, is the same.

local core = require("ftpipe.core")
local ranks = require("ftpipe.run.ranks")

local check_refusal = dofile("test/fuzz/refusal.lua")

--- Takes a text; raises for what may not be.
return function(text)
   local ok, blueprint = pcall(ranks.blueprint_of, text)
   if not ok then
      check_refusal(blueprint, "malformed data", "invalid argument", "shape mismatch", "not found",
         "unsupported", "plan infeasible", "out of memory")
      return
   end
   local plan = blueprint:plan_text()
   if core.schedule.parse(plan):text() ~= plan then error("another plan comes back", 0) end
end

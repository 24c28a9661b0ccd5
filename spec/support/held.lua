--- A recipe that holds behind some of its steps until it is told to go on: what a spec does to it
-- meanwhile it does to a run that has not ended, however late that comes.
--
--    env GATES=DIR HOLD_AT="3 20" ftpipe spec/support/held.lua FLAGS...
--
-- Behind step N of those it makes DIR/at-N, and goes on when there is DIR/on-N, or after a signal
-- that ends runs, and HOLD_SECONDS more.

local core, training = require("ftpipe.core"), require("ftpipe.run.training")

local gates, held = os.getenv("GATES"), {}
for step in os.getenv("HOLD_AT"):gmatch("%d+") do held[tonumber(step)] = true end

local show = training.show
function training.show(run, step)
   show(run, step)
   if not held[step.step] then return end
   core.sys.write_file(("%s/at-%d"):format(gates, step.step), "")
   local on = ("%s/on-%d"):format(gates, step.step)
   while not core.sys.exists(on) and not core.sys.interrupted() do core.process.sleep(0.01) end
   if core.sys.interrupted() then core.process.sleep(tonumber(os.getenv("HOLD_SECONDS")) or 0) end
end

return dofile("recipes/t5_rte.lua")

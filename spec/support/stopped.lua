--- What a measurement says that has a signal to hear.

local process = require("spec.support.process")

local SCRIPT = [[
local core, models = require("ftpipe.core"), require("ftpipe.model")
local model = models.open { model = "t5-small", init = "random" }
local graph = model.family.training(model.config, { batch = 1, source = 4, target = 4 })
core.sys.hold_interrupt(true)
io.popen("kill -s INT " .. core.sys.getpid()):close()
while not core.sys.interrupted() do core.process.sleep(0.01) end
local ok, problem = pcall(core.profile.measure, graph,
   { device = "%s", optimizer = "sgd", seconds = 1000 })
print(ok, problem.status, problem.message)
]]

--- Measures for a thousand seconds on such a device, where a signal has come before.
-- @tparam string program
-- @tparam string device as in --devices
-- @treturn string what it printed
return function(program, device)
   -- a job in the background is given SIGINT ignored
   local out, err, exit = process.shell(("timeout -k 1 60 env --default-signal=INT '%s' -e '%s'")
      :format(program, SCRIPT:format(device)))
   assert(exit == 0, err)
   return out
end

--- How a script with a loop of its own begins: with a run of the task of examples/tasks/colour.lua.
return [[
local ft = require("ftpipe")
local args = ft.args { "A loop.", preset = "t5", steps = { default = 6 } }
local model = ft.model(args)
local task = ft.task.load("examples/tasks/colour.lua") {}
local data = task:open(model, args)
local plan = ft.plan { model = model, data = data, args = args }
local run = ft.run { plan = plan, task = task, data = data, args = args }
]]

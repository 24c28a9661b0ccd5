--- The number that counts in a sweep, asked for before a run that would not leave it.

local figures = require("ftpipe.store.figures")
local trial = require("ftpipe.sweep.trial")

--- Refuses a metric that summary.json of a trial will not have. What only the end of a run can tell
-- is let through: names within its objects, figures of a task that does not know its own.
-- @tparam table task
-- @tparam ?table data as the task loads it
-- @raise invalid argument
return function(task, data)
   local metric = trial.metric()
   local own = metric and task and task.figures and data and data.eval and task:figures(data.eval)
   if not own then return end
   local names = { unpack(own) }
   for _, name in ipairs(figures.NUMBERS) do names[#names + 1] = name end
   local asked = metric:gsub("^metrics%.", "")
   for _, name in ipairs(names) do
      if asked == name then return end
   end
   for _, name in ipairs(figures.OBJECTS) do
      if metric:sub(1, #name + 1) == name .. "." then return end
   end
   trial.refuse_metric(("a run of task %s leaves"):format(task.name), names)
end

--- Metrics of answers that are text, one example at a time.
--
-- A metric is a table of the fields of metric/init.lua and
--    start   a function of the task that gives an accumulator: `add(example, answer)`, then
--            `result()` -> all figures by name, of which `name` counts
--    needs   the name of an option that the task's definition must have (optional)

local opts = require("ftpipe.base.opts")
local suggest = require("ftpipe.base.suggest")
local metric = require("ftpipe.data.metric")

local M = {}

local known = {}

--- Share of answers that are the target to the letter.
known.accuracy = { name = "accuracy", unit = "%", better = "higher" }

function known.accuracy.start()
   local right, n = 0, 0
   return {
      add = function(example, answer)
         n = n + 1
         if answer == example.target then right = right + 1 end
      end,
      result = function() return { accuracy = 100 * right / n } end,
   }
end

--- F1 of the true answers over all answers (F1a), share of questions of which every answer is
-- right (EM), and their mean, which SuperGLUE ranks by. Examples of a question have one `group`.
-- Khashabi et al., "Looking Beyond the Surface", NAACL 2018, section 5; what is neither of the two
-- answers counts as the wrong one, as in T5's evaluation. The task's last answer is the true one.
known.grouped_f1 = { name = "average", unit = "%", better = "higher", beside = { "f1a", "em" },
   needs = "group" }

function known.grouped_f1.start(task)
   local answers = task.definition.answers
   local positive = answers[#answers].target
   local both, given, wanted = 0, 0, 0
   local wrong, groups = {}, 0
   return {
      add = function(example, answer)
         local right, is_positive = answer == example.target, example.target == positive
         local says_positive = right == is_positive
         if is_positive then wanted = wanted + 1 end
         if says_positive then given = given + 1 end
         if is_positive and says_positive then both = both + 1 end
         if wrong[example.group] == nil then
            wrong[example.group], groups = false, groups + 1
         end
         if not right then wrong[example.group] = true end
      end,
      result = function()
         local missed = 0
         for _, is_wrong in pairs(wrong) do missed = missed + (is_wrong and 1 or 0) end
         local f1 = both > 0 and 200 * both / (given + wanted) or 0
         local exact = groups > 0 and 100 * (groups - missed) / groups or 0
         return { average = (f1 + exact) / 2, f1a = f1, em = exact }
      end,
   }
end

--- What a metric is called where it is chosen, when it is one of those here, whose figures have the
-- same names whatever is scored.
-- @treturn ?string
function M.known_name(given)
   for name, row in pairs(known) do
      if row == given then return name end
   end
   return nil
end

local rules = {
   start = { type = "function", required = true, help = "function(task) -> accumulator" },
   needs = { type = "string" },
}
for name, rule in pairs(metric.rules) do rules[name] = rule end

--- The metric of a name, or of a table of one's own: an option type (see base/opts.lua).
-- @treturn table the metric; nil and what was expected
function M.convert(given)
   if type(given) == "table" then return opts.check("metric", rules, given) end
   local names = opts.names(known)
   if known[given] then return known[given] end
   local what = type(given) == "string" and "'" .. given .. "'" or "a " .. type(given)
   return nil, ("no metric is %s%s (expected one of: %s; or a table { name =, unit =, better =, "
      .. "start = })"):format(what, suggest.hint(tostring(given), names), table.concat(names, ", "))
end

return M

--- Figures of merit: the name of the figure that counts, its unit, and which way is better.
--
-- A metric is a table with `name`, `unit` ("%", another word, or "" for a bare number), `better`
-- ("higher" or "lower"), and `beside`, names of other figures where one alone is not usual.
-- Whatever compares or prints evaluations asks the metric.

local M = {}

local ways = {
   higher = function(a, b) return a > b end,
   lower = function(a, b) return a < b end,
}

--- Rules of the three fields, for opts.check.
M.rules = {
   name = { type = "string", required = true, help = "the figure that counts" },
   unit = { type = "string", default = "%", help = "printed behind a value; '' for none" },
   better = { choices = { "higher", "lower" }, required = true, help = "which value is better" },
   beside = { type = "table", items = "string", help = "figures of its unit, printed behind it" },
}

--- What a scorer gives.
-- @tparam table metric
-- @tparam table figures all figures by name
-- @tparam[opt] number value of the one that counts; nil: it is among the figures
-- @treturn table metric (its name), unit, better, beside, value, metrics (all figures)
function M.result(metric, figures, value)
   return {
      metric = metric.name, unit = metric.unit, better = metric.better, beside = metric.beside,
      value = value or figures[metric.name], metrics = figures,
   }
end

--- Whether value a is better than b. What is not a number is never better, and every number is
-- better than it.
-- @tparam table metric a table with `better`
-- @tparam number a
-- @tparam number b
function M.beats(metric, a, b)
   if a ~= a then return false end
   return b ~= b or ways[metric.better](a, b)
end

--- A value with its unit: "93.2 %", "4.31", "0.52 points".
-- @tparam table metric a table with `unit`
-- @tparam number value
function M.text(metric, value)
   if metric.unit == "%" then return ("%.1f %%"):format(value) end
   return ("%.2f"):format(value) .. (metric.unit ~= "" and " " .. metric.unit or "")
end

return M

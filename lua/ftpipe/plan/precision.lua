--- What numbers products with weights are made of: one row each.

local M = {}

--- { name =, apply = what it does to a graph; planned: it will not run here }.
M.rows = {
   { name = "f32", apply = function() end },
   { name = "bf16", apply = function(graph, planned) graph:bf16(planned) end },
}

--- Changes a graph as the precision asks (the first, when it is nil).
function M.apply(name, graph, planned)
   for _, row in ipairs(M.rows) do
      if row.name == (name or M.rows[1].name) then return row.apply(graph, planned) end
   end
   error(("there is no precision '%s'"):format(tostring(name)))
end

return M

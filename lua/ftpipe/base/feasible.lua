--- Calls that may find that nothing fits, which is an answer where others are tried as well.

--- What a function gives; nil and the failure where it raises `plan infeasible`. Whatever else it
-- raises goes on: a fault, or that somebody has stopped it.
return function(f, ...)
   local ok, result = pcall(f, ...)
   if ok then return result end
   if type(result) == "table" and result.status == "plan infeasible" then return nil, result end
   error(result, 0)
end

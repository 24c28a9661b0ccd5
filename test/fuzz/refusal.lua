--- What a refusal has to be: of one of these statuses, and one line. Other errors are raised again.
return function(problem, ...)
   if type(problem) == "table" and not problem.message:find("%c") then
      for _, status in ipairs { ... } do
         if problem.status == status then return end
      end
   end
   error(tostring(problem), 0)
end

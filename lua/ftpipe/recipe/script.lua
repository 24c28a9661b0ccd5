--- Running a recipe from inside the program, as `ftpipe FILE` does; a file that returns a function
-- is one of a task.

local usage = require("ftpipe.base.usage")

--- Runs a Lua script with words as its command line; modules beside it are found first.
-- @tparam string path
-- @tparam {string,...} argv
return function(path, argv)
   local chunk, problem = loadfile(path)
   if not chunk then usage("%s", problem) end
   local directory = path:match("^(.*)/[^/]*$")
   if directory then package.path = directory .. "/?.lua;" .. package.path end
   local words = { [-1] = arg and arg[-1], [0] = path }
   for i, word in ipairs(argv) do words[i] = word end
   rawset(_G, "arg", words)
   local returned = chunk(unpack(words))
   if type(returned) == "function" then
      usage("%s only defines a task; expected a recipe, which trains with it, as "
         .. "examples/own_task.lua does", path)
   end
end

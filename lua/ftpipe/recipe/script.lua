--- Running a recipe from inside the program, as `ftpipe FILE` does.

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
   return chunk(unpack(words))
end

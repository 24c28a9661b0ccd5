--- Loaded before every spec file: globals are errors, and the source root is the working directory.

local assert = require("luassert")
local say = require("say")

--- assert.fails_with(function, pattern): it raises, and the message matches the pattern.
local function fails_with(_, arguments)
   local ok, problem = pcall(arguments[1])
   arguments[1] = ok and "no error" or tostring(problem)
   return not ok and arguments[1]:find(arguments[2]) ~= nil
end

say:set("assertion.fails_with.positive", "Expected an error like the second:\n%s\n%s")
say:set("assertion.fails_with.negative", "Expected no error like the second:\n%s\n%s")
assert:register("assertion", "fails_with", fails_with, "assertion.fails_with.positive",
   "assertion.fails_with.negative")

--- Loaded before every spec file: globals are errors, and the source root is the working directory.

local assert = require("luassert")
local ffi = require("ffi")
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

-- What is ignored when specs begin, as SIGINT is in a shell's background job, would be ignored by
-- all that they start.
ffi.cdef [[ void *ft_spec_signal(int number, void *handler) __asm__("signal"); ]]

local status = io.open("/proc/self/status")
local ignored = status and status:read("*a"):match("SigIgn:%s*%x-(%x%x%x%x)\n")
if status then status:close() end
for _, number in ipairs { 1, 2, 3, 10, 12, 15 } do -- SIGHUP, INT, QUIT, USR1, USR2, TERM
   if math.floor(tonumber(ignored or "0", 16) / 2 ^ (number - 1)) % 2 == 1 then
      ffi.C.ft_spec_signal(number, nil)
   end
end

--- Runs example scripts and compares what they print with their comments:
--
--    print(1 + 1)   --> 2
--
-- The texts behind --> are, in order, the lines of output. Each line is one check. What a script
-- says on stderr is passed on.

local core = require("ftpipe.core")

local function expected_lines(path)
   local lines = {}
   for line in io.lines(path) do
      local text = line:match("%-%->%s?(.*)$")
      if text then lines[#lines + 1] = text end
   end
   return lines
end

local function printed_lines(path)
   local command = ("'%s' '%s'"):format(core.sys.executable(), path)
   local pipe = assert(io.popen(command))
   local lines = {}
   for line in pipe:lines() do lines[#lines + 1] = line end
   pipe:close()
   return lines
end

local passed, failed = 0, 0
for _, path in ipairs(arg) do
   local expected, printed = expected_lines(path), printed_lines(path)
   for i = 1, math.max(#expected, #printed) do
      if expected[i] == printed[i] then
         passed = passed + 1
      else
         failed = failed + 1
         print(("%s: line %d of the output: expected %s, got %s"):format(path, i,
            expected[i] and "'" .. expected[i] .. "'" or "nothing",
            printed[i] and "'" .. printed[i] .. "'" or "nothing"))
      end
   end
end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and passed > 0 and 0 or 1, true)

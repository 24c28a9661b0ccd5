--- Compares ftpipe with reference outputs: ftpipe tools/check_golden.lua DIR [DIR...]
--
-- Prints the worst error of everything that a directory has, and ends with the number of failures.
-- With --precision bf16 losses alone, with products in bf16.

local golden = require("ftpipe.data.golden")

local dirs, precision = {}, nil
local usage = #arg == 0
local i = 1
while arg[i] do
   if arg[i] == "--precision" then
      precision = arg[i + 1]
      usage = usage or (precision ~= "f32" and precision ~= "bf16")
      i = i + 1
   else
      dirs[#dirs + 1] = arg[i]
   end
   i = i + 1
end
if usage or #dirs == 0 then
   io.stderr:write("usage: ftpipe tools/check_golden.lua [--precision f32|bf16] DIR [DIR...]\n")
   os.exit(2, true)
end

local passed, failed = 0, 0
for _, dir in ipairs(dirs) do
   print(dir)
   local ok, report = pcall(golden.check, dir, { precision = precision })
   if ok then
      for _, line in ipairs(report:lines()) do print(line) end
      failed = failed + report.failed
      passed = passed + #report.rows - report.failed
   else
      print("  FAILED: " .. tostring(report))
      failed = failed + 1
   end
end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and 0 or 1, true)

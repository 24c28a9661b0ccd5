--- Compares ftpipe with reference outputs: ftpipe tools/check_golden.lua DIR [DIR...]
--
-- Prints the worst error of everything that a directory has, and ends with the number of failures.

local golden = require("ftpipe.golden")

if #arg == 0 then
   io.stderr:write("usage: ftpipe tools/check_golden.lua DIR [DIR...]\n")
   os.exit(2, true)
end

local passed, failed = 0, 0
for _, dir in ipairs(arg) do
   print(dir)
   local ok, report = pcall(golden.check, dir)
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

--- Compares ftpipe with reference outputs: ftpipe tools/check_golden.lua DIR [DIR...]
--
-- Prints the worst error of everything that a directory has, and ends with the number of failures.
-- With --precision bf16, or tf32 or f16 in the program that tests cards, losses alone.

local core = require("ftpipe.core")
local golden = require("ftpipe.data.golden")
local precisions = require("ftpipe.trained.precision")

local known = { f32 = true } -- what the device that stands for the CPU has
for _, row in ipairs(precisions.rows) do
   known[row.name] = known[row.name]
      or core.engine.devices("cpu:1")[1][row.name .. "_flops_per_s"] > 0
end

local dirs, precision = {}, nil
local usage = #arg == 0
local i = 1
while arg[i] do
   if arg[i] == "--precision" then
      precision = arg[i + 1]
      usage = usage or not known[precision]
      i = i + 1
   else
      dirs[#dirs + 1] = arg[i]
   end
   i = i + 1
end
if usage or #dirs == 0 then
   local names = {}
   for _, row in ipairs(precisions.rows) do
      names[#names + 1] = known[row.name] and row.name or nil
   end
   io.stderr:write(("usage: ftpipe tools/check_golden.lua [--precision %s] DIR [DIR...]\n"):format(
      table.concat(names, "|")))
   os.exit(2, true)
end

local round = precision and precision ~= "f32" and function(graph, device)
   precisions.apply(precision, graph, device)
end
local passed, failed = 0, 0
for _, dir in ipairs(dirs) do
   print(dir)
   local ok, report = pcall(golden.check, dir, { round = round or nil })
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

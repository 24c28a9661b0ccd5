--- Runs benchmarks and holds what they find to its gates. ftpipe tools/bench.lua TABLE [NAME...]
--
-- TABLE is a file like bench/gates.lua, which says what a row is. A name chooses a run, or those
-- that begin with it and '-'; without names all run but those that are only for who asks. After the
-- last one stands a table with a row for each gate. A gate is missed when its figure is beyond the
-- limit, when the benchmark did not say it, or when that did not end well: then the exit code is 1.
-- One whose peer is absent is neither met nor missed, and counted apart.

local core = require("ftpipe.core")

-- One run -----------------------------------------------------------------------------------------

--- Lines of a command as they come, and its exit code.
local function run(command, each)
   local program = core.sys.executable()
   local names = { PROGRAM = "'" .. program .. "'", BUILD = program:match("^(.*)/") }
   local pipe = assert(io.popen(("( %s\n) </dev/null; echo \"bench ended: $?\""):format(
      (command:gsub("%u+", names)))))
   local code
   for line in pipe:lines() do
      code = line:match("^bench ended: (%d+)$")
      if not code then each(line) end
   end
   pipe:close()
   return tonumber(code)
end

--- What a run said of its gates, by name: a number, or why there is none; and how it ended.
local function measure(row, report)
   local said, expected = {}, {}
   for _, gate in ipairs(row.gates or {}) do expected[gate[1]] = true end
   local code = run(row[2], function(line)
      print(line)
      io.stdout:flush()
      local name, rest = line:match("^gate (%S+) (.+)$")
      if not name then return end
      if not expected[name] then
         report(("%s says '%s', for which it has no gate"):format(row[1], line))
      end
      if said[name] then report(("%s says gate %s twice"):format(row[1], name)) end
      said[name] = tonumber(rest) or rest:match("^absent: (.+)$") or report(
         ("%s says '%s', expected a number or 'absent: WHY'"):format(row[1], line))
   end)
   if code ~= 0 then report(("%s ended with exit code %s"):format(row[1], code or "?")) end
   return said, code == 0
end

-- All of them -------------------------------------------------------------------------------------

--- Rows that the names choose.
local function choose(rows, names)
   local list, known = {}, {}
   for _, row in ipairs(rows) do
      known[#known + 1] = row[1]
      local wanted = #names == 0 and not row.asked
      for _, name in ipairs(names) do
         wanted = wanted or row[1] == name or row[1]:sub(1, #name + 1) == name .. "-"
      end
      if wanted then list[#list + 1] = row end
   end
   if #list == 0 then
      core.fail("invalid argument", ("no benchmark is called %s; there are: %s"):format(
         table.concat(names, ", "), table.concat(known, ", ")))
   end
   return list
end

--- "met", "missed" or "not measured", and in words what the gate found.
local function judge(gate, figure, ended)
   if type(figure) == "string" then return "not measured", figure end
   if not figure then return "missed", "the benchmark did not say it" end
   local within = figure == figure and (not gate.least or figure >= gate.least)
      and (not gate.most or figure <= gate.most)
   if not ended then return "missed", "the benchmark did not end well" end
   return within and "met" or "missed"
end

local function shown(figure)
   return type(figure) ~= "number" and "-" or ("%.4g"):format(figure)
end

local rows, names = dofile(arg[1]), { unpack(arg, 2) }
local problems, count, lines = {}, { met = 0, missed = 0, ["not measured"] = 0 }, {}
local function report(text) problems[#problems + 1] = text end

for _, row in ipairs(choose(rows, names)) do
   print("== " .. row[1])
   local said, ended = measure(row, report)
   for _, gate in ipairs(row.gates or {}) do
      local figure = said[gate[1]]
      local state, why = judge(gate, figure, ended)
      count[state] = count[state] + 1
      lines[#lines + 1] = ("%-20s %9s  %s %-7.4g  %-28s %s%s"):format(gate[1], shown(figure),
         gate.least and ">=" or "<=", gate.least or gate.most, gate.against, state,
         why and ": " .. why or "")
   end
end

if #lines > 0 then
   print(("\n%-20s %9s  %-10s  %-28s"):format("gate", "figure", "limit", "against"))
   print(table.concat(lines, "\n"))
end
for _, problem in ipairs(problems) do print("problem: " .. problem) end
print(("%d met, %d missed, %d not measured"):format(count.met, count.missed,
   count["not measured"]))
os.exit(count.missed == 0 and #problems == 0 and 0 or 1, true)

--- A benchmark that misses its gate fails the run of benchmarks; one that cannot be taken says so.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

describe("tools/bench.lua", function()
   local directory

   setup(function() directory = files.directory() end)
   teardown(function() files.remove(directory) end)

   --- What comes of a table whose runs print these lines.
   local function bench(rows, ...)
      local path = directory .. "/gates.lua"
      core.sys.write_file(path, "return {\n" .. rows .. "\n}\n")
      local out, err, code = process.ftpipe { "tools/bench.lua", path, ... }
      return code, out, err
   end

   local function one(says)
      return bench(([[ { "fake", "%s", gates = {
         { "fake", least = 0.95, against = "itself" } } } ]]):format(says))
   end

   it("passes when all gates are met", function()
      local code, out = one("echo gate fake 0.95")
      assert.equal(0, code, out)
      assert.matches("fake +0.95 +>= 0.95 +itself +met\n1 met, 0 missed, 0 not measured\n$", out)
   end)

   it("fails when a figure is below its gate, above it, or no number", function()
      for _, figure in ipairs { "0.949", "nan", "-inf" } do
         local code, out = one("echo gate fake " .. figure)
         assert.equal(1, code, out)
         assert.matches("itself +missed\n0 met, 1 missed", out)
      end
      local code, out = bench [[ { "fake", "echo gate fake 0.73", gates = {
         { "fake", most = 0.72, against = "itself" } } } ]]
      assert.equal(1, code, out)
      assert.matches("fake +0.73 +<= 0.72 +itself +missed", out)
   end)

   it("fails when a benchmark does not say its gate, or does not end well", function()
      local code, out = one("echo nothing")
      assert.equal(1, code)
      assert.matches("missed: the benchmark did not say it", out)
      code, out = one("echo gate fake 2; exit 3")
      assert.equal(1, code)
      assert.matches("missed: the benchmark did not end well", out)
      assert.matches("problem: fake ended with exit code 3", out)
      code, out = bench [[ { "fake", "exit 4" } ]]
      assert.equal(1, code)
      assert.matches("problem: fake ended with exit code 4", out)
   end)

   it("fails for gates that the table does not have, twice, or in other words", function()
      for says, words in pairs {
         ["gate other 1"] = "for which it has no gate",
         ["gate fake high"] = "expected a number or 'absent: WHY'",
         ["gate fake 1; echo gate fake 1"] = "says gate fake twice",
      } do
         local code, out = one("echo gate fake 1; echo " .. says)
         assert.equal(1, code, out)
         assert.truthy(out:find(words, 1, true) or out:find("twice", 1, true), out)
      end
   end)

   it("counts a gate whose peer is absent apart, and says so", function()
      local code, out = one("echo gate fake absent: no peer")
      assert.equal(0, code, out)
      assert.matches("fake +%- +>= 0.95 +itself +not measured: no peer\n"
         .. "0 met, 0 missed, 1 not measured\n$", out)
   end)

   it("runs those that are named, and others only when asked", function()
      local rows = [[ { "a", "echo one" }, { "a-b", "echo two" }, { "c", "exit 1", asked = true } ]]
      local _, out = bench(rows)
      assert.matches("== a\none\n== a%-b\ntwo\n0 met", out)
      _, out = bench(rows, "a-b")
      assert.matches("^== a%-b\ntwo\n0 met", out)
      assert.equal(1, (bench(rows, "c")))
      local code, _, err = bench(rows, "d")
      assert.not_equal(0, code)
      assert.matches("no benchmark is called d; there are: a, a%-b, c", err)
   end)

   it("has a limit and a peer for each gate of the program's own table", function()
      for _, row in ipairs(dofile("bench/gates.lua")) do
         for _, gate in ipairs(row.gates or {}) do
            assert.is_true((gate.least == nil) ~= (gate.most == nil), gate[1])
            assert.is_string(gate.against)
         end
      end
   end)
end)

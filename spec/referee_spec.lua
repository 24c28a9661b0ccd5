local core = require("ftpipe.core")
local ft = require("ftpipe")
local random = require("ftpipe.base.random")

local function has_cbc()
   local pipe = io.popen("command -v cbc")
   local path = pipe:read("*l")
   pipe:close()
   if not path then pending("skipped: no cbc") end
   return path
end

--- A layered problem of all features that the referee knows; numbers from a fixed sequence.
local function make(seed, n, n_devices, cost)
   local draws = random.new(seed)
   local function below(most) return draws:integer(most) - 1 end
   local problem = {
      node_ns = { {}, {} }, fixed_bytes = {}, edge_from = {}, edge_to = {}, edge_bytes = {},
      edge_grad_bytes = {}, edge_value = {}, devices = {}, tie = {}, pin = {},
   }
   local total = 0
   for i = 1, n do
      problem.node_ns[1][i], problem.fixed_bytes[i] = 1 + below(20), below(10)
      problem.node_ns[2][i] = 2 * problem.node_ns[1][i] + below(3)
      problem.tie[i], problem.pin[i] = below(6) == 0 and below(2) or -1, 0
      total = total + problem.fixed_bytes[i]
      for value = 1, 2 do
         local bytes, grad = below(20), below(12)
         for to = i + 1, math.min(n, i + 5) do
            if below(4) == 0 then
               local e = #problem.edge_from + 1
               problem.edge_from[e], problem.edge_to[e], problem.edge_value[e] = i, to, value
               problem.edge_bytes[e], problem.edge_grad_bytes[e] = bytes, grad
            end
         end
      end
   end
   problem.pin[n] = problem.tie[n] < 0 and 1 or 0
   for d = 1, n_devices do
      problem.devices[d] = {
         kind = d == 1 and 2 or 1, bytes_per_s = d < n_devices and 1e9 or 0,
         memory_bytes = cost == "sum" and math.ceil(total / n_devices) + 12 or 0,
      }
   end
   return problem
end

-- It ends when it has an optimum, which takes a second or two, and on a busy machine its time.
local SECONDS = 600

describe("the referee", function()
   it("agrees with branch and bound, in every cost model it knows", function()
      if not has_cbc() then return end
      for seed = 1, 6 do
         local cost = seed % 2 == 0 and "sum" or "overlap"
         local problem = make(seed, 9, 3, cost)
         local result = ft.partition(problem, { method = "mixed", cost = cost, referee = SECONDS })
         assert.is_true(result.proved)
         assert.is_true(result.referee.optimal)
         local function is_near(ns)
            return math.abs(ns / result.objective_ns - 1) < 1e-6
         end
         assert.is_true(is_near(result.referee.bound_ns), ("%d: %g and %g"):format(seed,
            result.referee.bound_ns, result.objective_ns))
         assert.is_true(is_near(result.referee.objective_ns))
      end
   end)

   it("bounds what others found", function()
      if not has_cbc() then return end
      local problem = make(3, 20, 3, "overlap")
      local seq = ft.partition(problem, { method = "seq", referee = SECONDS })
      local mixed = ft.partition(problem, { method = "mixed", effort = 1, referee = SECONDS })
      assert.is_true(mixed.referee.bound_ns <= mixed.objective_ns * (1 + 1e-6))
      assert.is_true(seq.lower_bound_ns <= seq.objective_ns)
      assert.matches("referee: no placement is below", tostring(mixed))
   end)

   it("proves a published optimum, and the search reaches it", function()
      local files = require("spec.support.files")
      local path = files.shared("data/graphs/dnn/OperatorGraphs/bert_l-3_inference.json", pending)
      if not path or not has_cbc() then return end
      local result = ft.partition(ft.graph.load(path):problem(),
         { method = "mixed", cost = "sum", referee = 60 })
      assert.is_true(result.referee.bound_ns <= result.objective_ns * (1 + 1e-6))
   end)

   it("says what it cannot judge", function()
      local problem = make(1, 5, 2, "sum")
      local function fails(changes, options, words)
         local other = {}
         for key, value in pairs(problem) do other[key] = value end
         for key, value in pairs(changes) do other[key] = value end
         assert.fails_with(function() ft.partition(other, options) end, words)
      end
      fails({}, { referee = "yes" }, "'referee': expected a boolean or a number, got a string")
      fails({}, { referee = 0 }, "referee is 0, expected true or the seconds")
      fails({ last_ns = problem.node_ns }, { referee = 1 }, "times of a last stage")
      fails({ cheap = { true, false, false, false, false }, edge_from = { 1 }, edge_to = { 2 },
         edge_bytes = { 1 }, edge_grad_bytes = { 0 }, edge_value = { 0 } }, { referee = 1 },
         "cheap nodes are not judged")
   end)

   it("says that there is no cbc, and what to do", function()
      local popen = io.popen
      finally(function() rawset(io, "popen", popen) end)
      rawset(io, "popen", function() return popen("true") end)
      local ok, problem = pcall(ft.partition, make(1, 5, 2, "sum"), { referee = true })
      assert.is_false(ok)
      assert.matches("there is no program cbc here; install it %(coinor%-cbc on Debian%)",
         problem.message)
   end)

   it("is killed when it does not stop by itself", function()
      local popen, start = io.popen, core.sys.time_ns()
      finally(function() rawset(io, "popen", popen) end)
      rawset(io, "popen", function(command)
         return popen((command:gsub("^command %-v cbc$", "echo cbc")
            :gsub("(timeout %-%-foreground %-k 2) %d+ cbc .*", "%1 1 sleep 600 2>&1")))
      end)
      local ok, problem = pcall(ft.partition, make(1, 5, 2, "sum"), { referee = 1 })
      assert.is_false(ok)
      assert.matches("cbc gave neither a solution nor a bound in 1 s", problem.message)
      assert.is_true(core.sys.time_ns() - start < 300e9)
   end)
end)

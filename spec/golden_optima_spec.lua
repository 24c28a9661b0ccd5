--- Placements that come with the sources: small graphs whose optimum another program found by
-- trying all (tools/make_optima.py).

local core = require("ftpipe.core")
local ft = require("ftpipe")

--- The problem of a row, and its optima.
local function read()
   local rows = {}
   for _, row in ipairs(core.json.read("spec/golden/optima.json")) do
      local problem = {}
      for key, value in pairs(row) do problem[key] = value end
      problem.name, problem.optima = nil, nil
      rows[#rows + 1] = { name = row.name, problem = problem, optima = row.optima }
   end
   return rows
end

--- The objective, and whether it is proved; nil where nothing fits.
local function solve(problem, options)
   local ok, result = pcall(ft.partition, problem, options)
   if ok then return result.objective_ns, result.proved end
   assert.equal("plan infeasible", result.status, tostring(result))
   return nil
end

describe("a small graph", function()
   local rows = read()

   it("is placed as well as any placement can be", function()
      local n, fit = 0, 0
      for _, row in ipairs(rows) do
         for _, cost in ipairs { "overlap", "sum" } do
            local wanted = row.optima[cost] and row.optima[cost].mixed
            if wanted then
               local where = ("%s, %s"):format(row.name, cost)
               for _, method in ipairs { "mixed", "best" } do
                  local found, proved = solve(row.problem, { cost = cost, method = method })
                  assert.equal(wanted ~= core.json.null and wanted or nil, found, where)
                  assert.is_true(proved or found == nil or method == "best", where)
                  n, fit = n + 1, fit + (found and 1 or 0)
               end
            end
         end
      end
      assert.equal(120, n)
      assert.equal(112, fit)
   end)

   it("is cut as well as any contiguous placement can be", function()
      local n, proved = 0, 0
      for _, row in ipairs(rows) do
         for _, cost in ipairs { "overlap", "sum" } do
            local wanted = row.optima[cost] and row.optima[cost].seq
            if wanted then
               local where = ("%s, %s"):format(row.name, cost)
               local found, is_proved = solve(row.problem, { cost = cost, method = "seq" })
               if wanted == core.json.null then
                  assert.is_nil(found, where)
               elseif is_proved or cost == "sum" then
                  assert.equal(wanted, found, where)
               else
                  assert.is_true(found >= wanted, where)
               end
               n, proved = n + 1, proved + (is_proved and 1 or 0)
            end
         end
      end
      assert.equal(60, n)
      assert.is_true(proved >= 50, proved)
   end)

   it("has PipeDream's optimum, with replicas and without", function()
      local n = 0
      for _, row in ipairs(rows) do
         for way, wanted in pairs(row.optima.pipedream or {}) do
            local found = solve(row.problem, { method = "pipedream", straight = way == "straight" })
            local where = ("%s, %s"):format(row.name, way)
            if wanted == core.json.null then
               assert.is_nil(found, where)
            else
               assert.near(wanted, found, 1e-9 * wanted, where)
               n = n + 1
            end
         end
      end
      assert.is_true(n >= 8, n)
   end)
end)

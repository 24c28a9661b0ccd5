--- What an asynchronous run learns by default, on cuts on which it ends by luck at a rate that
-- stays: see doc/staleness.md. Results depend on the seed and the plan alone.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

--- Runs the recipe on these devices and gives what it prints.
local function run(devices, ...)
   local out, err, exit = process.ftpipe({ "recipes/t5_rte.lua", "--schedule", "async",
      "--profile", "modelled", "--devices", devices, ... })
   assert.equal(0, exit, err)
   return out
end

local function accuracy(out) return tonumber(out:match("\nafter: accuracy ([%d.]+) %%")) end

describe("an asynchronous run", function()
   local directory
   before_each(function() directory = files.directory() end)
   after_each(function() files.remove(directory) end)

   --- The plan of a run, with its first cut behind so many operators.
   local function plan_cut_at(first)
      local path = directory .. "/run/plan.txt"
      run("cpu:2", "--steps", "1", "--out", directory .. "/run")
      local text, n = core.sys.read_file(path):gsub("\nnode%-stage 0%*(%d+) 1%*(%d+)\n",
         function(a, b) return ("\nnode-stage 0*%d 1*%d\n"):format(first, a + b - first) end)
      assert.equal(1, n)
      core.sys.write_file(directory .. "/moved.txt", text)
      return directory .. "/moved.txt"
   end

   it("learns on a cut where weights are late for a quarter of the micro-batches", function()
      if core.sanitized then return pending("takes minutes under sanitizers") end
      local out = run("cpu:2", "--partition", plan_cut_at(26))
      assert.is_true(accuracy(out) >= 85, out)
   end)

   it("learns on four devices", function()
      if core.sanitized then return pending("takes minutes under sanitizers") end
      local out = run("cpu:4")
      assert.matches("4 in flight, weights 0 to 1 update late", out)
      assert.is_true(accuracy(out) >= 85, out)
   end)
end)

--- What a search says of choices, and of those that have no plan.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local found = require("ftpipe.planner.found")
local ft = require("ftpipe")
local process = require("spec.support.process")

--- A graph of three nodes, which cannot be cut in four.
local CHAIN = "ftpipe weighted graph 1\n"
   .. "node a forward_ns=2e6 backward_ns=4e6\nnode b forward_ns=3e6 backward_ns=6e6\n"
   .. "node c forward_ns=1e6 backward_ns=2e6\nedge a b bytes=1e5\nedge b c bytes=1e5\n"

local function plan(...) return process.ftpipe { "plan", ... } end

describe("what a search found", function()
   it("leaves out what has no plan, and says how many there are and why", function()
      files.in_directory(function(directory)
         local path = directory .. "/my.graph"
         core.sys.write_file(path, CHAIN)
         local tried = ft.planner(path, { devices = "sim:2x11GB" })
         local n = { with = 0, without = 0 }
         for _, row in ipairs(tried.rows) do
            local key = row.problem and "without" or "with"
            n[key] = n[key] + 1
         end
         assert.is_true(n.with >= 5 and n.without >= 1)
         local cells, lines = tried:cells(), tostring(tried)
         assert.equal(1 + n.with, #cells)
         for _, words in ipairs(cells) do assert.equal(#cells[1], #words) end
         local said = 0
         for count, why in lines:gmatch("\n(%d+) choices? without a plan: ([^\n]+)") do
            said = said + count
            assert.matches("my.graph: partition: 4 stages of a graph of 3 nodes, expected no more",
               why)
         end
         assert.equal(n.without, said)
         assert.equal(#tried.rows, #tried:data())
         for _, row in ipairs(tried.rows) do -- zb-v alone has no plan of fewer stages
            assert.equal(row.options.schedule == "zb-v", row.problem ~= nil)
         end
      end)
   end)

   it("is, for schedules that place as many stages, a cut for each", function()
      files.in_directory(function(directory)
         local path = directory .. "/my.graph"
         core.sys.write_file(path, CHAIN .. "node d forward_ns=1e6\nedge c d bytes=1e5\n")
         local rows = ft.planner(path, { devices = "sim:2x11GB",
            schedules = { "zb-v", "interleaved" } }).rows
         assert.equal(2, #rows)
         for _, row in ipairs(rows) do
            assert.is_nil(row.problem)
            assert.equal(4, row.stages)
         end
      end)
   end)

   it("is an error where nothing can be tried", function()
      local o = { devices = "sim:2x11GB", source = 16, batch = 32, counts = { 5, 7 } }
      local refusal = "found_spec.lua:%d+: ft.planner: batch = 32 is not a multiple of "
         .. "micro_batches = 5, give batch = 30 or micro_batches = 4$"
      assert.fails_with(function() ft.planner("t5-small", o) end, refusal)
      o.counts, o.micro_batches = nil, 5
      assert.fails_with(function() ft.planner("t5-small", o) end, refusal)
      o.counts, o.micro_batches = { 0 }, nil
      assert.fails_with(function() ft.planner("t5-small", o) end,
         "option 'micro_batches': expected 1 to 1048576, got 0")
      o.counts, o.schedules, o.partitions = { 5, 8 }, { "gpipe" }, { "seq" }
      assert.matches("\n1 choice without a plan: batch = 32 is not a multiple of "
         .. "micro_batches = 5, ", tostring(ft.planner("t5-small", o)))
   end)

   it("is an error of the command line too", function()
      local _, err, exit = plan("t5-small", "--devices", "sim:2x11GB", "--micro-batches", "5",
         "--search")
      assert.equal(2, exit)
      assert.matches("^ftpipe: %-%-batch 32 is not a multiple of %-%-micro%-batches 5, give "
         .. "%-%-batch 30 or %-%-micro%-batches 4; see ftpipe plan %-%-help\n$", err)
      files.in_directory(function(directory)
         core.sys.write_file(directory .. "/my.graph", CHAIN)
         _, err, exit = plan(directory .. "/my.graph", "--devices", "sim:2x11GB", "--schedule",
            "zb-v", "--search")
         assert.equal(2, exit)
         assert.matches("^ftpipe: [^\n]+ 4 stages of a graph of 3 nodes, expected no more; take "
            .. "fewer devices or stages\n$", err)
      end)
   end)

   it("tells choices apart that look alike without the stages they may have", function()
      local function row(most)
         return { options = { micro_batches = 1, schedule = "1f1b", stages = most }, stages = 3,
            title = "mixed", recomputed = 0, seconds = 1, memory_bytes = 1, swapped_bytes = 0,
            staleness = 0, moved_bytes = 0, verdict = "" }
      end
      local alike = tostring(found.new { rows = { row(nil), row(9) }, front = {} })
      assert.matches("^  micro%-batches +schedule +partition +at most +stages ", alike)
      for _, most in ipairs { "%-", 9 } do
         assert.matches("\n  1 +1f1b +mixed +" .. most .. " +3 ", alike)
      end
      assert.not_matches("at most", tostring(found.new { rows = { row(9), row(9) }, front = {} }))
   end)
end)

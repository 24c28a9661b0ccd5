--- Plans as text: what is loaded, written as a table or edited is a plan like any other.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local ft = require("ftpipe")

local function made(o)
   local stages = {}
   for s = 1, 3 do stages[s] = { forward_ns = 10, backward_ns = 20 } end
   return ft.schedule.play {
      stages = stages, micro_batches = 4, batches = o.batches or 20, schedule = o.schedule,
      slots = 3,
   }.plan
end

describe("a plan's text", function()
   it("is a plan again: loaded, with the same text and the same play", function()
      files.in_directory(function(dir)
         for _, schedule in ipairs { "1f1b", "gpipe", "async", "zero-bubble" } do
            local plan = made { schedule = schedule }
            local again = ft.plan.load(plan:save(dir .. "/plan.txt") and dir .. "/plan.txt")
            assert.equal(plan:text(), again:text())
            assert.equal(plan:simulate().end_ns, again:simulate().end_ns)
            assert.equal(plan:text(), again:edit({}):text())
         end
      end)
   end)

   it("can be written as a table", function()
      local plan = ft.plan.of {
         micro_batches = 2, batches = 1,
         stages = { "device 0", "device 1 recompute" },
         edges = { "F0>F1 bytes 64 slots 2", "B1>B0 bytes 64 slots 1" },
         orders = { "F0.0.0-1 B0.0.0-1 U0.0", "F1.0.0 B1.0.0 F1.0.1 B1.0.1 U1.0" },
         node_stage = { "0*3", "1*4" },
      }
      local said = plan:describe()
      assert.same({ 2, 1 }, { said.stages[1].in_flight, said.stages[2].in_flight })
      assert.same({ 1, 0 }, { said.stages[1].depth, said.stages[2].depth })
      assert.is_true(said.stages[2].recompute)
      assert.equal(7, #said.node_stage)
      assert.fails_with(function()
         ft.plan.of { micro_batches = 1, batches = 1, stages = { "device 0" }, order = {} }
      end, "unknown option 'order'")
      for words, changes in pairs {
         ["'stages': entry 1: expected a string, got 3"] = { stages = { 3 } },
         ["'orders': entry 1: expected a string or a table, got 3"] = { orders = { 3 } },
         ["'orders': body of device 0: expected a string, got 3"] = { orders = { { body = 3 } } },
         ["'edges': entry 1: expected a string, got 2"] = { edges = { 2 } },
         ["'node_stage': entry 2: expected a string, got a table"] = { node_stage = { "0*1", {} } },
      } do
         local all = { micro_batches = 1, batches = 1, stages = { "device 0" }, orders = { "U0" } }
         for key, value in pairs(changes) do all[key] = value end
         assert.fails_with(function() ft.plan.of(all) end, "plan.of: option " .. words)
      end
      assert.fails_with(function()
         ft.plan.of {
            micro_batches = 1, batches = 1, stages = { "device 0" }, orders = { "F0.0.0 U0.0" },
         }
      end, "plan, line 10: device 0: U0.0 stands before the last backward of its batch")
   end)

   it("takes other slots and another order; what follows from them follows", function()
      local plan = made { schedule = "1f1b", batches = 1 }
      local wider = plan:edit { ["edge F0>F1 bytes 0 slots 3"] = "edge F0>F1 bytes 0 slots 7" }
      assert.matches("edge F0>F1 bytes 0 slots 7", wider:text())
      assert.equal(2, wider:describe().stages[2].in_flight)
      local eager = plan:edit {
         ["F1.0.0-1 B1.0.0 F1.0.2 B1.0.1 F1.0.3"] = "F1.0.0-2 B1.0.0-1 F1.0.3",
      }
      assert.equal("FFFBBFBB", eager:letters(2))
      assert.equal(3, eager:describe().stages[2].in_flight)
      local all = plan:edit(function(text) return (text:gsub("slots 3", "slots 4")) end)
      assert.is_nil(all:text():find("slots 3", 1, true))
   end)

   it("is refused with the line, or with what the edit lacks", function()
      local plan = made { schedule = "1f1b", batches = 2 }
      local function refused(pattern, changes)
         assert.fails_with(function() plan:edit(changes) end, pattern)
      end
      refused("plan, line %d+: device 0: F0.0.0 reads a version from before the first batch",
         { ["F0.0.0-2"] = "F0.0.0~1 F0.0.1-2" })
      refused("plan, line %d+: device 2: B2.0.0 stands before its forward",
         { ["F2.0.0 B2.0.0"] = "B2.0.0 F2.0.0" })
      refused("the plan has no 'F9.0.0'", { ["F9.0.0"] = "F8.0.0" })
      refused("'slots 3' stands in the plan more than once", { ["slots 3"] = "slots 4" })
      refused("overlap", { ["F2.0.0 B2.0.0"] = "", ["B2.0.0 F2.0.1"] = "" })
      refused("got a number", 7)
      refused("other words", { "slots 4" })
   end)

   it("says what waits for ever, with the lines", function()
      local plan = made { schedule = "gpipe", batches = 1 }
      local problem = files.failure(function()
         plan:edit(function(text)
            return (text:gsub("slots 3", "slots 1"):gsub("F1.0.0%-3 B1.0.0", "F1.0.0-3 B1.0.0")
               :gsub("F0.0.0%-3 B0.0.0%-3", "F0.0.0 B0.0.0 F0.0.1-3 B0.0.1-3"))
         end)
      end)
      assert.equal("plan infeasible", problem.status)
      assert.matches("wait for ever: device 0, line %d+: B0.0.0 waits for edge 1, B1>B0, to be " ..
         "filled; device 1, line %d+: F1.0.1 waits", problem.message)
   end)

   it("of a file names the file", function()
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/p.txt", made({ schedule = "1f1b" }):text()
            :gsub("in%-flight 3", "in-flight 4"))
         assert.fails_with(function() ft.plan.load(dir .. "/p.txt") end,
            "p.txt: plan, line %d+: stage 0 has 3 micro%-batches in flight, the plan says 4")
      end)
   end)
end)

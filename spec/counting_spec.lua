--- Stages, devices and micro-batches are counted from 0 wherever they are read; one is no plural.

local ft = require("ftpipe")
local pipeline = require("spec.support.pipeline")

describe("stages, devices and micro-batches", function()
   it("count from 0 on the screen, in the plan file and in the timeline", function()
      local plan = pipeline.plan { devices = "sim:2x1GB", steps = 4 }
      local shown, text = tostring(plan), plan:text()
      local trace = plan.blueprint:simulate(2, true).trace
      for stage = 0, 1 do
         local line = shown:match("\n  stage " .. stage .. " on sim:(%d) card")
         assert.equal(text:match("\nstage " .. stage .. " device (%d)"), line)
         assert.matches(("F stage %d mb 0"):format(stage), trace)
         assert.matches(("F%d.0.0"):format(stage), text)
      end
      assert.is_nil(shown:find("stage 2 on", 1, true))
      assert.is_nil(trace:find("stage 2 mb", 1, true))
      assert.matches("is in stage 0 on sim:0 card", plan:why("encoder/embed"))
   end)

   it("count from 0 in tables of plans and in errors", function()
      local subject = ft.explore("t5-small", {
         devices = "sim:2x11GB", batch = 8, micro_batches = 4,
      })
      local cells = subject:stage_cells()
      assert.equal("0", cells[2][1])
      assert.equal(tostring(#cells - 2), cells[#cells][1])
      local message
      for _, stages in ipairs { 1, 3 } do
         local ok, err = pcall(pipeline.train, {
            devices = "cpu:" .. stages, threaded = false, steps = 1,
            edit = function() end,
            plant = function(params)
               params["encoder.block.0.layer.0.SelfAttention.q.weight"]:set(1, 1, 0 / 0)
            end,
         })
         assert.is_false(ok)
         message = tostring(err.message or err)
         assert.matches("; stage 0 of " .. stages .. ", micro%-batch 0 of 4", message)
      end
   end)
end)

describe("figures", function()
   it("have the noun that fits them", function()
      local plan = pipeline.plan { devices = "cpu:1", micro_batches = 1, batch = 1, steps = 1 }
      local shown = tostring(plan) .. "\n" .. tostring(plan.blueprint)
      assert.matches("plan: 1f1b, 1 stage on 1 device %(cpu:1%), batch 1 in 1 micro%-batch,", shown)
      assert.matches("\nblueprint: 1f1b, 1 stage on 1 device, 1 micro%-batch$", shown)
      local several = tostring(pipeline.plan { devices = "cpu:2", steps = 1 })
      assert.matches("plan: 1f1b, 2 stages on 2 devices %(cpu:2%), batch 8 in 4 micro%-batches,",
         several)
      local graph = ft.graph.read("ftpipe weighted graph 1\nnode a forward_ns=1\n", "x.txt")
      assert.matches("^x.txt: 1 node, 0 edges, ", tostring(graph))
      assert.matches("slowest device %S+ ms, optimal, 1 stage, .*\n  device 0: %S+ ms in 1 stage,",
         tostring(ft.partition(graph:problem { devices = "sim:1x1GB" })))
   end)
end)

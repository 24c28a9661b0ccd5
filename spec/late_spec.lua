--- What is said of weights that are late: in plans, at the end of a run, in drawings.

local core = require("ftpipe.core")
local ft = require("ftpipe")
local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")
local staleness = require("ftpipe.schedule.staleness")

--- Stages of a chain on devices of their own.
local function stages_of(n, micro_batches, schedule, way)
   local stages = {}
   for s = 1, n do stages[s] = { device = s, forward_ns = 10, backward_ns = 20 } end
   return ft.schedule.play {
      stages = stages, micro_batches = micro_batches, batches = 30, schedule = schedule,
      staleness = way, slots = 4,
   }:describe().stages
end

describe("weights that are late", function()
   it("are told by stage and by micro-batch", function()
      assert.same({
         { "stage", "in flight", "versions", "late", "mean", "by micro-batch" },
         { "0", "4", "3", "1 to 2", "1.50", "2, 1" },
         { "1", "3", "2", "1", "1.00", "1 x 2" },
         { "2", "2", "2", "0 to 1", "0.50", "1, 0" },
         { "3", "1", "1", "0", "0.00", "0 x 2" },
      }, staleness.cells(stages_of(4, 2, "async", "stash")))
   end)

   it("are told beside what was seen", function()
      local cells = staleness.cells(stages_of(2, 1, "async"), { { 1, 1 } })
      assert.same({ "0", "2", "1", "1", "1", "1.00", "1" }, cells[2])
      assert.same({ "1", "1", "1", "0", "-", "0.00", "0" }, cells[3])
   end)

   it("are not spoken of where there are none", function()
      assert.is_nil(staleness.text(stages_of(4, 2, "1f1b")))
      assert.matches("^updates that weights of forwards are late", staleness.text(stages_of(4, 2,
         "async")))
   end)

   it("are in plans, at the end of runs and in ftpipe plan", function()
      local table_of = "updates that weights of forwards are late, when the pipeline is full:\n"
         .. "  stage  in flight  versions"
      local out = process.ftpipe { "plan", "t5-small", "--devices", "sim:2x8GB", "--schedule",
         "async" }
      assert.matches(table_of, out, 1, true)
      local _, err, exit = process.ftpipe { "recipes/t5_rte.lua", "--schedule", "async", "--steps",
         "8", "--profile", "modelled", "--eval-limit", "4" }
      assert.equal(0, exit, err)
      assert.matches("step=8 of=8 [^\n]+ late=1,0\n", err)
      assert.matches(table_of .. "    late    seen  mean  by micro-batch\n"
         .. "  0              2         1  0 to 1  0 to 1  0.25  1, 0 x 3\n", err, 1, true)
   end)

   it("have the norm of the gap in metrics, where gradients are divided by it", function()
      files.in_directory(function(dir)
         local function rows(way, out)
            local _, err, exit = process.ftpipe { "recipes/t5_rte.lua", "--schedule", "async",
               "--staleness", way, "--steps", "8", "--profile", "modelled", "--eval-limit",
               "4", "--out", dir .. "/" .. out }
            assert.equal(0, exit, err)
            local list = {}
            for line in io.lines(dir .. "/" .. out .. "/metrics.jsonl") do
               local row = core.json.decode(line)
               if row.loss then list[#list + 1] = row end
            end
            return list
         end
         for _, row in ipairs(rows("none", "none")) do assert.is_nil(row.gap) end
         local list = rows("gap-aware", "gap")
         assert.is_nil(list[1].gap) -- the first batch is not late
         for step = 2, 8 do
            assert.equal(2, #list[step].gap)
            assert.is_true(list[step].gap[1] > 0)
            assert.equal(0, list[step].gap[2]) -- the last stage never is
         end
      end)
   end)

   it("have their gap measured where --gaps asks for it", function()
      -- With one micro-batch in a batch, stage 0 of two reads what lacks one update: the gap of
      -- batch t is what update t has moved it by.
      local function train(steps, gaps, o)
         local record = {}
         local plan, full = pipeline.plan { family = "bert", dropout = 0,
            devices = o.replicas and "cpu:3" or "cpu:2",
            partition = { "encoder/block.1" }, schedule = o.schedule or "async",
            staleness = o.staleness, micro_batches = o.micro_batches or 1, steps = steps,
            gaps = gaps, optimizer = o.optimizer, replicas = o.replicas }
         local run, params = plan.blueprint:run(), {}
         for i, param in ipairs(plan.graphs[1]:params()) do params[param.name] = run:param(i) end
         plan.options.model:initialize(params, full.seed)
         run:refresh()
         run:begin(steps, 1, true)
         for step = 1, steps do
            local fed = pipeline.fed(plan, full, step - 1)
            run:feed(fed.inputs, fed.bucket, full.rate)
            if step > 1 then record[step - 1] = run:next(600) end
         end
         record[steps] = run:next(600)
         run:finish()
         for d, row in ipairs(gaps and run:measured() or {}) do
            assert.equal(plan.memory[d].versions, row.versions)
         end
         local values = {}
         for name, tensor in pairs(params) do
            local layer = tonumber(name:match("layer%.(%d)"))
            local first = name:find("embeddings", 1, true) or layer and layer < 1
            if first then values[name] = tensor:view { tensor:count() }:totable() end
         end
         run:free()
         return values, record
      end
      local function distance(a, b)
         local sum = 0
         for name, list in pairs(a) do
            for i, x in ipairs(list) do sum = sum + (x - b[name][i]) ^ 2 end
         end
         return math.sqrt(sum)
      end
      -- What SGD predicts of the update that is missing: momentum times the one before it.
      local function predicted(o)
         local before, reads = train(1, false, o), train(2, false, o)
         for name, list in pairs(reads) do
            for i, x in ipairs(list) do list[i] = x + 0.9 * (x - before[name][i]) end
         end
         return reads
      end
      for _, o in ipairs { { staleness = "stash" }, { staleness = "vertical" },
         { staleness = "none" }, { staleness = "predict", optimizer = "sgd" },
         { staleness = "none", replicas = "2-1", micro_batches = 2 } } do -- each owns some weights
         local before = o.staleness == "predict" and predicted(o) or train(2, false, o)
         local after = train(3, false, o)
         local whole, record = train(6, true, o)
         assert.is_nil(record[1].gaps) -- the first batch is not late
         local wanted = distance(before, after)
         assert.is_true(wanted > 1e-3)
         assert.is_true(math.abs(record[4].gaps[1] / wanted - 1) < 1e-5)
         assert.equal(2, #record[4].gaps)
         if o.staleness ~= "vertical" then assert.equal(0, record[4].gaps[2]) end
         local plain, unasked = train(6, false, o)
         assert.same(plain, whole) -- it changes nothing
         assert.is_nil(unasked[4].gaps)
      end
      for words, o in pairs {
         ["gap%-aware\" records its gaps anyway"] = { schedule = "async",
            staleness = "gap-aware" },
         ["with schedule = \"1f1b\" none are: leave it out"] = { schedule = "1f1b" },
         ["with max_staleness = 0 none are: leave it out"] = { schedule = "async",
            max_staleness = 0 },
      } do
         o.gaps, o.devices = true, "cpu:2"
         local made, problem = pcall(pipeline.plan, o)
         assert.is_false(made)
         assert.matches(words, problem.message)
      end
   end)

   it("are in drawings and traces, by their version", function()
      files.in_directory(function(dir)
         local plan = pipeline.plan { schedule = "async", devices = "cpu:2", micro_batches = 2 }
         plan:draw(dir .. "/plan.svg", 3):draw(dir .. "/plan.json", 3)
         local svg = core.sys.read_file(dir .. "/plan.svg")
         assert.matches("<title>F stage 0 mb 0, batch 1, weights of version 0 %(1 update late%): ",
            svg)
         assert.equal(2, select(2, svg:gsub('class="v"', ""))) -- one of each later batch
         for _, event in ipairs(core.json.decode(core.sys.read_file(dir .. "/plan.json"))
            .traceEvents)
         do
            if event.cat == "forward" then
               assert.equal(event.args.batch - event.args.lag, event.args.version)
            end
         end
      end)
   end)
end)

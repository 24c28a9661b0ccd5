--- Five people and what they type, from their first minute on: the commands work as they stand, one
-- after the other, and say what the next one needs.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

local ftpipe = process.ftpipe

--- What a command printed on both streams; it must end with this exit code (0).
local function said(words, exit)
   local out, err, code = ftpipe(words)
   assert.equal(exit or 0, code, table.concat(words, " ") .. "\n" .. err)
   return out .. err
end

local function expect(text, patterns)
   for _, pattern in ipairs(patterns) do assert.matches(pattern, text) end
end

describe("the journey of", function()
   local directory

   before_each(function() directory = files.directory() end)

   after_each(function() files.remove(directory) end)

   it("a newcomer without a GPU: doctor, a first run, a larger model, a model that is not here",
      function()
         local text = said { "doctor", "--quick" }
         expect(text, { "^ftpipe ", "\nmachine ", "\nmemory ", "\ndevice ", "\ngpu ", "\nmodel " })
         local first = text:match("\nnext +ftpipe (%S+)") -- what doctor says is what works
         local out = directory .. "/run"
         text = said { first, "--steps", "40", "--eval-limit", "40", "--eval-every", "20",
            "--out", out }
         expect(text, { "the tiny model inside the program", "embedded train data of task rte",
            "plan: 1f1b, 2 stages on 2 devices %(cpu:2%)", "\nmemory:\n", "predicted: [%d.]+ ",
            "\nbefore: accuracy ", "\nafter: accuracy ", "step=40 of=40 loss=",
            "samples_per_second=", "eta=0:00", "idle_percent=%d+,%d+",
            "step 20: accuracy .-, the best so far", "\ntime of devices: ",
            "/run: ftpipe report %S+/run shows it, ftpipe predict %S+/run answers with it" })
         local summary = core.json.decode(core.sys.read_file(out .. "/summary.json"))
         assert.is_true(summary.loss_last < summary.loss_first)
         expect(said { "report", out }, { "report.html: %d+ kB" })
         expect(said { "runs", "ls", directory }, { "/run +done +rte +accuracy " })
         expect(said { "plan", "t5-base", "--devices", "sim:4x11GB", "--partition", "seq" },
            { "^t5%-base, ", "\npredicted: " })
         expect(said({ "run", first, "--model", "t5-small" }, 6), { "without weights",
            "none in %./t5%-small or %S+/models%-%-t5%-small", "give a directory" })
         expect(said({ "run", "recipes/t5_rt.lua" }, 2), { "did you mean 't5_rte.lua'" })
         expect(said({ "train" }, 2), { "a recipe does that, as ftpipe recipes/t5_rte.lua" })
         expect(said({ "plan", "t5-3bb" }, 6), { "configuration %(did you mean 't5%-3b'%?%)\n$" })
      end)

   it("the owner of four cards: why it does not fit, what does, stopping, going on with less",
      function()
         local recipe = "recipes/t5_rte.lua"
         local text = said({ "plan", recipe, "--model", "t5-3b", "--devices", "sim:4x10GB" }, 3)
         expect(text, { "does not fit: %S+ card needs [%d.]+ GB of its 10.0 GB",
            "sim:3 card +%d+%.%d of 10000 MB: weights [%d.]+, gradients [%d.]+, optimizer ",
            "what would help: ", "%-%-micro%-batches %d+: fits, [%d.]+ s a batch" })
         local flag, value = text:match("(%-%-micro%-batches) (%d+): fits")
         text = said { "plan", recipe, "--model", "t5-3b", "--devices", "sim:4x10GB", flag, value }
         expect(text, { "proved: completes on any timing",
            "predicted: [%d.]+ samples/s in a leg of %d+ batches, idle" })
         assert.is_nil(text:find("does not fit", 1, true))

         local out = directory .. "/run"
         local pid = core.process.start({ "/usr/bin/env", "--default-signal=INT",
            core.sys.executable(), recipe, "--steps", "100000", "--eval-limit", "8", "--out", out },
            directory .. "/said", directory .. "/said", {})
         local deadline = core.sys.time_ns() + 600e9
         local function told()
            local path = directory .. "/said"
            return core.sys.exists(path) and core.sys.read_file(path) or ""
         end
         while not told():find("step=1 ", 1, true) do
            assert.is_true(core.sys.time_ns() < deadline, told())
            core.process.sleep(0.05)
         end
         expect(said { "runs", "ls", directory }, { "/run +running " })
         expect(said { "runs", "show", out }, { "running as process " .. pid .. "," })
         core.process.signal(pid, 2)
         local code
         repeat
            code = core.process.poll(pid)
            core.process.sleep(0.02)
         until code or core.sys.time_ns() > deadline
         assert.equal(130, code)
         expect(said { "runs", "ls", directory }, { "/run +stopped 130 +rte " })
         text = told()
         local done = tonumber(text:match("stopped after step (%d+) of 100000; saved "))
         expect(text, { "checkpoints/step%-" .. tostring(done) .. ", %-%-resume goes on" })
         text = said { "run", recipe, "--resume", "--out", out, "--devices", "cpu:1",
            "--eval-limit", "8", "--steps", tostring(done + 2), "--change-rate" }
         expect(text, { "goes on from %S+/step%-" .. done, "1 stage on 1 device %(cpu:1%)" })
         assert.equal(done + 2,
            core.json.decode(core.sys.read_file(out .. "/summary.json")).steps)
      end)

   it("a researcher: partitioners side by side, numbers for programs, an own plan, a difference",
      function()
         local model = { "plan", "t5-small", "--devices", "sim:4x11GB", "--batch", "8",
            "--effort", "0.5" }
         local function plan(...)
            local words = { unpack(model) }
            for _, word in ipairs { ... } do words[#words + 1] = word end
            return said(words)
         end
         local text = plan("--compare")
         for _, method in ipairs { "seq", "mixed", "pipedream", "greedy", "best" } do
            assert.matches("\n  " .. method .. " +%d+%.%d+ +[01]%.%d+ ", text)
         end
         expect(text, { "slowest ms +balance +memory +moved a micro%-batch +stages +above bound",
            "optimal" })
         local data = core.json.decode(plan("--format", "json", "--compare"))
         assert.equal(5, #data.compare)
         assert.is_true(#data.stages >= 4 and data.seconds_per_batch > 0)
         assert.matches("<graphml", plan("--format", "graphml"))
         assert.equal(plan("--format", "json"), plan("--format", "json")) -- by its seed

         expect(said { "-e", [[local ft = require("ftpipe")
            for _, n in ipairs { 4, 8 } do
               local p = ft.explore("t5-small", { devices = "sim:4x11GB", partition = "mixed",
                  stages = n, effort = 0.5, batch = 8 })
               print(n, #p.stages, p.samples_per_second)
            end]] }, { "^4\t%d+\t[%d.]+\n8\t%d+\t[%d.]+\n$" })
         expect(said { "-e", ([[local ft = require("ftpipe")
            local p = ft.explore("t5-small", { devices = "sim:2x11GB", batch = 8 }).plan
            local why = tostring(p:why("encoder/block.3"))
            local q = p:move("encoder/block.3", why:match("\n  on (sim:. card): "))
            print(why)
            print(p:diff(q))
            q:save("%s/my.plan")]]):format(directory) }, {
            "^encoder/block.3 %(%d+ nodes%) is in stage", "\n  on sim:%d card: ",
            "\npredicted: [%d.]+ %-> [%d.]+ samples/s" })
         expect(said { "plan", "t5-small", "--devices", "sim:2x11GB", "--batch", "8", "--plan",
            directory .. "/my.plan" }, { "\npredicted: " })
      end)

   it("an engineer: which device waits for what, some batches of it, two runs beside each other",
      function()
         local a, b = directory .. "/a", directory .. "/b"
         local function train(out, schedule)
            return said { "recipes/t5_rte.lua", "--steps", "10", "--eval-limit", "8",
               "--profile", "modelled", "--schedule", schedule, "--out", out }
         end
         expect(train(a, "1f1b"), { "memory: cpu:0 predicted [%d.]+ MB, measured [%d.]+ MB %(",
            "\n +device +computed +data", "\n +cpu:0 +[%d.]+ %%" })
         train(b, "gpipe")
         expect(said { "top", a, "--once" }, { "^step 10/10  loss ", "\ncpu:0  [#.]+ ",
            "waits most for data of %S+, [%d.]+ %%" })
         expect(said { "trace", a, "--batches", "3-5", "--text" }, { "^cpu:0 |",
            "\ncpu:1 |", "forward  %S+ backward", "idle" })
         expect(said { "trace", a, "--batches", "3-5", "--out", directory .. "/t.json" },
            { "t.json: %d+ events, %d+ kB" })
         expect(said({ "runs", "diff", a, b }, 1), { 'schedule +"1f1b"  "gpipe"',
            "plan.txt differs" })
      end)

   it("who sweeps: what would be tried, the trials, the best and its command, a page", function()
      core.sys.write_file(directory .. "/lr.lua", [[local ft = require("ftpipe")
         return ft.sweep { run = { "recipes/t5_rte.lua", steps = 8, eval_every = 4,
               eval_limit = 16, profile = "modelled" },
            space = { lr = ft.sweep.log(1e-4, 3e-3) }, method = "tpe", trials = 3,
            prune = { kind = "asha", min = 4, eta = 3 } }]])
      local file, out = directory .. "/lr.lua", directory .. "/lr"
      expect(said { "sweep", file, "--dry-run" }, { "tpe, 3 trials\n    1  lr=",
         "\nplan: 1f1b, 2 stages" })
      -- into a file, in which somebody else writes on
      process.shell(("{ '%s' sweep %s --dry-run; echo end; } >%s/said 2>&1"):format(
         core.sys.executable(), file, directory))
      expect(core.sys.read_file(directory .. "/said"), { "^sweep of .-tpe, 3 trials\n    1  lr="
         .. "%S+\n    2  lr=%S+\n    3  lr=%S+\nrte: the tiny model .-\nplan: 1f1b.*\nend\n$" })
      assert.is_nil(core.sys.exists(out))
      expect(said { "sweep", file, "--out", out }, { "trial=1 state=done", "3 trials: ",
         "\nbest [%d.]+: trial %d" })
      expect(said { "sweep", file, "--out", out, "--resume", "--trials", "4" }, { "\n4 trials: " })
      local words = {}
      for word in said({ "sweep", "best", out }):match("\nftpipe ([^\n]+)"):gmatch("%S+") do
         words[#words + 1] = word:gsub("^%-%-steps=8", "--steps=2"):gsub("^%-%-out=auto",
            "--out=" .. directory .. "/again")
      end
      expect(said(words), { "\nafter: accuracy " })
      assert.is_not_nil(core.sys.exists(directory .. "/again/summary.json"))
      expect(said { "report", out }, { "report.html: %d+ kB" })
   end)
end)

local core = require("ftpipe.core")
local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")

local RECIPE = "recipes/t5_rte.lua"

local function run(...) return process.ftpipe { RECIPE, ... } end

--- The embedded model as a directory, with `change(dir)` done to it.
local function with_model(body, change)
   files.in_directory(function(dir)
      local model = dir .. "/model"
      files.tiny_model(model)
      if change then change(model) end
      body(model, dir)
   end)
end

local function line(premise, label)
   return ('{"premise": "%s", "hypothesis": "Ben has a kite.", "label": "%s"}\n'):format(premise,
      label)
end

local GOOD = line("Ben has a red kite.", "entailment"):rep(8)

--- One line on stderr that matches, the exit code, and no run directory.
local function refused(code, pattern, arguments, out_dir)
   local printed = process.refused(code, pattern, { RECIPE, unpack(arguments) })
   if out_dir then assert.is_false(core.sys.exists(out_dir) and true or false) end
   return printed
end

describe("recipes/t5_rte.lua", function()
   it("says what its flags are, in fewer than fifty lines", function()
      local out, _, exit = run("--help")
      assert.equal(0, exit)
      assert.is_true(select(2, out:gsub("\n", "")) < 50)
      for _, flag in ipairs { "--devices", "--model", "--schedule", "--out", "--dry-run" } do
         assert.truthy(out:find(flag, 1, true), flag)
      end
   end)

   it("plans T5-3B on eight cards of 11 GB with every schedule", function()
      for _, row in ipairs(core.schedule.list()) do
         local schedule = row.name
         local out, err, exit = run("--model", "t5-3b", "--devices", "sim:8x11GB", "--schedule",
            schedule, "--batch", "8", "--micro-batches", "8")
         local places = row.folds or row.interleaves -- two stages for each card
         local stages = places and 16 or schedule == "data-parallel" and 1 or 8
         local whole = row.replicates -- every card has all of it, which is too much
         assert.equal(whole and 3 or 0, exit, err)
         assert.truthy(out:find(("plan: %s, %d stage"):format(schedule, stages), 1, true), out)
         assert.matches("predicted: [%d.]+ samples/s", out)
      end
   end)

   it("prints its plan before it trains, also where stdout is no terminal", function()
      local out = process.shell(("'%s' %s --steps 1 --profile modelled 2>&1"):format(
         core.sys.executable(), RECIPE))
      assert.is_true(out:find("\nplan: ", 1, true) < out:find("\nstep=1 ", 1, true))
   end)

   it("refuses wrong flags with one line", function()
      refused(2, "unknown flag '%-%-modle' %(did you mean '%-%-model'%?%)", { "--modle", "x" })
      refused(2, "%-%-schedule: 'foo' is not available", { "--schedule", "foo" })
      refused(2, "device list \"gpu:2\".*%(did you mean cuda%?%)", { "--devices", "gpu:2" })
      refused(2, "%-%-steps: expected at least 1, got 0", { "--steps", "0" })
      refused(2, "batch 30 is not a multiple of %-%-micro%-batches 4, give %-%-batch 32 or "
         .. "%-%-micro%-batches 3", { "--batch", "30", "--micro-batches", "4" })
      refused(6, "t5%-small is a built%-in configuration without weights, .*: give a directory, or "
         .. "plan only", { "--model", "t5-small" })
      refused(2, "%-%-patience counts evaluations, give %-%-eval%-every too", { "--patience", "1" })
      refused(2, "%-%-save%-every saves in the directory that %-%-out names",
         { "--save-every", "1" })
      refused(2, "%-%-keep is for checkpoints in the directory that %-%-out names",
         { "--keep", "2" })
      refused(2, "%-%-epochs: expected more than 0, got 0", { "--epochs", "0" })
      refused(2, "%-%-staleness stash is for async; %-%-schedule 1f1b drains",
         { "--staleness", "stash" })
      refused(2, "%-%-staleness stash is for async; %-%-schedule 2bw says itself",
         { "--staleness", "stash", "--schedule", "2bw" })
      refused(2, "%-%-max%-staleness 1 is for async; %-%-schedule 1f1b drains",
         { "--max-staleness", "1" })
   end)

   it("plans stale weights of every kind", function()
      local ways = { "stash", "vertical", "predict", "gap-aware", "stash+gap-aware" }
      for _, staleness in ipairs(ways) do
         local flags = { "--schedule", "async", "--staleness", staleness }
         local out, err, exit = run("--dry-run", unpack(flags))
         assert.equal(0, exit, err)
         assert.matches("predicted: %d+", out)
      end
   end)

   it("says what norms an asynchronous run is clipped by", function()
      local flags = { "--dry-run", "--schedule", "async", "--devices", "cpu:3", "--clip", "1" }
      assert.matches("\nclip: gradients to a norm of 1, over all stages; norms of the stages "
         .. "before its own are some batches old, by stage 1: 1, 2: 1 ", run(unpack(flags)))
      flags[3] = "1f1b"
      assert.matches("\nclip: gradients to a norm of 1, over all stages\n", run(unpack(flags)))
   end)

   it("holds stages to a bound of staleness, and says so", function()
      local flags = { "--dry-run", "--schedule", "async", "--micro-batches", "1", "--devices",
         "cpu:3" }
      local free = run(unpack(flags))
      assert.matches("stage 0 on [^\n]*3 in flight, weights 2 updates late\n", free)
      flags[#flags + 1], flags[#flags + 2] = "--max-staleness", "1"
      local held = run(unpack(flags))
      assert.matches("stage 0 on [^\n]*2 in flight, weights 1 update late\n", held)
      assert.matches("\nbound: no forward's weights are more than 1 update late", held)
   end)

   it("says before it measures what a schedule in turns cannot do", function()
      files.in_directory(function(dir)
         local function refused_unmeasured(pattern, ...)
            local _, err, exit = process.shell(("XDG_CACHE_HOME='%s' '%s' %s --schedule "
               .. "interleaved --devices cpu:2 %s"):format(dir, core.sys.executable(), RECIPE,
               table.concat({ ... }, " ")))
            assert.equal(2, exit, err)
            assert.matches(pattern, err)
            assert.is_nil(core.sys.exists(dir .. "/ftpipe/profiles"))
         end
         refused_unmeasured("needs %-%-partition seq, .* %-%-partition mixed puts them on any",
            "--partition mixed --stages 4")
         refused_unmeasured("3 stages on 2 devices take turns", "--stages 3")
         refused_unmeasured("1 micro%-batches, expected a multiple of the 2 devices",
            "--stages 4 --micro-batches 1")
      end)
   end)

   it("refuses a budget that is too small before anything runs", function()
      refused(3, "device cpu:0 needs [%d.]+ MB of memory, its budget is 1%.0 MB %(weights[^)]*%): "
         .. "[%d.]+ MB too much",
         { "--devices", "cpu:2/1MB" })
   end)

   it("answers what it was asked before its first step", function()
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/r.lua", [[local ft = require("ftpipe")
            local args = ft.args { preset = "t5", steps = { default = 2 } }
            return ft.fine_tune { args = args, task = ft.task.rte {}, partition = function(problem)
               local core = require("ftpipe.core")
               core.process.signal(core.sys.getpid(), 10) -- SIGUSR1
               local device = {}
               for i in ipairs(problem.names) do device[i] = 1 end
               return device
            end }]])
         local out, err, code = process.shell(("env --default-signal=USR1 '%s' %s/r.lua --devices "
            .. "cpu:1 --profile modelled --eval-limit 8 --out %s/o"):format(core.sys.executable(),
            dir, dir))
         assert.equal(0, code, out .. err)
         assert.matches("\nsaved %S+/checkpoints/step%-%d, the run goes on\n", err)
      end)
   end)

   it("refuses models that are not there or not whole", function()
      refused(6, "%-%-model /nope is no file or directory, nor in %S+, nor a built%-in ",
         { "--model", "/nope" })
      refused(6, "built%-in configuration", { "--model", "t5-small", "--data", "/nope" })
      with_model(function(model, dir)
         core.sys.write_file(dir .. "/rows.jsonl", GOOD)
         refused(6, "model%.safetensors: tensors cover %d+ bytes of data, the file holds %d+",
            { "--model", model, "--train-file", dir .. "/rows.jsonl", "--eval-file",
               dir .. "/rows.jsonl", "--out", dir .. "/out" }, dir .. "/out")
      end, function(model)
         local bytes = core.sys.read_file(model .. "/model.safetensors")
         core.sys.write_file(model .. "/model.safetensors", bytes:sub(1, #bytes - 1000))
      end)
   end)

   it("refuses shapes and vocabularies that do not fit the configuration", function()
      local function with_config(from, to, pattern)
         with_model(function(model, dir)
            core.sys.write_file(dir .. "/rows.jsonl", GOOD)
            refused(6, pattern, { "--model", model, "--train-file", dir .. "/rows.jsonl",
               "--eval-file", dir .. "/rows.jsonl", "--out", dir .. "/out" }, dir .. "/out")
         end, function(model)
            local text = core.sys.read_file(model .. "/config.json")
            core.sys.write_file(model .. "/config.json", (text:gsub(from, to)))
         end)
      end
      with_config('"d_ff": 256', '"d_ff": 128', "DenseReluDense")
      with_config('"vocab_size": 352', '"vocab_size": 320',
         "352 ids, the model's vocab_size is 320")
   end)

   it("refuses data that is wrong, naming file and line", function()
      files.in_directory(function(dir)
         local function with_rows(text, pattern)
            local path = dir .. "/rows.jsonl"
            core.sys.write_file(path, text)
            refused(6, pattern, { "--train-file", path, "--eval-file", path, "--out",
               dir .. "/out" }, dir .. "/out")
         end
         with_rows("", "rows%.jsonl: holds no rows")
         with_rows(GOOD .. line("x", "maybe"), "rows%.jsonl:9: label 'maybe', expected one of")
         with_rows(line("a\255", "entailment"), "rows%.jsonl:1:15: byte 0xff is not UTF%-8")
         with_rows('{"premise": "x"}\n', "rows%.jsonl:1: field 'hypothesis' is missing")
         with_rows('{"premise": \n', "rows%.jsonl:1")
      end)
      refused(6, "/nope: no such directory", { "--data", "/nope" })
   end)

   it("leaves a model that a fresh process evaluates to the same bits", function()
      with_model(function(model, dir)
         local path = dir .. "/rows.jsonl"
         core.sys.write_file(path, GOOD .. line("Ben lost a saw.", "not_entailment"):rep(8))
         local data = { "--train-file", path, "--eval-file", path, "--devices", "cpu:2",
            "--batch", "10" }
         local function go(from, out, ...)
            local _, err, exit = run("--model", from, "--out", out, ..., unpack(data))
            assert.equal(0, exit, err)
            return core.json.read(out .. "/summary.json"), core.sys.read_file(out
               .. "/predictions.jsonl")
         end
         local first, predicted = go(model, dir .. "/run", "--steps=6")
         local again, predicted_again = go(dir .. "/run/hf", dir .. "/eval", "--eval-only")
         assert.equal(first.eval_loss, again.eval_loss)
         assert.equal(predicted, predicted_again)
         pipeline.assert_totals(first.memory_planned_bytes, first.memory_measured_bytes)
         for _, name in ipairs { "run.json", "plan.txt", "metrics.jsonl", "timeline.json" } do
            assert.equal("file", core.sys.exists(dir .. "/run/" .. name), name)
         end
         assert.truthy(core.json.read(dir .. "/run/timeline.json").traceEvents)
         assert.equal(core.asset("t5_tiny/spiece.model"),
            core.sys.read_file(dir .. "/run/hf/spiece.model"))
      end)
   end)

   it("evaluates what it made of the embedded model on the embedded data, by name", function()
      files.in_directory(function(dir)
         local _, err, exit = run("--out", dir .. "/run", "--steps", "2", "--profile", "modelled")
         assert.equal(0, exit, err)
         _, err, exit = run("--eval-only", "--model", dir .. "/run/hf", "--data", "embedded",
            "--out", dir .. "/again")
         assert.equal(0, exit, err)
         local first = core.json.read(dir .. "/run/summary.json")
         local again = core.json.read(dir .. "/again/summary.json")
         assert.equal(first.value, again.value)
         assert.near(first.eval_loss, again.eval_loss, 1e-5 * first.eval_loss)
         refused(2, "or %-%-data embedded", { "--model", dir .. "/run/hf" })
         refused(2, "%-%-data embedded has both splits", { "--data", "embedded", "--eval-file",
            dir })
      end)
   end)
end)

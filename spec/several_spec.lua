--- One run of several processes: the bits of one process, one run directory, and what is refused.

local cases = require("spec.support.several_cases")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")
local several = require("spec.support.several")

local missing = several.missing()

local flags, kept = several.flags, several.kept
local TIMED_OUT = 124 -- exit code of `timeout`

describe("a run of several processes", function()
   if missing then
      pending("cannot be run here: " .. missing)
      return
   end

   local scratch
   setup(function() scratch = files.directory() end)
   teardown(function() files.remove(scratch) end)

   for _, shape in ipairs { { 2, 1 }, { 2, 2 }, { 4, 1 } } do
      local ranks, each = shape[1], shape[2]
      it(("computes what one does: %d of %d devices"):format(ranks, each), function()
         local out, err, code = several.run(ranks, { "-e",
            ('require("spec.support.several_cases").print(%d, "hosts:%dxcpu:%d")'):format(
               ranks * each, ranks, each) })
         assert.equal(0, code, err)
         local lines = {}
         for line in out:gmatch("[^\n]+") do lines[#lines + 1] = line end
         for i, case in ipairs(cases.of(ranks * each)) do
            assert.equal(cases.train(case, "cpu:" .. ranks * each), lines[i])
         end
      end)
   end

   it("leaves the run directory that one process leaves, and goes on with others", function()
      local function train(ranks, devices, name, ...)
         local words = flags("--devices", devices, "--out", scratch .. "/" .. name, ...)
         local out, err, code
         if ranks == 1 then
            out, err, code = process.ftpipe(words)
         else
            out, err, code = several.run(ranks, words)
         end
         assert.equal(0, code, err)
         return out, err
      end
      local steps = { "--steps", "6", "--save-every", "3" }
      local out = train(1, "cpu:2", "one", unpack(steps))
      local both, err = train(2, "hosts:2xcpu:1", "two", unpack(steps))
      assert.equal(out:match("before: .*"), both:match("before: .*"))
      assert.equal(1, select(2, err:gsub("step=1 ", "")))
      local wanted = kept(scratch .. "/one", 6)
      assert.same(wanted, kept(scratch .. "/two", 6))

      process.shell(("cd %s && rm -r two/checkpoints/step-6 && "
         .. "ln -sfn step-3 two/checkpoints/latest && cp -a two three"):format(scratch))
      table.insert(steps, "--resume")
      train(1, "cpu:2", "two", unpack(steps))
      assert.same(wanted, kept(scratch .. "/two", 6))
      train(3, "hosts:3xcpu:1", "three", unpack(steps))
      wanted.plan = nil -- of three devices
      local found = kept(scratch .. "/three", 6)
      found.plan = nil
      assert.same(wanted, found)
   end)

   it("has the parameters of all of them, when they are asked for", function()
      core.sys.write_file(scratch .. "/look.lua", [[
         local ft = require("ftpipe")
         local args = ft.args { "Parameters after three steps.", preset = "t5",
            steps = { default = 3 }, max_source = { default = 32 } }
         local task = ft.task.rte { max_source = args.max_source }
         local model = ft.model(args)
         local data = task:open(model, args)
         local plan = ft.plan { model = model, data = data, args = args }
         local run = ft.run { plan = plan, task = task, data = data, args = args }
         local function sum(tensor)
            local pointer, total = tensor:pointer(), 0
            for i = 0, tensor:count() - 1 do total = total + pointer[i] ^ 2 end
            return ("%.17g"):format(total)
         end
         local before, refused = {}, 0
         for i, param in ipairs(plan.graphs[1]:params()) do before[i] = run.params[param.name] end
         for _ in run:train() do
            for _, param in ipairs(plan.graphs[1]:params()) do
               local ok, problem = pcall(function() return run.params[param.name] end)
               local why = "'" .. param.name .. "' cannot be fetched while a leg is running"
               if not ok and tostring(problem):find(why, 1, true) then refused = refused + 1 end
            end
         end
         run:stop()
         for i, param in ipairs(plan.graphs[1]:params()) do
            print(param.name, sum(run.params[param.name]))
            if sum(before[i]) == "0" then io.stderr:write("zeros: ", param.name, "\n") end
         end
         io.stderr:write("refused: ", refused, "\n")
         print(select(2, pcall(function() return run.params.shared_weight end)))]])
      local function words(devices)
         return { scratch .. "/look.lua", "--devices", devices, "--profile", "modelled" }
      end
      local one, problem, code = process.ftpipe(words("cpu:2"))
      assert.equal(0, code, problem)
      assert.matches("no parameter 'shared_weight' %(did you mean 'shared.weight'%?%)", one)
      local two, err, both = several.run(2, words("hosts:2xcpu:1"))
      assert.equal(0, both, err)
      assert.equal(one, two)
      assert.matches("refused: [1-9]", err)
      assert.not_matches("zeros: [^\n]*weight", err)
   end)

   it("evaluates through replicas that are in several of them", function()
      for _, replicas in ipairs { "3", "2-1", "1-2" } do
         local function words(devices)
            return flags("--eval-only", "--eval-limit", "30", "--devices", devices, "--replicas",
               replicas, "--batch", "12", "--micro-batches", "6")
         end
         local one, problem = process.ftpipe(words("cpu:3"))
         assert.matches("score: ", one, 1, true)
         local three, err = several.run(3, words("hosts:3xcpu:1"))
         assert.equal(one:match("score: .*"), three:match("score: .*"), problem .. err)
      end
   end)

   it("evaluates with weights that it brings, as one process does", function()
      local function words(devices)
         return { "recipes/gpt2_wikitext2.lua", "--block", "8", "--batch", "4", "--micro-batches",
            "2", "--steps", "2", "--eval-limit", "1", "--profile", "modelled", "--swap", "always",
            "--schedule", "gpipe", "--stages", "6", "--optimizer", "sgd", "--devices", devices }
      end
      local wanted, err, code = process.ftpipe(words("cpu:2"))
      assert.equal(0, code, err)
      local out
      out, err, code = several.run(2, words("hosts:2xcpu:1"))
      assert.equal(0, code, err)
      assert.equal(wanted:match("after: [^\n]+"), out:match("after: [^\n]+"))
   end)

   it("says of numbers that are not finite what one process says", function()
      local words = { "--steps", "20", "--lr", "1e20", "--warmup", "0", "--clip", "0" }
      local _, one, code = process.ftpipe(flags("--devices", "cpu:2", unpack(words)))
      local _, two, both = several.run(2, flags("--devices", "hosts:2xcpu:1", unpack(words)))
      assert.equal(4, code, one)
      assert.equal(4, both, two)
      assert.equal(one:match("ftpipe: [^\n]*"), two:match("ftpipe: [^\n]*"))
   end)

   it("saves and reads what others own without room for it at rank 0", function()
      local out, err, code = several.run(2, { "-e", ([[
         local core = require("ftpipe.core")
         local pipeline = require("spec.support.pipeline")
         local function mb()
            collectgarbage()
            local status = core.sys.read_file("/proc/self/status")
            return tonumber(status:match("VmRSS:%%s+(%%d+)")) / 1000
         end
         local plan, o = pipeline.plan { devices = "hosts:2xcpu:1", d_model = 256, d_ff = 4096,
            steps = 2, batch = 4, dropout = 0 }
         local run, list = require("ftpipe.run.ranks").run(plan), {}
         for i, param in ipairs(plan.graphs[1]:params()) do
            list[#list + 1] = { name = param.name, tensor = { param = i } }
            for k, part in ipairs(run:state_names(i)) do
               list[#list + 1] = { name = param.name .. part, tensor = { param = i, part = k } }
            end
         end
         run:refresh()
         pipeline.steps(run, plan, o, 1, 2)
         local before = mb()
         run:write(%q, list)
         local written = mb()
         run:read(%q, list, true)
         run:refresh()
         local read = mb()
         for i in ipairs(plan.graphs[1]:params()) do run:state(i) end
         local fetched = mb()
         run:begin(2, 3)
         print(before, written, read, fetched, mb())]]):format(scratch .. "/room",
            scratch .. "/room") })
      assert.equal(0, code, err)
      local before, written, read, fetched, again =
         out:match("(%S+)\t(%S+)\t(%S+)\t(%S+)\t(%S+)\n$")
      local taken = fetched - before
      assert.is_true(taken > 50, out) -- half of the parameters and of their state
      assert.is_true(written - before < .1 * taken, out)
      assert.is_true(read - before < .1 * taken, out)
      local keeps = core.sanitized -- what is freed
      assert.is_true(keeps or again - before < .5 * taken, out)
   end)

   it("draws what others own without room for it at rank 0", function()
      local code = [[
         local core = require("ftpipe.core")
         local pipeline = require("spec.support.pipeline")
         local function mb()
            collectgarbage()
            return tonumber(core.sys.read_file("/proc/self/status"):match("VmRSS:%s+(%d+)")) / 1000
         end
         local plan, o = pipeline.plan { devices = (...), d_model = 256, d_ff = 4096, steps = 2,
            batch = 4, dropout = 0 }
         local run, params = require("ftpipe.run.ranks").run(plan), plan.graphs[1]:params()
         local laws, before, different = { "constant", "normal", "uniform" }, mb(), 0
         for i in ipairs(params) do run:draw(i, laws[i % 3 + 1], 0.25 / i, 7, i) end
         run:refresh()
         local drawn = mb()
         for i, param in ipairs(params) do
            local other = core.tensor.zeros(param.dims):draw(laws[i % 3 + 1], 0.25 / i, 7, i)
            different = different + (run:param(i):equals(other) and 0 or 1)
         end
         io.stderr:write("taken ", drawn - before, " ", mb() - drawn, "\n")
         print(different, #params, table.concat((pipeline.steps(run, plan, o, 1, 2)), ' '))]]
      core.sys.write_file(scratch .. "/draw.lua", code)
      local one, problem = process.ftpipe { scratch .. "/draw.lua", "cpu:2" }
      assert.matches("^0\t%d+\t[%d.]+", one, problem)
      local two, err = several.run(2, { scratch .. "/draw.lua", "hosts:2xcpu:1" })
      assert.equal(one, two, err)
      local drawn, fetched = err:match("taken (%S+) (%S+)")
      assert.is_true(tonumber(drawn) < .1 * tonumber(fetched), err)
   end)

   it("refuses programs that are not the same, by rank", function()
      local other = core.sys.executable():gsub("[^/]+$", "ftpipe_check")
      if not core.sys.exists(other) then return pending("there is no second program") end
      local _, err, code = process.shell(several.command(1, { "-e", "" })
         .. (" : -n 1 %s -e '' </dev/null"):format(other))
      assert.not_equal(0, code)
      assert.matches("ftpipe: rank 1 %(host [^)]+%) runs ftpipe [%d.]+, build %x+, rank 0 "
         .. "%(host [^)]+%) runs [%d.]+, build %x+: the processes of a run are of one program", err)
   end)

   it("refuses devices of another number of processes", function()
      local _, err, code = several.run(2, flags("--devices", "hosts:3xcpu:1", "--steps", "2"))
      assert.equal(2, code)
      assert.matches("hosts:3xcpu:1 is of 3 processes, and 2 were started: expected mpirun %-n 3",
         err)
      _, err, code = several.run(2, flags("--devices", "cpu:2", "--steps", "2"))
      assert.equal(2, code)
      assert.matches("cpu:2 is of 1 process, and 2 were started: expected devices of 2, as "
         .. "hosts:2xcpu:1", err)
   end)

   it("says when its processes have other kernels, and goes on knowing it", function()
      if core.sys.kernels() == "base" then return pending("there are no other kernels here") end
      local out = scratch .. "/kernels"
      local said = "the kernels of its processes differ, and so may the last bits of numbers from "
         .. "those of one process: " .. core.sys.kernels() .. " at rank 0, base at rank 1; "
         .. "FTPIPE_KERNELS=base for all of them (mpirun -x FTPIPE_KERNELS=base) makes them the "
         .. "same\n"
      local function train(mixed, n, ...)
         local words = flags("--devices", ("hosts:%dxcpu:1"):format(n), "--eval-limit", "4", ...)
         local before = { [n - 1] = mixed and "env FTPIPE_KERNELS=base" or nil }
         local _, err, code = process.shell(several.command(n, words, nil, before) .. " </dev/null")
         assert.equal(0, code, err)
         return err
      end
      local function processor(path)
         return core.json.decode(core.sys.read_file(path)).processor
      end
      local err = train(true, 2, "--steps", "2", "--out", out)
      local at = err:find(said, 1, true)
      assert.is_truthy(at, err)
      assert.is_nil(err:find("the kernels of its", at + 1, true))
      local both = processor(out .. "/checkpoints/latest/state/state.json")
      assert.matches("^[^()]*.* %([^()]+%) at rank 0, .* %(base%) at rank 1$", both)
      assert.equal(both, processor(out .. "/run.json"))

      err = train(true, 2, "--steps", "3", "--out", out, "--resume")
      assert.not_matches("was written on", err)
      err = train(false, 2, "--steps", "4", "--out", out, "--resume")
      assert.not_matches("the kernels of its", err)
      local here = both:match("^(.*) at rank 0, ")
      assert.is_truthy(err:find("was written on " .. both .. ", this is " .. here .. ": numbers",
         1, true), err)
      assert.equal(here, processor(out .. "/checkpoints/latest/state/state.json"))
   end)

   it("computes what one does with the same kernels", function()
      local function train(name, prefix, words)
         for _, word in ipairs { "--steps", "3", "--eval-limit", "4", "--out",
            scratch .. "/" .. name } do words[#words + 1] = word end
         local _, err, code = process.shell("env FTPIPE_KERNELS=base " .. prefix(words)
            .. " </dev/null")
         assert.equal(0, code, err)
         assert.not_matches("kernels", err)
         return kept(scratch .. "/" .. name, 3)
      end
      local one = train("base1", function(words)
         return core.sys.executable() .. " " .. table.concat(words, " ")
      end, flags("--devices", "cpu:2"))
      local two = train("base2", function(words) return several.command(2, words) end,
         flags("--devices", "hosts:2xcpu:1"))
      assert.same(one, two)
   end)

   it("divides the memory of a machine among its processes", function()
      local function budgets(ranks, devices)
         local out, err, code = several.run(ranks, { "-e", ([[
            local core = require("ftpipe.core")
            local clusters = require("ftpipe.placement.cluster")
            local listed = core.engine.devices(%q)
            local described = clusters { devices = %q, at = { "a", "b" },
               network = { bandwidth = "1GB/s" } }
            for d, device in ipairs(core.engine.devices(described)) do
               assert(device.memory_bytes == listed[d].memory_bytes)
               print(device.memory_bytes)
            end]]):format(devices, devices) })
         assert.equal(0, code, err)
         local list = {}
         for bytes in out:gmatch("%d+") do list[#list + 1] = tonumber(bytes) end
         return list
      end
      local sum, all = 0, budgets(2, "hosts:2xcpu:2")
      for _, bytes in ipairs(all) do
         assert.equal(all[1], bytes)
         sum = sum + bytes
      end
      local there = core.sys.memory() -- what others take meanwhile is little
      assert.is_true(#all == 4 and sum > .75 * there and sum < 1.25 * there, sum)
      assert.same({ 3e9, 3e9 }, budgets(2, "hosts:2xcpu:1/3GB"))
   end)

   it("plans for the memory that its processes have together", function()
      local words = flags("--devices", "hosts:2xcpu:1", "--dry-run")
      local out, err, code = several.run(2, words)
      assert.equal(0, code, err)
      local sum = 0
      for budget in out:gmatch("\n  %d/cpu:0 +[%d.]+ of (%d+) MB: ") do sum = sum + budget end
      local there = core.sys.memory() / 1e6
      assert.is_true(sum > .75 * there and sum < 1.25 * there, out)
      assert.not_matches("budgets: ", out)
   end)

   it("is rehearsed by as many as it is of", function()
      local _, err, code = several.run(3, flags("--devices", "hosts:2xcpu:1", "--dry-run"))
      assert.equal(2, code, err)
      assert.matches("hosts:2xcpu:1 is of 2 processes, and 3 were started: expected mpirun %-n 2",
         err)
      local out
      out, err, code = several.run(2, flags("--devices", "hosts:2xcpu:1", "--dry-run"))
      assert.equal(0, code, err)
      assert.matches("predicted: ", out)
   end)

   it("has no directory of swaps, which a rehearsal finds", function()
      local words = flags("--devices", "hosts:2xcpu:1", "--swap", "auto", "--swap-dir", scratch,
         "--steps", "2")
      local _, wanted, code = several.run(2, words)
      assert.equal(2, code, wanted)
      assert.matches("%-%-swap%-dir is for a run of one process, this one is of 2", wanted)
      words[#words + 1] = "--dry-run"
      local _, err, again = several.run(2, words)
      assert.equal(2, again, err)
      assert.equal(wanted:match("ftpipe: [^\n]*"), err:match("ftpipe: [^\n]*"))
   end)
end)

describe("doc/machines.md", function()
   if missing then
      pending("has commands that cannot be run here: " .. missing)
      return
   end

   it("has commands that work: those that need no other machine", function()
      local directory, ran = files.directory(), 0
      local short = " --steps 3 --max-source 32 --profile modelled </dev/null"
      for command in core.sys.read_file("doc/machines.md"):gmatch("\n    (%l[^\n]+)") do
         local words = command:gsub(" out/", function() return " " .. directory .. "/" end)
         local ranks = 1
         local rest = words:match("^ftpipe (.*)$")
         if words:find("^mpirun") and not words:find("--host", 1, true) then
            ranks, rest = words:match("^mpirun %-n (%d+).- ftpipe (.*)$")
         end
         if rest and rest:find("^profile") then
            local given = {}
            for word in rest:gmatch("%S+") do given[#given + 1] = word end
            local out, err, code = several.run(tonumber(ranks), given)
            assert.equal(0, code, err)
            assert.matches('{ devices = "hosts:2xcpu:1", at = ', out)
            local text = out:match("ft%.cluster {[^\n]*}")
            local cluster = assert(loadstring("local ft = ...; return " .. text))(require("ftpipe"))
            local link = cluster:link(1, 2)
            assert.is_true(link.latency_ns > 100 and link.bytes_per_s > 1e6, text)
            ran = ran + 1
         elseif rest and rest:find("^recipes/") then
            local start = several.command(tonumber(ranks), { "?" }):gsub(" '%?'$", "")
            local _, err, code = process.shell(start .. " " .. rest .. short)
            assert.equal(0, code, command .. "\n" .. err)
            ran = ran + 1
         elseif rest and rest:find("^run ") then
            local _, err, code = process.shell(several.environment(core.sys.executable() .. " "
               .. rest .. short))
            assert.equal(0, code, command .. "\n" .. err)
            ran = ran + 1
         end
      end
      files.remove(directory)
      assert.equal(5, ran)
   end)
end)

describe("the loss of a process", function()
   if missing then
      pending("cannot be tried here: " .. missing)
      return
   end

   local scratch
   setup(function() scratch = files.directory() end)
   teardown(function() files.remove(scratch) end)

   --- Starts a long run of so many processes, and sends a signal to one of them when it has its
   -- second checkpoint, since of the first the others have been told by then: what was said on
   -- stderr, the exit code.
   local function lose(ranks, rank, signal)
      local out = ("%s/%d-%d-%s"):format(scratch, ranks, rank, signal)
      local words = flags("--devices", ("hosts:%dxcpu:1"):format(ranks), "--steps", "100000",
         "--save-every", "20", "--out", out)
      local script = ([[
         %s >%s.out 2>%s.err </dev/null & launcher=$!
         until readlink %s/checkpoints/latest | grep -qvx step-20 || ! kill -0 $launcher; do
            sleep 0.1; done
         for pid in $(pgrep -f -- "--out %s "); do
            if tr '\0' '\n' </proc/$pid/environ | grep -qx OMPI_COMM_WORLD_RANK=%d; then
               kill -s %s $pid
            fi
         done
         wait $launcher]]):format(several.command(ranks, words), out, out, out,
         out:gsub("%-", "[-]"), rank, signal)
      local _, _, code = process.shell(script)
      return core.sys.read_file(out .. ".err"), code, out
   end

   for _, case in ipairs { { 3, 0, "KILL" }, { 3, 1, "KILL" }, { 3, 2, "KILL" }, { 2, 1, "STOP" },
      { 2, 0, "STOP" } }
   do
      local ranks, rank, signal = unpack(case)
      it(("is said by others, by name: rank %d of %d, %s"):format(rank, ranks, signal),
         function()
            local err, code, out = lose(ranks, rank, signal)
            local named = select(2, err:gsub(("ftpipe: rank %d %%(host [^)]+%%) has "):format(rank),
               ""))
            local at = select(2, err:gsub(("ftpipe: rank %d [^\n]*; it was at stage %d on %d/cpu")
               :format(rank, rank, rank), ""))
            assert.same({ ranks - 1, ranks - 1 }, { named, at }, err)
            assert.not_equal(TIMED_OUT, code, err) -- it ends by itself
            if rank > 0 then
               local step = err:match("; the checkpoint of step (%d+) is whole, %-%-resume goes on")
               assert.is_truthy(step, err)
               assert.is_truthy(core.sys.exists(("%s/checkpoints/step-%s"):format(out, step)), err)
            end
         end)
   end
end)

describe("a run over a network", function()
   local why = several.no_machines()
   if why then
      pending("cannot be tried here: " .. why)
      return
   end

   local scratch
   local set = several.set_of_machines()
   setup(function()
      scratch = files.directory()
      several.machines_up(set, 2)
   end)
   teardown(function()
      several.machines_down(set, 2)
      files.remove(scratch)
   end)

   local function command(name, ...)
      return several.on_machines(set, flags("--devices", "hosts:2xcpu:1", "--out",
         scratch .. "/" .. name, ...))
   end

   it("computes what one process does", function()
      local steps = { "--steps", "6", "--save-every", "3" }
      local words = flags("--out", scratch .. "/one", "--devices", "cpu:2", unpack(steps))
      local _, err, code = process.ftpipe(words)
      assert.equal(0, code, err)
      _, err, code = process.shell(command("two", unpack(steps)))
      assert.equal(0, code, err)
      assert.same(kept(scratch .. "/one", 6), kept(scratch .. "/two", 6))
   end)

   it("says whose link was cut, with the checkpoint that is whole", function()
      local out = scratch .. "/cut"
      process.shell(([[
         %s >/dev/null 2>%s.err & launcher=$!
         until readlink %s/checkpoints/latest | grep -qvx step-20 || ! kill -0 $launcher; do
            sleep 0.1; done
         tools/netns.sh cut %d 1
         until grep -q resume %s.err || ! kill -0 $launcher; do sleep 0.1; done
         kill $launcher
         for pid in $(pgrep -f -- "--out %s "); do kill -9 $pid; done]]):format(
         command("cut", "--steps", "100000", "--save-every", "20"), out, out, set, out,
         out:gsub("%-", "[-]")))
      local err = core.sys.read_file(out .. ".err")
      -- it ends by itself when it has missed rank 0 for as long, and both are of one machine
      assert.matches("ftpipe: rank 1 %(host node1%) has %l+", err)
      assert.matches("; it was at stage 1 on 1/cpu:0: ", err)
      assert.matches("the checkpoint of step %d+ is whole, %-%-resume goes on from it", err)
   end)
end)

describe("a run over a slow link", function()
   local why = several.no_machines("1e8", "50")
   if why then
      pending("cannot be tried here: " .. why)
      return
   end

   it("computes while values are on their way", function()
      local set, out = several.set_of_machines(), files.directory()
      local said, up = several.machines_up(set, 2, "1e8", "50")
      finally(function()
         several.machines_down(set, 2)
         files.remove(out)
      end)
      assert.equal(0, up, said)
      local _, err, code = process.shell(several.on_machines(set, flags("--devices",
         "hosts:2xcpu:1", "--steps", "3", "--batch", "16", "--micro-batches", "8", "--eval-limit",
         "8", "--out", out .. "/run")))
      assert.equal(0, code, err)
      -- a micro-batch that left when the one before it did is on its way while that is worked on
      local text = process.ftpipe { "trace", out .. "/run", "--text" }
      local values, ms, share = text:match(
         "between devices: (%d+) values, (%S+) ms each from made to taken, (%d+) %% of it while")
      assert.equal("48", values, text) -- there and back, of three steps
      assert.is_true(tonumber(ms) >= 50 and tonumber(share) > 0, text)
   end)
end)

describe("devices of several processes", function()
   it("have costs of which the plan says who measured them", function()
      local function costs(devices, ...)
         local out, err, code = process.ftpipe { "recipes/t5_rte.lua", "--max-source", "32",
            "--devices", devices, "--profile", ... }
         assert.equal(0, code, err)
         return out:match("\ncosts: ([^\n]*)")
      end
      assert.matches("^measured on .*, by rank 0, taken for all processes$",
         costs("hosts:2xcpu:1", "fresh", "--dry-run"))
      assert.matches("^measured on [^,]*$", costs("cpu:2", "fresh", "--dry-run"))
      assert.equal("modelled", costs("hosts:2xcpu:1", "modelled", "--dry-run"))
   end)

   it("have budgets of which the plan says whose they are, while none is there", function()
      local function budgets(devices)
         local out, err, code = process.ftpipe(flags("--devices", devices, "--dry-run"))
         assert.equal(0, code, err)
         return out:match("\nbudgets: ([^\n]*)")
      end
      assert.equal("of this machine, for each process, since none was started; hosts:2xcpu:1/8GB "
         .. "says what each has", budgets("hosts:2xcpu:1"))
      assert.is_nil(budgets("hosts:2xcpu:1/1GB"))
      assert.is_nil(budgets("cpu:2"))
      local out, err, code = process.ftpipe { "plan", "t5-small", "--devices", "hosts:2xcpu:1",
         "--batch", "4", "--profile", "modelled" }
      assert.equal(0, code, err)
      assert.matches("\nbudgets: of this machine", out)
   end)

   it("are planned for by one", function()
      local out, err, code = process.ftpipe(flags("--devices", "hosts:2xcpu:1", "--dry-run"))
      assert.equal(0, code, err)
      assert.matches("plan: 1f1b, 2 stages on 2 devices %(hosts:2xcpu:1%)", out)
      process.refused(2, "%-%-swap%-dir is for a run of one process, this one is of 2",
         flags("--devices", "hosts:2xcpu:1", "--swap", "auto", "--swap-dir", "/tmp", "--dry-run"))
   end)

   it("are refused where one was started", function()
      process.refused(2, "hosts:2xcpu:1 is of 2 processes, and 1 was started: expected "
         .. "mpirun %-n 2 ftpipe", flags("--devices", "hosts:2xcpu:1", "--steps", "2"))
      -- tasks of Slurm that were given no way to meet
      local _, err, code = process.shell("env SLURM_STEP_NUM_TASKS=2 " .. several.command(1,
         flags("--devices", "hosts:2xcpu:1", "--steps", "2")):gsub("mpirun %-n 1 ", ""))
      assert.equal(2, code)
      assert.matches("expected srun %-%-mpi=pmix %-n 2 ftpipe", err)
   end)
end)

--- State that has its home on disk: the same bits, and one line for whatever goes wrong there.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")

local function options_of(family, changes)
   return copy({
      family = family, schedule = "harmony-pp", stages = 6, devices = "cpu:2", steps = 4,
      swap = "always",
   }, changes)
end

--- A run of the plan, with initial values.
local function begin(plan, dir)
   local run, params = plan.blueprint:run(dir), {}
   for i, param in ipairs(plan.graphs[1]:params()) do params[param.name] = run:param(i) end
   plan.options.model:initialize(params, 7)
   run:refresh()
   return run, params
end

--- The files in a directory that have no name, by the number that this process has for each.
local function nameless(dir)
   local list = {}
   local pipe = io.popen("ls -l /proc/$PPID/fd")
   for line in pipe:lines() do
      local fd, path = line:match(" (%d+) %-> (.*) %(deleted%)$")
      if fd and path:sub(1, #dir) == dir then list[#list + 1] = "/proc/self/fd/" .. fd end
   end
   pipe:close()
   return list
end

local function damage(path)
   local file = assert(io.open(path, "r+b"))
   local size = file:seek("end")
   file:seek("set", 0)
   file:write((("x"):rep(size)))
   file:close()
end

describe("a swap directory", function()
   local dir

   before_each(function() dir = files.directory() end)
   after_each(function() files.remove(dir) end)

   for _, family in ipairs { "t5", "gpt2", "bert" } do
      it("does not change what is computed: " .. family, function()
         local o = options_of(family)
         local judge = pipeline.train(copy(o, { swap = "never" }))
         local plan, whole = pipeline.plan(o)
         for _, threaded in ipairs { true, false } do
            whole.threaded = threaded
            local run, params = begin(plan, dir)
            assert.is_true(run:swap_rate() > 0)
            assert.same(judge.losses, pipeline.legs(run, plan, whole, { { 1, 1 }, { 2, 3 } }))
            for name, values in pairs(judge.params) do
               assert.same(values, params[name]:totable())
            end
            for d, memory in ipairs(run:measured()) do
               assert.is_true(memory.total <= plan.memory[d].total)
            end
            run:free()
         end
      end)
   end

   it("ends a leg by one line when what it has is damaged or gone", function()
      local plan, o = pipeline.plan(options_of("bert", { devices = "cpu:1" }))
      for harm, words in pairs {
         [damage] = ": what was read from the swap file is not what was written there",
         [function(path) io.open(path, "w"):close() end] = dir:gsub("%p", "%%%0") .. ": ",
      } do
         local run = begin(plan, dir)
         run:begin(2, 1, false)
         run:feed(pipeline.fed(plan, o, 0).inputs, 1, 1e-3)
         run:next(600)
         local found = nameless(dir)
         assert.equal(1, #found)
         harm(found[1])
         run:feed(pipeline.fed(plan, o, 1).inputs, 2, 1e-3)
         local problem = files.failure(function() run:next(600) end)
         assert.matches(words, problem.message)
         assert.not_matches("\n", problem.message)
         run:free()
         collectgarbage() -- parameters hold on to their memory
         collectgarbage()
         assert.same({}, nameless(dir))
      end
   end)

   it("is refused where it is missing, no directory, or not to be written", function()
      local plan = pipeline.plan(options_of("bert", { steps = 1 }))
      for path, words in pairs {
         [dir .. "/none"] = "/none: .*: No such file or directory",
         ["/dev/null"] = "/dev/null: .*: Not a directory",
         ["/proc"] = "/proc: cannot make a swap file: ", -- where nobody may write, not even root
      } do
         local problem = files.failure(function() plan.blueprint:run(path) end)
         assert.matches(words, problem.message)
         assert.not_matches("\n", problem.message)
      end
   end)

   it("is shared by runs, of one process and of several", function()
      local o = options_of("bert")
      local judge = pipeline.train(copy(o, { swap = "never" }))
      local plan, whole = pipeline.plan(o)
      local first, second = begin(plan, dir), begin(plan, dir)
      local losses = pipeline.legs(first, plan, whole, { { 1, 1 } })
      assert.same(judge.losses, pipeline.legs(second, plan, whole, { { 1, 1 }, { 2, 3 } }))
      second:free()
      local _, err, code = process.ftpipe { "recipes/t5_rte.lua", "--steps", "1", "--swap",
         "always", "--swap-dir", dir, "--profile", "modelled", "--eval-limit", "4" }
      assert.equal(0, code, err)
      for _, loss in ipairs(pipeline.legs(first, plan, whole, { { 2, 3 } })) do
         losses[#losses + 1] = loss
      end
      assert.same(judge.losses, losses)
      first:free()
      assert.same({}, core.sys.list_dir(dir))
   end)

   it("is refused before the first step where the state has no room", function()
      local said = {}
      for i, dry_run in ipairs { "", " --dry-run" } do
         local _, err, code = process.shell(("ulimit -f 2048; timeout 900 '%s' recipes/t5_rte.lua "
            .. "--steps 2 --swap always --swap-dir %s --profile modelled%s"):format(
            core.sys.executable(), dir, dry_run))
         assert.equal(6, code, err)
         said[i] = err
      end
      assert.matches("^ftpipe: " .. dir:gsub("%p", "%%%0") .. ": no room for [%d.]+ MB of state: "
         .. "File too large\n$", said[1])
      assert.equal(said[1], said[2])
   end)

   it("goes with --swap, and with updates on the device", function()
      local function refused(changes, words)
         local problem = files.failure(function() pipeline.plan(options_of("bert", changes)) end)
         assert.matches(words, problem.message)
      end
      refused({ swap = "never", swap_dir = dir }, "swap_dir = .* is for state that moves: expected "
         .. 'swap = "auto"')
      refused({ swap_dir = "" }, 'swap_dir = "": expected a directory')
      refused({ update = "host", swap_dir = dir }, 'update = "host" works in host memory, and with '
         .. "swap_dir the state is on disk: leave one out")
   end)

   it("goes with a plan that is given and moves state to be updated on the device", function()
      local function path_of(name, changes)
         core.sys.write_file(dir .. name, (pipeline.plan(options_of("bert", changes)):text()))
         return dir .. name
      end
      local function planned(path, swap_dir)
         return pipeline.plan(options_of("bert", { swap = "never", plan = path,
            swap_dir = swap_dir }))
      end
      assert.equal(dir, planned(path_of("/moves.txt"), dir).options.swap_dir)
      local still = path_of("/still.txt", { swap = "never" })
      local message = files.failure(planned, still, dir).message
      assert.matches("swap_dir = .* is for weights and optimizer state that move, and "
         .. "%S+/still.txt moves none: leave it out$", message)
      local home = path_of("/home.txt", { update = "host" })
      assert.matches("/home.txt updates in host memory, and with swap_dir the state is on disk: "
         .. "leave one out$", files.failure(planned, home, dir).message)
      assert.matches('swap_dir = "": expected a directory',
         files.failure(planned, still, "").message)
   end)

   it("says so when it is slower than a step", function()
      local plan = pipeline.plan(options_of("bert", { swap_dir = dir, profile = "modelled" }))
      assert.is_nil(plan:slow_disk(0))
      assert.is_nil(plan:slow_disk(1e15))
      assert.matches(dir:gsub("%p", "%%%0") .. ": written at 1.0 kB/s when it was tried; a step "
         .. "reads and writes [%d.]+ %a+ there, which takes .+, and .+ without that",
         plan:slow_disk(1000))
   end)

   it("is said by the run that swaps there", function()
      local script = dir .. "/slow.lua"
      core.sys.write_file(script, [[
         local ranks = require("ftpipe.run.ranks")
         local run_of = ranks.run
         function ranks.run(plan)
            local run = run_of(plan)
            assert(run:swap_rate() > 0)
            getmetatable(run).__index.swap_rate = function() return 1000 end
            return run
         end
         dofile("recipes/t5_rte.lua")
      ]])
      local out, err, code = process.shell(("timeout 900 '%s' %s --steps 1 --swap always "
         .. "--swap-dir %s --profile modelled"):format(core.sys.executable(), script, dir))
      assert.equal(0, code, err)
      assert.matches(dir:gsub("%p", "%%%0") .. ": written at 1.0 kB/s when it was tried; a step "
         .. "reads and writes [%d.]+ MB there, which takes ", out .. err)
   end)
end)

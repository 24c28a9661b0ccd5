--- Loops of one's own around a run with a directory.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local loop = require("spec.support.loop")
local process = require("spec.support.process")

--- Runs it with the directory dir/run; what it printed.
local function go(dir, body, ...)
   core.sys.write_file(dir .. "/loop.lua", loop .. body)
   local out, err, exit = process.ftpipe { dir .. "/loop.lua", "--profile", "modelled", "--out",
      dir .. "/run", "--eval-limit", "8", ... }
   assert.equal(0, exit, err)
   return out, err
end

--- The step of the checkpoint that hf/ is the model of.
local function published(dir)
   local model = core.sys.read_file(dir .. "/run/hf/model.safetensors")
   for step = 1, 7 do
      local path = ("%s/run/checkpoints/step-%d/hf/model.safetensors"):format(dir, step)
      if core.sys.exists(path) and core.sys.read_file(path) == model then return step end
   end
   return nil
end

describe("a loop of one's own", function()
   it("keeps its directory from others while it writes a page of the run", function()
      files.in_directory(function(dir)
         local out = go(dir, [[
for step in run:train() do
   if step.step == 2 then
      run:html(args.out .. ".html")
      local file = io.popen(("%s runs rm %s --yes 2>&1; echo $?"):format(
         require("ftpipe.core").sys.executable(), args.out))
      print(file:read("*a"))
      file:close()
   end
end
run:close(run:evaluate())
]])
         assert.matches("a process is running there\n2\n", out)
         local page = core.sys.read_file(dir .. "/run.html")
         assert.is_truthy(page:find("It has not ended.", 1, true))
         assert.is_truthy(core.sys.exists(dir .. "/run/summary.json"))
      end)
   end)

   for value, words in pairs { [1000] = "the last, where that is better", [-1] = "the best" } do
      it("that ends early leaves in hf/ the model of " .. words, function()
         files.in_directory(function(dir)
            local out, err = go(dir, ([[
for step in run:train() do if step.step == 3 then break end end
local score = run:evaluate()
score.value = %d
run:close(score)
print(run.done)
]]):format(value), "--eval-every", "2")
            local done, summary = tonumber(out), core.json.read(dir .. "/run/summary.json")
            assert.is_true(done >= 3 and done < 6, done)
            assert.equal(value == 1000 and done or 2, summary.best_step)
            assert.equal(summary.best_step, published(dir))
            assert.equal(value == -1, err:find("hf/ is the best: [^\n]* at step 2\n") ~= nil, err)
         end)
      end)
   end

   it("that goes on behind the best evaluates what it has trained", function()
      files.in_directory(function(dir)
         local out = go(dir, [[
for _ in run:train() do end
assert(run.restored == 2, run.restored)
local batches = require("ftpipe.data.feed").batches(plan.options, data.train.dataset, model)
for _ in run:steps(batches, 1) do end
local score = run:evaluate()
local summary = run:close(score)
print(score.step, summary.steps, run.saved)
]], "--eval-every", "2", "--lr", "1e-9")
         assert.equal("7\t7\t7\n", out)
      end)
   end)
end)

--- How runs are called, which commit they are of, and how they have ended.

local commit = require("ftpipe.store.commit")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")
local records = require("ftpipe.store.record")

local ftpipe = process.ftpipe
local A, B = ("a1"):rep(20), ("b2"):rep(32)

--- A name as a pattern that it alone fits.
local function plain(name) return (name:gsub("%-", "%%-")) end

--- Writes files by their paths, with the directories above them.
local function write(dir, texts)
   for path, text in pairs(texts) do
      core.sys.mkdir((dir .. "/" .. path):match("^(.*)/"))
      core.sys.write_file(dir .. "/" .. path, text)
   end
end

describe("the commit of a directory", function()
   local dir

   before_each(function()
      dir = files.directory()
      core.sys.mkdir(dir .. "/tree/in/it")
   end)

   after_each(function() files.remove(dir) end)

   it("is what the branch points to, by its file or packed, or HEAD itself", function()
      write(dir, { ["tree/.git/HEAD"] = "ref: refs/heads/main\n" })
      assert.is_nil(commit(dir .. "/tree/in/it")) -- nothing was committed yet
      write(dir, { ["tree/.git/packed-refs"] = "# pack-refs with: peeled\n" .. B
         .. " refs/heads/main2\n" .. A .. " refs/heads/main\n^" .. B .. "\n" })
      assert.equal(A, commit(dir .. "/tree/in/it"))
      write(dir, { ["tree/.git/refs/heads/main"] = B .. "\n" })
      assert.equal(B, commit(dir .. "/tree"))
      write(dir, { ["tree/.git/HEAD"] = A .. "\n" })
      assert.equal(A, commit(dir .. "/tree/in"))
      write(dir, { ["tree/.git/HEAD"] = "nonsense\n" })
      assert.is_nil(commit(dir .. "/tree/in"))
   end)

   it("is found in further trees of a repository, and is none outside of one", function()
      write(dir, {
         ["main/.git/refs/heads/side"] = A .. "\n",
         ["main/.git/worktrees/w/HEAD"] = "ref: refs/heads/side\n",
         ["main/.git/worktrees/w/commondir"] = "../..\n",
         ["tree/.git"] = "gitdir: ../main/.git/worktrees/w\n",
      })
      assert.equal(A, commit(dir .. "/tree/in/it"))
      core.sys.write_file(dir .. "/tree/.git", ("x"):rep(100))
      assert.is_nil(commit(dir .. "/nowhere"))
      if not commit("/tmp") then assert.is_nil(commit(dir)) end
   end)
end)

-- Quick runs of a recipe.
local QUICK = { "--steps", "2", "--eval-limit", "4", "--devices", "cpu:1", "--profile", "modelled" }

describe("run.json of a run that", function()
   local dir

   setup(function() dir = files.directory() end)

   teardown(function() files.remove(dir) end)

   it("is done says so, with its name, its commit and its time", function()
      process.shell(("cp recipes/t5_rte.lua '%s'"):format(dir))
      write(dir, { [".git/HEAD"] = A .. "\n" })
      local out = dir .. "/done"
      local _, err, code = ftpipe { dir .. "/t5_rte.lua", "--out", out, unpack(QUICK) }
      assert.equal(0, code, err)
      local record = records.read(out)
      assert.same({ "done", 0, A, { "cpu:0" } },
         { record.state, record.exit, record.commit, record.devices })
      assert.matches("^%d+%-%d+%-%d+_%d+%-%d+%-%d+_t5_rte_%w%w%w%w$", record.id)
      assert.is_true(record.wall_seconds > 0)
      assert.matches(("\n  ended %%S+Z after [^\n]+, exit code 0\n  id +%s\n  commit +%s\n"):format(
         plain(record.id), A), (ftpipe { "runs", "show", out }))
      assert.matches(", at commit a1a1a1a1a1a1: <code>", (ftpipe { "report", out, "--out", "-" }))
      _, err, code = ftpipe { dir .. "/t5_rte.lua", "--resume", "--out", out, unpack(QUICK) }
      assert.equal(0, code, err)
      assert.equal(record.id, records.read(out).id)
   end)

   it("failed says why, and with which exit code", function()
      local out = dir .. "/failed"
      local _, _, code = ftpipe { "recipes/t5_rte.lua", "--out", out, "--lr=1e30", "--clip=0",
         "--optimizer", "sgd", unpack(QUICK) }
      assert.equal(4, code)
      local record = records.read(out)
      assert.same({ "failed", 4 }, { record.state, record.exit })
      assert.matches("^step %d+: ", record.problem)
      assert.matches("/failed +failed 4 +rte ", (ftpipe { "runs", "ls", out }))
      assert.matches("<p>It failed with exit code 4: ", (ftpipe { "report", out, "--out", "-" }))
   end)

   it("was killed cannot say so, which is seen", function()
      local out = dir .. "/killed"
      local pid = core.process.start({ core.sys.executable(), "recipes/t5_rte.lua", "--steps",
         "100000", "--eval-limit", "4", "--devices", "cpu:1", "--profile", "modelled", "--out",
         out }, dir .. "/said", dir .. "/said", {})
      local metrics = out .. "/metrics.jsonl"
      local deadline = core.sys.time_ns() + 600e9
      while (select(2, core.sys.exists(metrics)) or 0) == 0 do
         assert.is_true(core.sys.time_ns() < deadline)
         core.process.sleep(0.02)
      end
      assert.equal("running", records.read(out).state)
      core.process.signal(pid, 9)
      while not core.process.poll(pid) do core.process.sleep(0.02) end
      assert.matches("/killed +killed +rte ", (ftpipe { "runs", "ls", out }))
      assert.matches("<p>Its process is gone", (ftpipe { "report", out, "--out", "-" }))
   end)

   it("ended by an error of its task has its first line, and the trace is said once", function()
      write(dir, { ["bad.lua"] = [[local ft = require("ftpipe")
         local args = ft.args { preset = "t5" }
         local task = ft.task.rte {}
         task.scorer = function() error("no such score") end
         return ft.fine_tune { args = args, task = task }]] })
      local out = dir .. "/bad"
      local _, err, code = ftpipe { dir .. "/bad.lua", "--out", out, unpack(QUICK) }
      assert.equal(1, code)
      assert.equal(1, select(2, err:gsub("stack traceback", "")), err)
      assert.matches("bad.lua:4: no such score$", records.read(out).problem)
   end)
end)

describe("--out auto", function()
   local dir, recipe

   setup(function()
      dir = files.directory()
      recipe = core.sys.real_path("recipes/t5_rte.lua")
   end)

   teardown(function() files.remove(dir) end)

   --- Runs the program in the directory.
   local function here(...)
      return process.shell(("cd '%s' && '%s' %s"):format(dir, core.sys.executable(),
         table.concat({ ... }, " ")))
   end

   local function train(...)
      local _, err, code = here(recipe, "--out", "auto", table.concat(QUICK, " "), ...)
      assert.equal(0, code, err)
      return core.io.link_target(dir .. "/out/latest"), err
   end

   it("is a directory of its own below out/, which out/latest points to", function()
      local _, refused, code = here(recipe, "--resume --out auto")
      assert.equal(2, code)
      assert.matches("%-%-resume with %-%-out auto: there is no out/DATE_t5_rte_%* to go on with",
         refused)
      local first = train()
      assert.matches("^%d+%-%d+%-%d+_%d+%-%d+%-%d+_t5_rte_%w%w%w%w$", first)
      assert.equal(first, records.read(dir .. "/out/latest").id)
      core.process.sleep(1.1) -- names count seconds
      local second = train("--events")
      assert.is_true(first < second)
      local resumed, said = train("--resume")
      assert.equal(second, resumed)
      assert.matches(("goes on from out/%s/checkpoints/step%%-2"):format(plain(second)), said)
      local listed = here("runs", "ls")
      assert.equal(2, select(2, listed:gsub("\n", "")), listed) -- `latest` is none of its own
      assert.matches("step 2/2", (here("top", "out/latest", "--once")))
      here("runs", "rm", "out/latest", "--yes")
      assert.equal(first, core.io.link_target(dir .. "/out/latest"))
      here("runs", "rm", "out/" .. first, "--yes")
      assert.is_nil(core.io.link_target(dir .. "/out/latest"))
   end)

   it("is said of where a model of one's own is trained and not kept", function()
      files.tiny_model(dir .. "/model")
      local _, said, code = here(recipe, "--model model --data embedded", table.concat(QUICK, " "))
      assert.equal(0, code, said)
      assert.matches("nothing will be kept; %-%-out auto keeps it below out/\n", said)
      _, said = here(recipe, table.concat(QUICK, " "))
      assert.not_matches("nothing will be kept", said)
      assert.matches("nothing is kept; %-%-out auto keeps the model and its metrics\n", said)
   end)
end)

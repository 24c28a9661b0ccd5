--- Run directories as a list, and what the machine has.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")
local pty = require("spec.support.pty")

local ftpipe = process.ftpipe

describe("ftpipe runs", function()
   local directory

   local function train(name, ...)
      local _, err, code = ftpipe { "recipes/t5_rte.lua", "--steps", "2", "--eval-limit", "8",
         "--devices", "cpu:2", "--profile", "modelled", "--out", directory .. "/" .. name, ... }
      assert.equal(0, code, err)
   end

   setup(function()
      directory = files.directory()
      train("a")
      train("deep/b")
      train("c", "--lr=0.01")
   end)

   teardown(function() files.remove(directory) end)

   it("lists what is there, and says what one is", function()
      local out = ftpipe { "runs", "ls", directory }
      assert.equal(3, select(2, out:gsub("\n", "")))
      assert.matches("/deep/b +done +rte +accuracy %S+ %% +2 steps, %S+ %l+ +%d+%-%d+%-%d+ "
         .. "%d+:%d+\n", out)
      for line in out:gmatch("[^\n]+") do -- in columns
         assert.equal(out:find(" done", 1, true), line:find(" done", 1, true), out)
      end
      assert.equal(3, #core.json.decode((ftpipe { "runs", "ls", directory, "--format", "json" })))
      local shown = ftpipe { "runs", "show", directory .. "/c" }
      assert.matches("rte, done, accuracy.-\n  results:\n.-\n  options:\n.-\n    lr +0.01\n", shown)
      assert.matches("\n    memory_planned_bytes +%d+%.%d %aB[^\n]*\n.-\n    seconds +%d%S* ?%l*\n",
         shown)
      assert.matches("\n    by %-%-format json also metrics,[^\n]+\n  options:", shown)
      assert.not_matches("[%[{]", (shown:gsub("^.-\n  results", ""))) -- nothing as JSON
      assert.matches("\n  last started %d+%-%d+%-%d+T%S+Z on %S+: %S+ recipes/t5_rte.lua "
         .. "%-%-steps 2 ", shown)
      assert.equal("no runs in " .. directory .. "/a/hf\n", (ftpipe { "runs", "ls",
         directory .. "/a/hf" }))
   end)

   it("lists a run once where links lead to directories above it", function()
      os.execute(("ln -s '%s' '%s/self'"):format(directory, directory))
      assert.equal(3, select(2, ftpipe({ "runs", "ls", directory }):gsub("\n", "")))
      os.remove(directory .. "/self")
   end)

   it("shows no result of a run that went on and was killed", function()
      train("killed")
      local path = directory .. "/killed"
      core.sys.write_file(directory .. "/killed.lua", [[
         local core, training = require("ftpipe.core"), require("ftpipe.run.training")
         function training.show() os.execute("kill -9 " .. core.sys.getpid()) end
         return dofile("recipes/t5_rte.lua")]])
      local _, err, code = process.shell(("'%s' %s/killed.lua --steps 4 --eval-limit 8 --devices "
         .. "cpu:2 --profile modelled --out %s --resume"):format(core.sys.executable(), directory,
         path))
      assert.equal(137, code, err)
      assert.matches("^ *%S+/killed +killed +rte +%- +%- ", (ftpipe { "runs", "ls", path }))
      assert.matches("^%S+/killed: rte, killed, %-\n", (ftpipe { "runs", "show", path }))
      ftpipe { "report", path }
      assert.matches("<p>Its process is gone, ", core.sys.read_file(path .. "/report.html"))
      files.remove(path)
   end)

   it("says what two have different", function()
      local out, _, code = ftpipe { "runs", "diff", directory .. "/a", directory .. "/deep/b" }
      assert.same({ "no difference but in times\n", 0 }, { out, code })
      out, _, code = ftpipe { "runs", "diff", directory .. "/a", directory .. "/c" }
      assert.equal(1, code)
      assert.matches("^flags:\n  lr +0.001  0.01\n.-summary:\n", out)
      assert.matches("\n  loss_last +%S+  %S+\n", out)
   end)

   it("says of which step on two are different, and what is damaged", function()
      local path = directory .. "/deep/b/metrics.jsonl"
      local text = core.sys.read_file(path)
      local function diff(other)
         core.sys.write_file(path, other)
         local out, _, code = ftpipe { "runs", "diff", directory .. "/a", directory .. "/deep/b" }
         core.sys.write_file(path, text)
         return out, code
      end
      local out, code = diff((text:gsub('^(.*"loss": )[%d.]+', "%11.5")))
      assert.equal(1, code)
      assert.matches("^metrics.jsonl, first of step 2:\n  loss +%d%.%d+  1.5\n$", out)
      out, code = diff('{"step"\n' .. text)
      assert.equal(0, code)
      assert.matches("^%S+/deep/b/metrics.jsonl: 1 line left out, damaged\nno difference", out)
      out, code = diff((text:gsub("^[^\n]", "")))
      assert.equal(1, code)
      assert.matches("1 line left out, damaged\nmetrics.jsonl, first of step 0:\n", out)
      assert.matches("\n  eval_loss +%d%.%d+  %-\n", out)
   end)

   it("keeps the name of a run's partition when that goes on", function()
      train("again")
      train("again", "--resume")
      local path = directory .. "/again"
      assert.equal("seq", core.json.read(path .. "/summary.json").partition)
      local record = core.json.read(path .. "/run.json")
      assert.equal("seq", record.partition)
      assert.equal("--resume", record.command[#record.command])
      assert.matches(("\n  last started %s on [^\n]+ %%-%%-resume\n"):format(
         record.started:gsub("%-", "%%-")), (ftpipe { "runs", "show", path }))
      files.remove(path)
   end)

   it("refuses words and flags that an action would pass over", function()
      local a, c = directory .. "/a", directory .. "/c"
      for pattern, words in pairs {
         ["unexpected word 'extra': runs ls takes 1 directory at most"] = { "ls", ".", "extra" },
         ["unexpected word '%S+/c': runs show takes 1 dir"] = { "show", a, c },
         ["unexpected word '%S+/c': runs diff takes 2 directories at most"] = { "diff", a, c, c },
         ["^ftpipe: which two runs%? give the directories of both, as ftpipe runs diff out/a out/b"]
            = { "diff", a },
         ["which two runs%?"] = { "diff" },
         ["%-%-yes: nothing that runs ls takes"] = { "ls", ".", "--yes" },
         ["%-%-format: nothing that runs diff takes"] = { "diff", a, c, "--format", "json" },
         ["%-%-format: nothing that runs rm takes"] = { "rm", a, "--format", "json" },
      } do
         process.refused(2, pattern, { "runs", unpack(words) })
      end
   end)

   it("removes what it is told to, when that is said twice", function()
      train("d")
      local said = ftpipe { "runs", "rm", directory .. "/d" }
      assert.matches("d would be removed; give %-%-yes", said)
      assert.is_truthy(core.sys.exists(directory .. "/d"))
      ftpipe { "runs", "rm", directory .. "/d", "--yes" }
      assert.is_nil(core.sys.exists(directory .. "/d"))
      process.refused(6, "is no run", { "runs", "rm", directory, "--yes" })
      process.refused(2, "runs needs one of diff, .*, show\n$", { "runs", "list" })
      process.refused(2, "did you mean 'ls'", { "runs", "lss" })
      process.refused(6, "is no directory", { "runs", "ls", directory .. "/nothing" })
      local lock = core.io.lock(directory .. "/a/lock")
      process.refused(2, "a process is running there", { "runs", "rm", directory .. "/a", "--yes" })
      assert.matches("/a +running", (ftpipe { "runs", "ls", directory }))
      lock:free()
   end)

   it("leaves what is not of the run where that is removed, and names it", function()
      local path = directory .. "/mine"
      train("mine")
      for _, name in ipairs { "notes.txt", "hf/card.md", "checkpoints/step-2/hf/mine.bin" } do
         core.sys.write_file(path .. "/" .. name, name)
      end
      core.sys.mkdir(path .. "/plan.txt.old")
      core.sys.mkdir(path .. "/hf.tmp-1")
      core.sys.write_file(path .. "/hf.tmp-1/config.json", "") -- of a process that was killed
      assert.matches("/mine would be removed, but %S+ and 3 more are not of the run and stay; "
         .. "give %-%-yes\n$", (ftpipe { "runs", "rm", path }))
      assert.matches("^removed the run in %S+/mine; %S+ and 3 more are not of the run and stay\n$",
         (ftpipe { "runs", "rm", path, "--yes" }))
      assert.equal(("checkpoints checkpoints/step-2 checkpoints/step-2/hf "
         .. "checkpoints/step-2/hf/mine.bin hf hf/card.md notes.txt plan.txt.old "):gsub(" ", "\n"),
         (process.shell(("cd '%s' && find * | sort"):format(path))))
      files.remove(path)
   end)

   it("removes no run around another, and with a run the link to it", function()
      local path, link = directory .. "/outer", directory .. "/link"
      train("outer")
      os.execute(("cp -r '%s/a' '%s/inner'"):format(directory, path))
      assert.equal(2, select(2, ftpipe({ "runs", "ls", path }):gsub("\n", "")))
      process.refused(2, "outer: another run is in it, %S+/outer/inner: remove that first, or move",
         { "runs", "rm", path, "--yes" })
      local lock = core.io.lock(path .. "/inner/lock")
      process.refused(2, "outer: a process is running in it, in %S+/outer/inner: wait for that",
         { "runs", "rm", path, "--yes" })
      lock:free()
      os.execute(("ln -s outer/inner '%s'"):format(link))
      assert.matches("^removed %S+/outer/inner, to which %S+/link was a link\n$",
         (ftpipe { "runs", "rm", link, path .. "/inner", "--yes" }))
      assert.is_nil(core.io.link_target(link))
      assert.equal("removed " .. path .. "\n", (ftpipe { "runs", "rm", path, "--yes" }))
      assert.is_nil(core.sys.exists(path))
   end)
end)

describe("ftpipe doctor", function()
   it("says what there is, with measured rates, and what to do next", function()
      local out, err, code = ftpipe { "doctor" }
      assert.equal(0, code, err)
      for _, line in ipairs { "machine   .-%d+ cores?",
         "libraries LuaJIT %S+, SQLite %d[%d.]+, [%a ]*module for MPI",
         "memory    %S+ %S+ for this process",
         "device    cpu:0, budget .- GFLOP/s, copies %S+ %S+/s", "gpu       %S+ .",
         "next      ftpipe recipes/t5_rte.lua" }
      do
         assert.matches(line, out)
      end
      local data = core.json.decode((ftpipe { "doctor", "--quick", "--format", "json" }))
      assert.is_nil(data.devices[1].flops)
      assert.equal(math.min(core.sys.cores(), 1024), #data.devices) -- as many as there may be
      local ok, cards = pcall(core.engine.devices, "cuda")
      local expected = ok and cards[1].name
         or cards.message:gsub("^device list \"cuda\": ", "none: ")
      assert.equal(expected, data.gpu:sub(1, #expected))
   end)

   it("finds models", function()
      files.in_directory(function(directory)
         files.tiny_model(directory .. "/hub/models--a--b/snapshots/1")
         local out = process.shell(("HF_HUB_CACHE=%s/hub %s doctor --quick"):format(directory,
            core.sys.executable()))
         assert.matches("model     " .. directory .. "/hub/models%-%-a%-%-b/snapshots/1\n", out)
      end)
   end)
end)

describe("ftpipe top", function()
   it("shows the last step, the last evaluation and what devices do", function()
      files.in_directory(function(directory)
         local _, err, code = ftpipe { "recipes/t5_rte.lua", "--steps", "3", "--eval-limit", "8",
            "--devices", "cpu:2", "--profile", "modelled", "--out", directory .. "/a" }
         assert.equal(0, code, err)
         local out = ftpipe { "top", directory .. "/a" }
         assert.matches("^step 3/3  loss %S+ .-done\n%S+ samples/s  %d+ tokens/s\n"
            .. "held%-out after step 3: accuracy %S+ %%\n"
            .. "cpu:0  #*%.* +%d+ %% busy  %S+ MB[^\n]*\ncpu:1  ", out)
         local file = io.open(directory .. "/a/metrics.jsonl", "a")
         file:write('{"v":1,"step":4,"lo') -- a line that is being written
         file:close()
         assert.equal(out, (ftpipe { "top", directory .. "/a", "--once" }))
         local lock, terminal = core.io.lock(directory .. "/a/lock"), pty.open("top '" .. directory
            .. "/a'")
         terminal:resize(24, 40)
         local screen, up = terminal:wait("\27%[%d+A"):match("^(.*)\27%[(%d+)A$")
         lock:free() -- it ends
         terminal:close()
         local taken = 0
         for line in screen:gmatch("([^\r\n]+)\r\n") do taken = taken + math.ceil(#line / 40) end
         assert.is_true(taken > select(2, screen:gsub("\n", "")), screen)
         assert.equal(taken, tonumber(up))
         local rows = core.sys.read_file(directory .. "/a/metrics.jsonl"):gsub("[^\n]*$", "")
         local step = rows:match('[^\n]*"loss_mean"[^\n]*\n')
         core.sys.write_file(directory .. "/a/metrics.jsonl", rows .. step:rep(250))
         local function rare(text) return text:gsub("^.-\nheld", "held"):gsub("#.- MB", "") end
         assert.equal(rare(out), rare(ftpipe { "top", directory .. "/a", "--once" }))
         process.refused(2, "needs the directory of a run", { "top" })
         process.refused(6, "is no run: there is no run.json in it\n$", { "top", directory })
         process.refused(6, "metrics.jsonl' is no run: there is no run.json in it\n$", { "top",
            directory .. "/a/metrics.jsonl" })
      end)
   end)
end)

--- A run directory is data, whoever made it: nothing in it is executed, and nothing in it keeps the
-- program from ending.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

local STEPS = { "--steps", "4", "--keep", "1", "--save-every", "2", "--devices", "cpu:2" }

local ROW = '{"premise": "Ben has a red kite.", "hypothesis": "Ben has a kite.", '
   .. '"label": "entailment"}\n'

local function copied(from, to)
   local _, err, exit = process.shell(("rm -rf '%s' && cp -a '%s' '%s'"):format(to, from, to))
   assert.equal(0, exit, err)
end

--- Paths of all files in a directory.
local function files_in(dir, prefix, list)
   list, prefix = list or {}, prefix or ""
   for _, name in ipairs(core.sys.list_dir(dir .. "/" .. prefix)) do
      local path = prefix .. name
      local link = core.io.link_target(dir .. "/" .. path)
      if not link and core.sys.exists(dir .. "/" .. path) == "directory" then
         files_in(dir, path .. "/", list)
      else
         list[#list + 1] = path
      end
   end
   return list
end

--- What is put in the place of a file: each makes something at a path; `marker` would appear if it
-- were executed.
local replacements = {
   { "code that would end the program", function(path, marker)
      core.sys.write_file(path, ('io.open(%q, "w"):close() os.exit(0)'):format(marker))
   end },
   { "code that never ends", function(path) core.sys.write_file(path, "while true do end\n") end },
   { "bytecode", function(path, marker)
      core.sys.write_file(path, string.dump(loadstring(
         ('io.open(%q, "w"):close() return {}'):format(marker))))
   end },
   { "damaged bytecode", function(path)
      core.sys.write_file(path, (string.dump(function() return {} end):gsub("\1", "\255")))
   end },
   { "a link to a device that never ends", function(path)
      os.execute(("ln -s /dev/zero '%s'"):format(path))
   end },
   { "a link to itself", function(path) os.execute(("ln -s '%s' '%s'"):format(path, path)) end },
   { "a link to nothing", function(path) os.execute(("ln -s /nope/nope '%s'"):format(path)) end },
   { "a pipe that nobody writes to", function(path) os.execute(("mkfifo '%s'"):format(path)) end },
   { "a directory", function(path) core.sys.mkdir(path .. "/in") end },
   { "a file of 64 GB", function(path) os.execute(("truncate -s 64G '%s'"):format(path)) end },
   { "text of another kind", function(path) core.sys.write_file(path, "[[[{\"a\":") end },
}

--- Commands that read a run directory, and what they do not look at.
local commands = {
   { name = "predict", reads = { "^run%.json$", "^hf/" }, words = function(dir)
      return { "predict", dir, "--text", "Ben has a red kite." }
   end },
   { name = "--resume",
      reads = { "^checkpoints/", "^metrics%.jsonl$", "^plan%.txt$", "^log%.txt$", "^lock$" },
      words = function(dir)
         return { "spec/support/resume_run.lua", "--out", dir, "--resume", "--steps", "4",
            "--save-every", "2", "--devices", "cpu:2", "--schedule", "async" }
      end },
}

local function is_read(command, path)
   for _, pattern in ipairs(command.reads) do
      if path:find(pattern) then return true end
   end
   return false
end

describe("a run directory", function()
   local root, whole = nil, {}

   setup(function()
      root = files.directory()
      files.tiny_model(root .. "/model")
      local rows = root .. "/rows.jsonl"
      core.sys.write_file(rows, ROW)
      whole.predict, whole["--resume"] = root .. "/trained", root .. "/stopped"
      local _, err, exit = process.ftpipe { "recipes/t5_rte.lua", "--model", root .. "/model",
         "--train-file", rows, "--eval-file", rows, "--out", whole.predict, "--batch", "10",
         unpack(STEPS) }
      assert.equal(0, exit, err)
      _, err, exit = process.ftpipe { "spec/support/resume_run.lua", "--out", whole["--resume"],
         "--schedule", "async", unpack(STEPS) }
      assert.equal(0, exit, err)
   end)

   teardown(function() files.remove(root) end)

   it("has the recipe that made it, and what was said of every start", function()
      local dir = root .. "/again"
      copied(whole["--resume"], dir)
      assert.equal(core.sys.read_file("spec/support/resume_run.lua"),
         core.sys.read_file(dir .. "/recipe.lua"))
      local before = core.sys.read_file(dir .. "/log.txt")
      local time = "%d+%-%d+%-%d+T%d+:%d+:%d+Z "
      assert.matches("^" .. time .. "%S", before)
      local _, err, exit = process.ftpipe(commands[2].words(dir))
      assert.equal(0, exit, err)
      local after = core.sys.read_file(dir .. "/log.txt")
      assert.equal(before, after:sub(1, #before))
      assert.matches("^" .. time .. "%-%-resume: goes on from [^\n]+/step%-4, after step 4 of 4\n",
         after:sub(#before + 1))
   end)

   it("loses the models that processes had not made whole when they were killed", function()
      local dir = root .. "/again"
      copied(whole["--resume"], dir)
      for _, name in ipairs { "hf.tmp-1", "hf.tmp-77", "hf.tmp-own", "own.tmp-1" } do
         core.sys.mkdir(dir .. "/" .. name)
         core.sys.write_file(dir .. "/" .. name .. "/model.safetensors", "")
      end
      local _, err, exit = process.ftpipe(commands[2].words(dir))
      assert.equal(0, exit, err)
      local left = {}
      for _, name in ipairs(core.sys.list_dir(dir)) do
         left[#left + 1] = name:find("tmp", 1, true) and name or nil
      end
      assert.same({ "hf.tmp-own", "own.tmp-1" }, left)
   end)

   --- Runs a command on a copy of a run in which files were replaced.
   local function run_with(command, paths, put)
      local dir, marker = root .. "/copy", root .. "/marker"
      copied(whole[command.name], dir)
      files.remove(marker)
      for _, path in ipairs(paths) do
         files.remove(dir .. "/" .. path)
         put(dir .. "/" .. path, marker)
      end
      local out, err, exit = process.ftpipe(command.words(dir))
      assert.is_nil(core.sys.exists(marker))
      return out, err, exit
   end

   for _, command in ipairs(commands) do
      for _, replacement in ipairs(replacements) do
         it(("is not executed by %s, with %s in it"):format(command.name, replacement[1]),
            function()
               if command.name == "predict" and not core.engine.devices("cpu:1")[1].in_host then
                  return pending("predicts on cores alone")
               end
               local unread = {}
               for _, path in ipairs(files_in(whole[command.name])) do
                  if is_read(command, path) then
                     local _, err, exit = run_with(command, { path }, replacement[2])
                     local what = ("%s: exit %d, %s"):format(path, exit, err)
                     assert.is_true(exit == 0 or exit == 2 or exit == 6, what)
                     if exit ~= 0 then
                        assert.equal(1, select(2, ("\n" .. err):gsub("\nftpipe: ", "")), what)
                        assert.is_nil(err:find("traceback", 1, true), what)
                     end
                  else
                     unread[#unread + 1] = path
                  end
               end
               if command.name == "--resume" then return end -- it writes them anew
               local out, err, exit = run_with(command, unread, replacement[2])
               assert.equal(0, exit, err)
               assert.matches('^{.*"index": 1', out)
            end)
      end
   end
end)

--- What a used --out is refused with, before anything is measured or planned.
local function refused(pattern, ...)
   local out = process.refused(2, pattern, { "recipes/t5_rte.lua", ... })
   assert.equal("", out)
end

--- Trains the model root/plain, with evaluations between.
local function train(root, out, steps, ...)
   local _, err, exit = process.ftpipe { "recipes/t5_rte.lua", "--model", root .. "/plain",
      "--train-file", root .. "/rows.jsonl", "--eval-file", root .. "/rows.jsonl", "--batch", "10",
      "--profile", "modelled", "--out", out, "--steps", steps, "--eval-every", "2", "--keep", "1",
      ... }
   assert.equal(0, exit, err)
   return err
end

--- Digests of all files of a directory by path.
local function digests(dir)
   local list = {}
   for _, path in ipairs(files_in(dir)) do
      list[path] = core.io.link_target(dir .. "/" .. path)
         or core.sys.sha256(core.sys.read_file(dir .. "/" .. path))
   end
   list.lock = nil
   return list
end

describe("an --out that is used already", function()
   local root

   setup(function()
      root = files.directory()
      files.tiny_model(root .. "/m/hf")
      files.tiny_model(root .. "/plain")
      core.sys.write_file(root .. "/rows.jsonl", ROW)
      train(root, root .. "/run", "4")
   end)

   teardown(function() files.remove(root) end)

   it("is refused when it holds a model, whatever is asked for", function()
      local before = digests(root)
      for _, more in ipairs { {}, { "--resume" }, { "--eval-only" } } do
         refused("%-%-out /.*/m holds a model %(/.*/m/hf%): give another directory", "--model",
            root .. "/m/hf", "--data", "/nope", "--out", root .. "/m", unpack(more))
         refused("%-%-out /.*/plain/ holds a model %(.*/config.json%)", "--out", root .. "/plain/",
            unpack(more))
      end
      os.execute(("ln -s plain '%s/link'"):format(root))
      refused("holds a model", "--out", root .. "/link")
      os.remove(root .. "/link")
      assert.same(before, digests(root))
   end)

   it("is refused when it holds a run, by any sign of one", function()
      local before = digests(root .. "/run")
      local copy = root .. "/copy"
      for _, left in ipairs { "run.json", "metrics.jsonl", "checkpoints" } do
         core.sys.mkdir(copy)
         os.execute(("cp -r '%s/run/%s' '%s'"):format(root, left, copy))
         refused("%-%-out /.*/copy holds a run %(/.*/copy/" .. left .. ".*%): give %-%-resume to "
            .. "go on with it, or another directory", "--out", copy)
         refused("holds a run %(.*%): give another directory", "--out", copy, "--eval-only")
         files.remove(copy)
      end
      core.sys.mkdir(copy)
      os.execute(("cp -r '%s/run/hf' '%s/run/run.json' '%s'"):format(root, root, copy))
      refused("%-%-resume: /.*/copy/hf is a model, and there is no checkpoint to go on from",
         "--out", copy, "--resume")
      files.remove(copy)
      assert.same(before, digests(root .. "/run"))
   end)

   it("is refused when it holds what no run writes, or is inside a run", function()
      core.sys.mkdir(root .. "/mine")
      core.sys.write_file(root .. "/mine/notes.txt", "")
      core.sys.write_file(root .. "/mine/log.txt", "")
      for _, more in ipairs { {}, { "--resume" }, { "--dry-run" } } do
         refused("%-%-out /.*/mine holds what is no run's %(/.*/mine/notes.txt%): choose an empty "
            .. "or new directory", "--out", root .. "/mine", unpack(more))
      end
      for _, place in ipairs { "/run/new", "/run/new/er", "/run/hf/../new" } do
         refused("is inside the run /.*/run: give a directory outside of it", "--out",
            root .. place)
      end
      os.remove(root .. "/mine/notes.txt")
      train(root, root .. "/mine", "2")
      files.remove(root .. "/mine")
   end)

   it("is not written to where the run reads", function()
      core.sys.mkdir(root .. "/out/data")
      core.sys.write_file(root .. "/out/rows.jsonl", "")
      refused("%-%-data /.*/out/data is in %-%-out /.*/out, where this run writes", "--data",
         root .. "/out/data", "--out", root .. "/out")
      refused("%-%-train%-file .*rows.jsonl is in %-%-out", "--train-file",
         root .. "/out/data/../rows.jsonl", "--out", root .. "/out")
      refused("%-%-model /.*/run/hf is in %-%-out /.*/run,", "--model", root .. "/run/hf", "--out",
         root .. "/run", "--resume")
   end)

   it("is refused when it cannot be written to", function()
      for _, more in ipairs { "--dry-run", "--eval-only" } do
         refused("^ftpipe: %-%-out is empty: give it a directory\n$", "--out", "", more)
      end
      refused("^ftpipe: %-%-out %-: commands read their standard input where they are given '%-'",
         "--out", "-")
      for _, flag in ipairs { "--out", "--data" } do
         refused("^ftpipe: " .. flag:gsub("%-", "%%-") .. " is not UTF%-8, as run.json has to be: "
            .. "give another name\n$", "--out", root .. "/fine", flag, root .. "/bad\255")
      end
      core.sys.write_file(root .. "/file", "")
      refused("%-%-out /.*/file: /.*/file is not a directory", "--out", root .. "/file")
      refused("%-%-out /.*/file/in/it: /.*/file is not a directory", "--out", root .. "/file/in/it")
      local directory = require("ftpipe.store.directory")
      local may_write = core.sys.may_write
      core.sys.may_write = function() return false end -- root may write everywhere
      local problem = files.failure(directory.check, { out = root .. "/new/in/it" })
      core.sys.may_write = may_write
      assert.matches('^out = "/.*/new/in/it": /[^:]* cannot be written to$', problem.message)
   end)

   it("is nothing to a plan for devices that are not here", function()
      local _, err, exit = process.ftpipe { "recipes/t5_rte.lua", "--out", root .. "/run",
         "--devices", "sim:2x11GB" }
      assert.equal(0, exit, err)
   end)

   for how, copy in pairs {
      ["without its links"] = "cp -a '%s' '%s' && find '%s' -type l -delete",
      ["with directories in place of its links"] = "cp -rL '%s' '%s'",
      ["with a directory in place of a checkpoint"] =
         "cp -rL '%s' '%s' && rm -r '%s'/checkpoints/step-*",
   } do
      it("goes on when it was copied " .. how, function()
         local from, to = root .. "/stopped", root .. "/copied"
         files.remove(from)
         files.remove(to)
         train(root, from, "4")
         local _, err, exit = process.shell(copy:format(from, to, to))
         assert.equal(0, exit, err)
         for _, out in ipairs { from, to } do
            assert.matches("goes on from .*/step%-4, after step 4 of 6",
               train(root, out, "6", "--resume"))
         end
         local function computed(dir)
            local list = digests(dir .. "/checkpoints")
            list["step-6/state/state.json"] = nil -- has the time it took
            return list
         end
         assert.same(computed(from), computed(to))
      end)
   end
end)

describe("what a run cannot keep", function()
   --- What is said on stderr while body runs.
   local function said(body)
      local text, stderr = {}, io.stderr
      rawset(io, "stderr", {
         write = function(_, ...) text[#text + 1] = table.concat { ... } end,
      })
      local ok, problem = pcall(body)
      rawset(io, "stderr", stderr)
      assert(ok, problem)
      return table.concat(text)
   end

   local directories = require("ftpipe.store.directory")

   it("is said once: metrics on a full disk", function()
      if not core.sys.exists("/dev/full") then return pending("no /dev/full") end
      files.in_directory(function(dir)
         local directory = directories.new { out = dir }
         directory.metrics = assert(io.open("/dev/full", "a"))
         local text = said(function()
            for step = 3, 5 do directory:note { step = step, loss = 1 } end
         end)
         assert.matches("^/.*/metrics.jsonl cannot be written from step 3 on: No space left on "
            .. "device; the run goes on\n$", text)
      end)
   end)

   it("is said once: the timeline, which a run can do without", function()
      files.in_directory(function(dir)
         local directory = directories.new { out = dir }
         core.sys.mkdir(dir .. "/timeline.json") -- nothing can take its place
         core.sys.write_file(dir .. "/timeline.json/file", "")
         local text = said(function()
            for _ = 1, 2 do assert.is_false(directory:offer("timeline.json", "{}")) end
            assert.is_true(directory:offer("trace-1-2.json", "{}"))
         end)
         assert.matches("^[^\n]*timeline.json[^\n]*; the run goes on without timeline.json\n$",
            text)
         assert.equal("{}", core.sys.read_file(dir .. "/trace-1-2.json"))
      end)
   end)

   it("is said: other processes out, where a file system has no locks", function()
      files.in_directory(function(dir)
         assert.equal("", said(function() directories.new({ out = dir }).lock:free() end))
         local take = core.io.lock
         core.io.lock = function(path) return take(path), false end
         local text = said(function() directories.new({ out = dir }).lock:free() end)
         core.io.lock = take
         assert.equal('out = "' .. dir .. '": its file system has no locks, nothing keeps another '
            .. "process out\n", text)
      end)
   end)
end)

-- JSON of other kinds than a run writes, by file.
local OTHERS = {
   { "summary.json", '{"value":"x","metric":3,"seconds":"a","shares_percent":[3]}' },
   { "summary.json", '{"value":3,"metric":null,"steps":{},"seconds":[],"copies":{"devices":1}}' },
   { "metrics.jsonl", '{"step":1,"loss":1,"loss_mean":"x","lr":null,"idle_percent":[1,"a"]}\n' },
   { "metrics.jsonl", '{"step":1,"loss":1e308}\n{"step":1e300,"loss":-1e308}\n{"step":2}\n' },
   { "timeline.json", '{"traceEvents":[1,null,{"ph":"X","args":{"batch":"x"}},{"ph":"M"}]}' },
   { "run.json", '{"format":1,"flags":{"steps":"x"},"stages":5,"origins":7,"task":{}}' },
   { "plan.txt", "memory 99999999999 weights 5\nnode-stage 0*99999999999 77777\n" },
}

describe("a run that is resumed after its last step", function()
   it("keeps what its training was like when no step is left", function()
      files.in_directory(function(dir)
         local words = { "recipes/t5_rte.lua", "--out", dir .. "/run", "--steps", "3", "--schedule",
            "async", "--devices", "cpu:2", "--eval-limit", "4", "--profile", "modelled" }
         local function summary_of(...)
            local all = { ... }
            for i, word in ipairs(words) do table.insert(all, i, word) end
            local _, err, exit = process.ftpipe(all)
            assert.equal(0, exit, err)
            local summary = core.json.decode(core.sys.read_file(dir .. "/run/summary.json"))
            summary.eval_seconds = nil
            return summary
         end
         local first = summary_of()
         assert.is_table(first.staleness_seen)
         assert.is_table(first.shares_percent)
         local left, others = dir .. "/run/plan.txt.123.0.tmp", dir .. "/run/mine.txt.123.0.tmp"
         core.sys.write_file(left, "half a plan") -- by a process that was killed
         core.sys.write_file(others, "mine")
         assert.same(first, summary_of("--resume"))
         assert.is_nil(core.sys.exists(left))
         assert.equal("file", core.sys.exists(others))
         assert.same(first, summary_of("--resume")) -- of the one that was kept
         local longer = summary_of("--resume", "--steps=4", "--change-rate")
         assert.equal(4, longer.steps)
         assert.not_same(first.shares_percent, longer.shares_percent)
      end)
   end)
end)

describe("a run with values of other kinds in its files", function()
   it("is shown as far as it can be, by every command that shows runs", function()
      files.in_directory(function(directory)
         local run, copy = directory .. "/run", directory .. "/copy"
         local _, err, code = process.ftpipe { "recipes/t5_rte.lua", "--out", run,
            "--profile", "modelled", "--eval-limit", "8", unpack(STEPS) }
         assert.equal(0, code, err)
         for _, row in ipairs(OTHERS) do
            copied(run, copy)
            core.sys.write_file(copy .. "/" .. row[1], row[2])
            for _, words in ipairs { { "report", copy, "--out", "-" }, { "runs", "show", copy },
               { "runs", "ls", directory }, { "runs", "events", copy }, { "top", copy, "--once" } }
            do
               _, err, code = process.ftpipe(words)
               assert.equal(0, code, ("%s, %s: %s"):format(row[1], words[1], err))
            end
         end
      end)
   end)
end)

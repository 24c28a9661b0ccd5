--- A run directory is data, whoever made it: nothing in it is executed, and nothing in it keeps the
-- program from ending.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

local STEPS = { "--steps", "4", "--keep", "1", "--save-every", "2", "--devices", "cpu:2" }

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
   { name = "--resume", reads = { "^checkpoints/", "^metrics%.jsonl$", "^plan%.txt$", "^lock$" },
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
      core.sys.write_file(rows, '{"premise": "Ben has a red kite.", '
         .. '"hypothesis": "Ben has a kite.", "label": "entailment"}\n')
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

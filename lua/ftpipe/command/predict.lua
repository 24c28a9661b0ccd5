--- ftpipe predict RUN|DIR: answers of a fine-tuned model, one JSON object a line on stdout.

local core = require("ftpipe.core")
local args = require("ftpipe.recipe.args")
local argvs = require("ftpipe.base.argv")
local input = require("ftpipe.data.predict.input")
local kinds = require("ftpipe.data.kind")
local models = require("ftpipe.model")
local named = require("ftpipe.base.named")
local opts = require("ftpipe.base.opts")
local records = require("ftpipe.store.record")
local sources = require("ftpipe.store.source")

local M = { help = "answers of a model to a text or a file, as JSON lines" }

local BROKEN_PIPE = 32 -- EPIPE
local BROKEN_PIPE_EXIT = 141 -- what a shell says of a program that SIGPIPE ended

M.declared = {
   "Answers of a fine-tuned model, one JSON object a line. What a text is depends on the model:\n"
      .. "T5 reads it and answers, GPT-2 goes on with it, BERT finds its answer in --context.",
   "ftpipe predict out/rte --file val.jsonl",
   "ftpipe predict out/squad --text 'Who came?' --context 'Ann came at noon.'",
   "head -3 lines.txt | ftpipe predict out/gpt2/hf --tokens 20 -",
   text = { type = "string", help = "one input" },
   context = { type = "string", help = "where the answer to --text is" },
   file = { type = "string", value = "FILE",
      help = "texts, one a line; rows of the task; SQuAD's JSON; - is stdin" },
   task = { type = "string", value = "NAME|FILE.lua",
      help = "what rows of --file mean; a run knows it, unless its task has functions" },
   adapter = { type = "string", value = "DIR", help = "adapters for the model" },
   tokens = { type = "int", min = 1, help = "of a continuation, at most (32)" },
   max_source = { default = false }, max_target = { default = false },
   greedy = { type = "boolean",
      help = "the likeliest tokens, whatever generation_config.json asks" },
   batch = { default = 32, help = "inputs that are worked on at once" },
   devices = { help = "that work on it: cpu, cpu:N, cpu:NxT" }, -- those of plans are refused
}

local function usage(format, ...)
   core.fail("invalid argument", format:format(...) .. "; see ftpipe predict --help", 2)
end

--- The flags that a kind understands, of those that some do not, as a set.
local function flags_of(kind)
   local set = {}
   for _, name in ipairs(kind.flags) do set[name] = true end
   return set
end

--- Refuses a flag that would do nothing.
local function check_flags(flags, model)
   local own, special = flags_of(kinds.of(model)), {}
   for _, name in ipairs(kinds.names()) do
      for flag in pairs(flags_of(kinds.find(name))) do special[flag] = true end
   end
   for _, name in ipairs(opts.names(special)) do
      if flags[name] ~= nil and not own[name] then
         usage("--%s is not for models like %s (%s)", (name:gsub("_", "-")), model.name,
            model.raw.model_type)
      end
   end
end

-- ---------------------------------------------------------------------------------------------
-- What to predict with.

--- The one task of a kind; nil when there are several, or none.
local function only_task(kind)
   local tasks, found = require("ftpipe.task"), nil
   for _, name in ipairs(tasks.names()) do
      if tasks.named(name) {}.kind == kind then
         if found then return nil end
         found = name
      end
   end
   return found
end

--- What a task takes of flags, and of what the run's task was made with.
local function overrides_of(kind, recorded, flags)
   local overrides = {}
   for key in pairs(kind.overrides) do
      overrides[key] = flags[key]
      if overrides[key] == nil then overrides[key] = recorded.settings[key] end
   end
   return overrides
end

--- The task of a file; says so when it is another one than that of the run.
local function load_task(path, recorded)
   local make, digest = require("ftpipe.task").load(path)
   if recorded.sha256 and digest ~= recorded.sha256 then
      io.stderr:write(("--task %s: not the file as it was when the run was made\n"):format(path))
   end
   return make
end

--- The task of one's own that a run was made with, from what the run has of it as data.
local function recorded_task(source, flags)
   local tasks, recorded = require("ftpipe.task"), source.task
   if not recorded.layouts then
      usage("%s: its task '%s' makes texts of rows with functions, and nothing that a run names is "
         .. "executed by itself: give --task %s", source.path, recorded.name,
         recorded.file or "FILE.lua, a script that returns it")
   end
   local ok, task = pcall(function()
      return tasks.restore(recorded, overrides_of(tasks.kind(recorded), recorded, flags))
   end)
   if ok then return task end
   return core.fail("malformed data", ("%s: %s"):format(records.path(source.path), tostring(task)))
end

--- The task of --task: a name, or a file.
local function asked_task(name, recorded)
   return name:find("%.lua$") and load_task(name, recorded) or require("ftpipe.task").named(name)
end

--- The task inside the program that a run was made with; a name from a run loads nothing else.
local function inside_task(source)
   local tasks = require("ftpipe.task")
   for _, name in ipairs(tasks.names()) do
      if name == source.task.name then return tasks.named(name) end
   end
   return core.fail("malformed data", ("%s: no task is called '%s' (there are: %s)"):format(
      records.path(source.path), source.task.name, table.concat(tasks.names(), ", ")))
end

--- The task of --task, else that of the run, else the only one there is for such models; nil when
-- there is none.
local function find_task(source, flags, model)
   local recorded, make = source.task
   if flags.task then
      make = asked_task(flags.task, recorded)
   elseif recorded.name and recorded.kind then
      return recorded_task(source, flags)
   elseif recorded.name then
      make = inside_task(source)
   else
      local name = only_task(model.family.kind)
      make = name and require("ftpipe.task").named(name)
   end
   return make and make(overrides_of(make {}.rows, recorded, flags))
end

-- ---------------------------------------------------------------------------------------------
-- Output.

--- Writes a line; a reader that went away ends the program without a word.
local function emit(row)
   local written, problem, errno = io.stdout:write(core.json.encode(row), "\n")
   if written then written, problem, errno = io.stdout:flush() end
   if written then return end
   if errno == BROKEN_PIPE then os.exit(BROKEN_PIPE_EXIT, true) end
   core.fail("input or output failed", "standard output cannot be written: " .. problem)
end

--- Answers every input. Weights may be finite, and still too large for what they make.
local function answer(job, path)
   local ok, problem = pcall(kinds.of(job.model).answer, job)
   if ok then return end
   if type(problem) ~= "table" or problem.status ~= "diverged" then error(problem, 0) end
   core.fail("diverged", ("%s predicts nothing here: %s"):format(path, problem.message))
end

--- @tparam {string,...} argv the words after "predict"
function M.run(argv)
   local path, stray = argvs.word(argv), argvs.word(argv)
   if stray == "-" then table.insert(argv, 1, stray) stray = nil end
   if stray then
      usage("unexpected word '%s' behind the model, give a text with --text and a file with --file",
         stray)
   end
   for i, word in ipairs(argv) do -- "-" alone is --file -
      if word == "-" and argv[i - 1] ~= "--file" then argv[i] = "--file=-" end
   end
   local flags = args.read(M.declared, argv, "predict RUN|DIR")
   io.stdout:setvbuf("full") -- `emit` flushes, which tells what a line's end would not
   if not path then usage("predict needs a run or the directory of a model") end
   if (flags.text == nil) == (flags.file == nil) then
      usage("predict needs one of --text and --file (- is stdin)")
   end
   if flags.context and not flags.text then usage("--context goes with --text") end
   if flags.context and not flags.text:find("%S") then usage("--text is empty: give a question") end
   local source = sources.find(path)
   local model = models.open(named.flags { model = source.model,
      adapter = flags.adapter or source.adapter })
   check_flags(flags, model)
   local job = {
      model = model, flags = flags,
      task = find_task(source, flags, model),
      usage = usage,
      threads = 0,
   }
   for _, device in ipairs(core.engine.devices(flags.devices)) do
      if not device.in_host then
         usage("--devices %s: predict runs on cores of this machine, as cpu or cpu:1x2",
            flags.devices)
      end
      job.threads = job.threads + device.threads
   end
   if job.task and job.task.kind ~= model.family.kind then
      usage("task %s is of kind %s, the model %s of kind %s", job.task.name, job.task.kind,
         source.model, model.family.kind)
   end
   job.items = input.read(job)
   function job.emit(row)
      local item = job.items[row.index]
      row.line = item and item.line -- blank lines have no answer
      emit(row)
   end
   answer(job, source.model)
end

return M

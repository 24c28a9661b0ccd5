--- ftpipe predict RUN|DIR: answers of a fine-tuned model, one JSON object a line on stdout.

local core = require("ftpipe.core")
local args = require("ftpipe.args")
local input = require("ftpipe.predict.input")
local models = require("ftpipe.model")
local records = require("ftpipe.run.record")
local states = require("ftpipe.state")

local M = { help = "answers of a model to a text or a file, as JSON lines" }

local BROKEN_PIPE = 32 -- EPIPE
local BROKEN_PIPE_EXIT = 141 -- what a shell says of a program that SIGPIPE ended

local declared = {
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
      help = "what rows of --file mean; a run knows it" },
   tokens = { type = "int", min = 1, help = "of a continuation, at most (32)" },
   max_source = { default = false }, max_target = { default = false },
   batch = { default = 32, help = "inputs that are worked on at once" },
   devices = true,
}

local function usage(format, ...)
   core.fail("invalid argument", format:format(...) .. "; see ftpipe predict --help", 2)
end

-- Flags that are for models of some kinds alone.
local OF_KINDS = {
   { "tokens", { language_model = true } }, { "context", { span = true } },
   { "max_source", { text2text = true, span = true } }, { "max_target", { text2text = true } },
}

--- Refuses a flag that would do nothing.
local function check_flags(flags, model)
   for _, row in ipairs(OF_KINDS) do
      local name, kinds = row[1], row[2]
      if flags[name] ~= nil and not kinds[model.family.kind] then
         usage("--%s is not for models like %s (%s)", (name:gsub("_", "-")), model.name,
            model.raw.model_type)
      end
   end
end

-- ---------------------------------------------------------------------------------------------
-- What to predict with.

--- Where the model of a run is: not in hf/ before its end, or when it only evaluated.
local function model_of(path, record)
   if core.sys.exists(path .. "/hf") then return path .. "/hf" end
   local saved = states.find(path)
   if saved then return saved .. "/hf" end
   if type(record.flags.model) == "string" then return record.flags.model end
   return core.fail("malformed data", records.path(path) .. ": names no model")
end

--- The model's directory, and of a run its task.
local function find_source(path)
   if not core.sys.exists(path) then
      core.fail("not found", ("'%s': there is no such directory, expected a run or a model")
         :format(path))
   end
   if core.sys.exists(path .. "/config.json") then
      return { model = path, task = { settings = {} } }
   end
   if not core.sys.exists(records.path(path)) then
      core.fail("not found", ("'%s' is neither a run (run.json) nor a model (config.json)")
         :format(path))
   end
   local record = records.read(path)
   return { model = model_of(path, record), task = record.task }
end

--- The one task of a kind; nil when there are several, or none.
local function only_task(kind)
   local tasks, found = require("ftpipe.task"), nil
   for _, name in ipairs(tasks.names()) do
      if tasks[name] {}.kind == kind then
         if found then return nil end
         found = name
      end
   end
   return found
end

--- The task of a name, made with the settings of the run; nil without a name.
local function find_task(name, source, flags)
   if not name then return nil end
   local tasks = require("ftpipe.task")
   local make = name:find("%.lua$") and tasks.load(name) or tasks[name]
   local overrides = {}
   for key in pairs(make {}.rows.overrides) do
      overrides[key] = flags[key]
      if overrides[key] == nil then overrides[key] = source.task.settings[key] end
   end
   return make(overrides)
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

--- A word that is no flag, taken out of argv.
local function take_word(argv)
   if argv[1] and not argv[1]:find("^%-") then return table.remove(argv, 1) end
   return nil
end

--- @tparam {string,...} argv the words after "predict"
function M.run(argv)
   local path = take_word(argv)
   for i, word in ipairs(argv) do -- "-" alone is --file -
      if word == "-" and argv[i - 1] ~= "--file" then argv[i] = "--file=-" end
   end
   local flags = args.read(declared, argv, "predict RUN|DIR")
   io.stdout:setvbuf("full") -- `emit` flushes, which tells what a line's end would not
   if not path then usage("predict needs a run or the directory of a model") end
   if (flags.text == nil) == (flags.file == nil) then
      usage("predict needs one of --text and --file (- is stdin)")
   end
   if flags.context and not flags.text then usage("--context goes with --text") end
   local source = find_source(path)
   local model = models.open { model = source.model }
   check_flags(flags, model)
   local job = {
      model = model, flags = flags,
      task = find_task(flags.task or source.task.name or only_task(model.family.kind), source,
         flags),
      emit = emit, usage = usage,
      threads = 0,
   }
   for _, device in ipairs(core.engine.devices(flags.devices)) do
      if device.kind ~= "cpu" then
         usage("--devices %s is for planning, predict runs on cpu", flags.devices)
      end
      job.threads = job.threads + device.threads
   end
   if job.task and job.task.kind ~= model.family.kind then
      usage("task %s is of kind %s, the model %s of kind %s", job.task.name, job.task.kind,
         source.model, model.family.kind)
   end
   job.items = input.read(job)
   require("ftpipe.predict." .. model.family.kind).run(job)
end

return M

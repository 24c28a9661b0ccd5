--- Messages name options as whoever gave them knows them: flags, or fields of a Lua table.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local ft = require("ftpipe")
local named = require("ftpipe.base.named")

describe("options in messages", function()
   it("are flags of flags, and fields of tables", function()
      local text = "{data=DIR}, or {train_file} and {eval_file}; {steps}"
      assert.equal("--data DIR, or --train-file and --eval-file; --steps",
         named.words(named.flags {}, text))
      assert.equal('data = "DIR", or train_file and eval_file; steps', named.words({}, text))
      local typed = named.flags({ data = "a" }, { data = "default" }, true) -- at the prompt
      assert.equal('data = "DIR", or train_file and eval_file; steps', named.words(typed, text))
      for _, values in ipairs { typed, copy(typed), named.like(typed, {}) } do
         assert.is_true(named.are_flags(values))
         assert.is_false(values.flagged)
      end
      assert.is_false(named.is_given(typed, "data"))
   end)

   -- Calls, and what they say of a table and of flags.
   local model
   local function open_model()
      model = model or ft.model { model = "t5-small", init = "random" }
      return model
   end
   local function task() return ft.task.rte {} end
   local directory = require("ftpipe.store.directory")
   local arguments = require("ftpipe.plan.arguments")
   local function of_plan(o) arguments.of(open_model(), nil, o) end
   local function of_rows(o) arguments.of(open_model(), { train = {} }, o) end
   local function of_task(o) task():open(open_model(), o) end
   local function load(o)
      o.tokenizer = 0
      task():load(o)
   end
   -- In a directory that is there, what the run reads.
   local function check_apart(o)
      files.in_directory(function(dir)
         local inside = dir .. "/data"
         core.sys.mkdir(inside)
         o.out, o.data = dir, inside
         local ok, problem = pcall(directory.check, o)
         o.out, o.data = nil, nil
         assert(not ok)
         problem.message = problem.message:gsub(dir:gsub("%p", "%%%0"), "DIR")
         error(problem, 0)
      end)
   end
   local ROWS = {
      { load, { data = "/no/such" }, 'data = "/no/such": no such directory',
         "--data /no/such: no such directory" },
      { load, { data = "/dev/null" },
         'data = "/dev/null": not a directory (train_file and eval_file take files)',
         "--data /dev/null: not a directory (--train-file and --eval-file take files)" },
      { load, { train_file = "/no/such" }, 'train_file = "/no/such": no such file',
         "--train-file /no/such: no such file" },
      { load, { train_file = "spec" },
         'train_file = "spec": is a directory: give a file in it, or data = "spec"',
         "--train-file spec: is a directory: give a file in it, or --data spec" },
      { load, { train_file = "/dev/null" },
         'train_file = "/dev/null": is no ordinary file, which can be read more than once',
         "--train-file /dev/null: is no ordinary file, which can be read more than once" },
      { load, {}, "task rte: no train data, give data or train_file",
         "task rte: no train data, give --data or --train-file" },
      { of_task, { devices = "cpu" }, 'no data for model = "t5-small": give data = "DIR", or '
         .. 'train_file and eval_file, or data = "embedded"', "no data for --model t5-small: give "
         .. "--data DIR, or --train-file and --eval-file, or --data embedded" },
      { of_task, { data = "embedded", train_file = "x" }, 'data = "embedded" has both splits, '
         .. "train_file and eval_file name others: give one of them", "--data embedded has both "
         .. "splits, --train-file and --eval-file name others: give one of them" },
      { function(o) ft.task.squad {}:open(open_model(), o) end, {},
         'task squad is span (for models of bert), model = "t5-small" is text2text',
         "task squad is span (for models of bert), --model t5-small is text2text" },
      { directory.check, { resume = true },
         "resume goes on from the checkpoints of out, give it too",
         "--resume goes on from the checkpoints of --out, give it too" },
      { directory.check, { resume = true, eval_only = true, out = "x" }, "resume goes on with "
         .. 'training and eval_only does not train, give one of them (model = "x/hf" is what the '
         .. "run has left)", "--resume goes on with training and --eval-only does not train, give "
         .. "one of them (--model x/hf is what the run has left)" },
      { directory.check, { out = "/dev/null" }, 'out = "/dev/null": /dev/null is not a directory',
         "--out /dev/null: /dev/null is not a directory" },
      { check_apart, {}, 'data = "DIR/data" is in out = "DIR", where this run writes: give another '
         .. "out", "--data DIR/data is in --out DIR, where this run writes: give another --out" },
      { of_rows, { devices = "cpu:1", schedule = "1f1b", staleness = "none" },
         "nothing says how long to train, give steps or epochs",
         "nothing says how long to train, give --steps or --epochs" },
      { of_plan, { patience = 1 }, "patience counts evaluations, give eval_every too",
         "--patience counts evaluations, give --eval-every too" },
      { of_plan, { save_every = 1 },
         "save_every saves in the directory that out names, give it too",
         "--save-every saves in the directory that --out names, give it too" },
      { of_plan, { keep = 1 },
         "keep is for checkpoints in the directory that out names, give it too",
         "--keep is for checkpoints in the directory that --out names, give it too" },
      { of_plan, { change_rate = true }, "change_rate is for a run that goes on, give resume too",
         "--change-rate is for a run that goes on, give --resume too" },
   }
   for i, row in ipairs(ROWS) do
      local call, options, of_table, of_flags = unpack(row)
      it("are named so in message " .. i, function()
         for _, case in ipairs { { options, of_table },
            { named.flags(copy(options)), of_flags } } do
            assert.equal(case[2], (files.failure(call, case[1]).message:gsub("^%S+:%d+: ", "")))
         end
      end)
   end
end)

describe("messages of modules that Lua calls", function()
   -- What only a command line reaches: flags are its words.
   local OF_COMMANDS = { "^command/", "^sweep/", "^prompt/", "^recipe/args", "^data/predict/",
      "^data/kind/", "^plan/options", "^placement/referee", "^run/restart" }

   local function is_of_commands(path)
      for _, pattern in ipairs(OF_COMMANDS) do
         if path:find(pattern) then return true end
      end
      return false
   end

   --- Lines with a flag in a string, but for help on options and what is said to flags alone.
   local function flags_in(path, text)
      local found, number = {}, 0
      for line in text:gmatch("([^\n]*)\n") do
         number = number + 1
         local code = line:gsub("^%s*%-%-.*", ""):gsub("%s%-%-%s.*", "")
            :gsub('"srun [^"]*"', "") -- of another program
         local flag = code:find('["\'][^"\']*%-%-%l')
         if flag and not code:find("help = ") and not code:find("flagged") then
            found[#found + 1] = ("%s:%d: %s"):format(path, number, line)
         end
      end
      return found
   end

   it("name no flag", function()
      local found = {}
      local pipe = assert(io.popen("cd lua/ftpipe && find . -name '*.lua' | sort"))
      for path in pipe:lines() do
         path = path:sub(3)
         if not is_of_commands(path) then
            for _, line in ipairs(flags_in(path, core.sys.read_file("lua/ftpipe/" .. path))) do
               found[#found + 1] = line
            end
         end
      end
      pipe:close()
      assert.equal("", table.concat(found, "\n"))
   end)
end)

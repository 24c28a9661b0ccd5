local args = require("ftpipe.recipe.args")
local class = require("ftpipe.base.class")
local files = require("spec.support.files")
local ft = require("ftpipe")

local declared = {
   "Does a thing.",
   "ftpipe thing.lua --steps 3",
   devices = true,
   micro_batches = { default = 2 },
   steps = { default = 40 },
   precision = true,
   schedule = true,
   lr = true,
   dry_run = true,
   plan = true,
   out = true,
   beams = { default = 1, min = 1, max = 8, help = "width of the search" },
}

local function parse(...)
   return args.parse(declared, { ... })
end

local function refuses(pattern, ...)
   local ok, problem = pcall(parse, ...)
   assert.is_false(ok)
   assert.matches(pattern, problem.message)
   assert.is_nil(problem.message:find("\n"))
   assert.equal(2, problem.exit)
end

describe("args", function()
   it("gives defaults, of the recipe before the common ones", function()
      local values, given = parse()
      assert.equal(40, values.steps)
      assert.equal(2, values.micro_batches)
      assert.equal("cpu", values.devices)
      assert.equal(false, values.dry_run)
      assert.same({}, given)
   end)

   it("reads --flag value, --flag=value and -n", function()
      local values, given = parse("--steps", "3", "--lr=3e-4", "--micro-batches", "8", "-n",
         "--beams=2")
      assert.same({ 3, 3e-4, 8, true, 2 },
         { values.steps, values.lr, values.micro_batches, values.dry_run, values.beams })
      assert.same({ steps = true, lr = true, micro_batches = true, dry_run = true, beams = true },
         given)
   end)

   it("has room for an answer of T5 and its end, by flag", function()
      local t5 = { preset = "t5" }
      assert.equal(2, args.parse(t5, { "--max-target", "2" }).max_target)
      local ok, problem = pcall(args.parse, t5, { "--max-target", "1" })
      assert.is_false(ok)
      assert.equal("--max-target: expected 2 to 16777216, got 1", problem.message)
      problem = files.failure(args.parse, t5, { "--max-source", "1" })
      assert.equal("--max-source: expected 2 to 16777216, got 1", problem.message)
   end)

   it("refuses rules that say what no rule says", function()
      local function refused(words, rule)
         local declaration = { preset = "t5", steps = rule }
         assert.matches(words, files.failure(args.parse, declaration, {}).message)
      end
      refused("'steps' has a key 'defalt' %(did you mean 'default'%?%)", { defalt = 3 })
      refused("'steps' has a key '1'", { 300 })
      assert.matches("with.model: there is no flag 'stepz' %(did you mean 'steps'%?%)",
         files.failure(args.parse, { preset = "t5", with = { model = { stepz = 3 } } }, {}).message)
   end)

   it("is what ft.fine_tune takes, with numbers that are numbers", function()
      local task = ft.task.rte {}
      assert.matches("'args': expected what ft.args gives",
         files.failure(ft.fine_tune, { args = { steps = 3 }, task = task }).message)
      local typed = args.parse({ preset = "t5" }, {})
      typed.steps, typed.lr = 3, "x"
      assert.equal("--lr: expected a number, got 'x'",
         files.failure(ft.fine_tune, { args = typed, task = task }).message)
      typed.lr = 0 / 0
      assert.matches("%-%-lr: expected",
         files.failure(ft.fine_tune, { args = typed, task = task }).message)
      typed.lr, typed.batch = 1e-3, -4
      assert.equal("--batch: expected at least 1, got -4",
         files.failure(ft.fine_tune, { args = typed, task = task }).message)
   end)

   it("may be a table where Lua may give one", function()
      local bert = args.parse({ preset = "fine_tune", model = { default = "embedded:bert_tiny" },
         dropout = true }, {})
      bert.dropout, bert.steps, bert.eval_every = { hidden = 0.1, attention = 0.2 }, 3, false
      local model = ft.model(bert)
      local data = ft.task.squad {}:open(model, bert)
      assert.equal("plan", class.of(ft.plan { model = model, data = data, args = bert }))
   end)

   it("has no effort that is none, or too large", function()
      local recipe = { preset = "fine_tune" }
      assert.equal(0.5, args.parse(recipe, { "--effort", "0.5" }).effort)
      local fault = files.failure(args.parse, recipe, { "--effort", "0" })
      assert.equal("--effort: expected more than 0, got 0", fault.message)
      fault = files.failure(args.parse, recipe, { "--effort", "1e7" })
      assert.equal("--effort: expected at most 1000000, got 10000000", fault.message)
   end)

   it("refuses declarations that are none in one line", function()
      local cases = {
         { { partition = function() end }, "ft.args: 'partition' is a function, expected true, " },
         { { steps = 3 }, "ft.args: 'steps' is a number, expected true, false or a rule" },
         { { {} }, "ft.args: line 1 of the help is a table, expected a text" },
         { { preset = "fine" }, "ft.args: no preset is called 'fine'" },
      }
      for _, case in ipairs(cases) do
         local ok, problem = pcall(args.parse, case[1], {})
         assert.is_false(ok)
         assert.matches(case[2], problem.message)
         assert.is_nil(problem.message:find("\n"))
      end
   end)

   it("refuses wrong flags and values in one line, naming flag and value", function()
      refuses("unknown flag '%-%-stesp' %(did you mean '%-%-steps'%?%)", "--stesp", "3")
      refuses("unknown flag '%-%-model'", "--model", "x")
      refuses("%-%-steps: expected an integer, got 'x'", "--steps", "x")
      refuses("%-%-steps: expected at least 1, got 0", "--steps=0")
      refuses("%-%-beams: expected 1 to 8, got 9", "--beams", "9")
      refuses("%-%-steps has no value, expected %-%-steps N", "--steps")
      refuses("%-%-plan is empty: give it a file", "--plan", "")
      refuses("%-%-out is empty: give it a directory", "--out=")
      refuses("%-%-dry%-run takes no value; see", "--dry-run=yes")
      refuses("%-%-schedule: '1fb1' is not available %(did you mean '1f1b'%?%)",
         "--schedule", "1fb1")
      refuses("%-%-precision: 'fp16' is not available %(did you mean 'f16'%?%) "
         .. "%(expected one of: f32, tf32, bf16, f16%)",
         "--precision", "fp16")
      refuses("%-%-lr: expected at least 0, got %-1$", "--lr", "-1")
      refuses("%-%-lr: expected at least 0, got %-0.1$", "--lr", "-0.1") -- the fewest digits
      refuses("%-%-lr: expected at least 0, got %-0.5$", "--steps", "3", "--lr", "-.5")
      refuses("unknown flag '%-1'", "--dry-run", "-1")
      refuses("%-%-schedule: '%-%-lr 1' is not available", "--schedule", "--lr 1")
      refuses("%-%-lr has no value, expected %-%-lr N", "--lr", "--steps", "3")
      refuses("unexpected word 'extra', it is behind no flag %(words of a command come in front of "
         .. "its flags%); see %-%-help", "extra")
      refuses("unexpected word 'extra'", "--steps", "3", "--dry-run", "extra", "--lr=1")
   end)

   it("refuses flags of training beside one that leaves training out", function()
      local recipe = { preset = "fine_tune", lr = { default = 1 } }
      for _, words in ipairs { { "--lr", "3" }, { "--epochs=2" }, { "--gnorm" },
         { "--optimizer=sgd" }, { "--recompute=never" }, { "--update=end" }, { "--swap=auto" },
         { "--swap-dir=d" }, { "--staleness=stash" }, { "--max-staleness=1" }, { "--lora=4" },
         { "--lora-alpha=2" }, { "--lora-targets=v" }, { "--groups=*.bias: decay 0" },
         { "--schedule=async" }, { "--packs=2" }, { "--forward-micro-batches=2" } }
      do
         words[#words + 1] = "--eval-only"
         local fault = files.failure(args.parse, recipe, words)
         assert.equal(("%s is for training, and --eval-only does not train, leave one out")
            :format(words[1]:match("[^=]+")), fault.message)
         assert.equal(2, fault.exit)
      end
      assert.equal(1, args.parse(recipe, { "--eval-only", "--batch", "4" }).lr)
      assert.equal(3, args.parse(recipe, { "--eval-only", "--resume", "--lr", "3" }).lr)
   end)

   it("shows in help what is declared and nothing else", function()
      local help = args.help(declared, "thing.lua")
      for _, flag in ipairs { "devices", "micro%-batches", "steps", "beams", "dry%-run" } do
         assert.matches("%-%-" .. flag, help)
      end
      assert.is_nil(help:find("--optimizer", 1, true))
      assert.matches("Does a thing", help)
      assert.matches("ftpipe thing.lua %-%-steps 3", help)
      for line in help:gmatch("[^\n]+") do assert.is_true(#line <= 100, line) end
   end)

   it("fits all common flags in 40 lines", function()
      local all = { "Text." }
      for _, name in ipairs { "devices", "model", "init", "data", "train_file", "eval_file",
         "batch",
         "micro_batches", "schedule", "staleness", "partition", "stages", "recompute", "optimizer",
         "lr", "warmup", "clip", "weight_decay", "decay_exempt", "dropout", "max_source",
         "max_target", "steps", "epochs", "eval_every", "eval_only", "precision", "seed", "out",
         "resume", "dry_run" } do
         all[name] = true
      end
      local _, n = (args.help(all, "x.lua") .. "\n"):gsub("\n", "")
      assert.is_true(n <= 40)
      assert.is_nil(args.help(all, "x.lua"):find("\n  --init", 1, true))
      assert.matches("%-%-help all: also %-%-init", args.help(all, "x.lua"))
      for line in args.help({ "Words.", preset = "t5" }, "x.lua"):gmatch("[^\n]+") do
         assert.is_true(#line <= 100, line)
      end
      assert.matches("\n  %-%-init weights|random ", args.help(all, "x.lua", true))
      assert.is_table(args.parse(all, {}))
   end)

   it("takes a preset of common flags, which the recipe may change", function()
      local own = { "Does.", preset = "fine_tune", steps = { default = 7 }, width = { default = 2 },
         with = { model = { batch = 40, lr = 1e-3 } } }
      local values = args.parse(own, {})
      assert.same({ 7, 2, 8 }, { values.steps, values.width, values.batch })
      values = args.parse(own, { "--model", "x", "--lr", "0.5", "--cache", "none" })
      assert.same({ 40, 0.5, "none" }, { values.batch, values.lr, values.cache })
      local help = args.help(own, "x.lua")
      assert.matches("%-%-batch N +samples of an update %[8; 40 with %-%-model%]", help)
      assert.matches("%-%-steps N +updates %[7%]", help)
      assert.fails_with(function() args.parse({ preset = "none" }, {}) end,
         "ft.args: no preset is called 'none' %(there are: fine_tune, t5%)")
   end)

   it("takes the default of the last flag by the alphabet where several have one", function()
      local own, argv = { "Does.", preset = "fine_tune", with = {} }, {}
      for i, name in ipairs { "lr", "cache", "out", "model", "data", "keep", "clip", "seed" } do
         own.with[name] = { batch = 10 + i }
         argv[i] = ("--%s=%d"):format(name, i)
         local names = {}
         for n in pairs(own.with) do names[#names + 1] = n end
         table.sort(names)
         local values = args.parse(own, argv)
         assert.equal(own.with[names[#names]].batch, values.batch)
         assert.matches("%-%-batch %d+ +recipe, with %-%-" .. names[#names], args.config(values))
      end
   end)

   it("takes a preset that is made of another, flag by flag", function()
      local own = { "Does.", preset = "t5", batch = { help = "pairs" }, lr = true,
         with = { model = { batch = 40 } } }
      local values = args.parse(own, {})
      assert.same({ "embedded:t5_tiny", 32, "adamw", 1e-3 },
         { values.model, values.batch, values.optimizer, values.lr })
      assert.matches("%-%-batch N +pairs %[32; 40 with %-%-model%]", args.help(own, "x.lua"))
      values = args.parse(own, { "--model", "x" })
      assert.same({ 40, "adafactor" }, { values.batch, values.optimizer })
   end)

   it("lets steps that are given go before a default of epochs, and the other way round", function()
      local either = { steps = true, epochs = { default = 2 } }
      assert.equal(2, args.parse(either, {}).epochs)
      local values = args.parse(either, { "--steps", "7" })
      assert.equal(7, values.steps)
      assert.is_nil(values.epochs)
      assert.is_nil(args.parse({ steps = { default = 9 }, epochs = true },
         { "--epochs", "1" }).steps)
      assert.fails_with(function() args.parse(either, { "--steps", "7", "--epochs", "1" }) end,
         "%-%-steps and %-%-epochs say the same in two ways, give one")
   end)

   it("lets defaults follow from what was given beside them, and says so", function()
      local common = {
         preset = "fine_tune", partition = { default = "mixed" }, micro_batches = { default = 8 },
         with = { model = { micro_batches = 5 } },
      }
      local function read(...)
         local values = args.parse(common, { ... })
         return { values.micro_batches, values.partition }
      end
      assert.same({ 8, "mixed" }, read("--batch", "32"))
      assert.same({ 6, "mixed" }, read("--batch", "12"))
      assert.same({ 3, "mixed" }, read("--batch", "3"))
      assert.same({ 4, "mixed" }, read("--batch", "16", "--model", "x"))
      assert.same({ 8, "mixed" }, read("--batch", "34")) -- in 2 it would mostly wait: an error
      assert.same({ 5, "mixed" }, read("--batch", "12", "--micro-batches", "5"))
      assert.same({ 8, "seq" }, read("--schedule", "zb-v"))
      assert.same({ 8, "seq" }, read("--schedule", "interleaved"))
      assert.same({ 8, "seq" }, read("--schedule", "harmony-pp", "--packs", "2"))
      assert.same({ 8, "best" }, read("--schedule", "zb-v", "--partition", "best"))
      local lines = args.config((args.parse(common, { "--batch", "12", "--schedule", "zb-v" })))
      assert.matches("%-%-micro%-batches 6 +follows from other flags", lines)
      assert.matches("%-%-partition seq +follows from other flags", lines)
      assert.matches("%-%-seed 1 +default", lines)
   end)

   it("refuses a declaration that is neither common nor a table", function()
      assert.fails_with(function() args.parse({ nonsense = true }, {}) end, "no common flag")
      assert.fails_with(function() args.parse({ batch = { default = "x" } }, {}) end, "default of")
   end)
end)

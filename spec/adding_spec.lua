--- What CONTRIBUTING.md says of adding things, done on a copy of the sources: the lines go where it
-- says, nothing else is touched, and what was added works.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

--- Puts text in front of, or behind, what stands in a file of the copy exactly once.
local function insert(copy, path, mark, text, behind)
   local whole = core.sys.read_file(copy .. "/" .. path)
   local first, last = whole:find(mark, 1, true)
   assert(first, ("%s has no '%s'"):format(path, mark))
   assert(not whole:find(mark, last, true), ("%s has '%s' twice"):format(path, mark))
   local at = behind and last or first - 1
   core.sys.write_file(copy .. "/" .. path, whole:sub(1, at) .. text .. whole:sub(at + 1))
   return select(2, text:gsub("\n", "\n"))
end

-- Without the kernels for cards, which takes as long as all else; see compile_for_cards.
local function build(copy, targets)
   local log, err, code = process.shell(("cd %s && { test -f build/release/build.ninja || "
      .. "cmake --preset release -DFTPIPE_CUDA=OFF; } >/dev/null && "
      .. "ninja -C build/release %s"):format(copy, targets))
   assert.equal(0, code, log .. err)
end

--- Files of kernels, for one kind of card, where nvcc is.
local function compile_for_cards(copy, ...)
   local log, err, code = process.shell(("cd %s && cmake --preset release -B build/cards "
      .. "-DFTPIPE_CUDA_ARCHITECTURES=80"):format(copy))
   assert.equal(0, code, log .. err)
   if not log:find("CUDA: on", 1, true) then return end
   log, err, code = process.shell(("cd %s && ninja -C build/cards kernels/%s.fatbin"):format(copy,
      table.concat({ ... }, ".fatbin kernels/")))
   assert.equal(0, code, log .. err)
end

--- What the program of the copy prints for a piece of Lua.
local function evaluate(copy, code)
   local out, err, exit = process.shell(("cd %s && build/release/ftpipe -e '%s'"):format(copy,
      code))
   assert.equal(0, exit, err)
   return out
end

describe("CONTRIBUTING.md on adding", function()
   local copy

   setup(function()
      -- beside the program, where there is room for another one: /tmp may be small
      copy = ("%s/adding-%d"):format(core.sys.executable():match("^(.*)/"), core.sys.getpid())
      core.sys.mkdir(copy)
      local _, err, code = process.shell(("git ls-files -co --exclude-standard -z | "
         .. "tar --null --files-from - -cf - | tar -xf - -C %s"):format(copy))
      assert(code == 0, err)
   end)

   teardown(function() files.remove(copy) end)

   --- In a file of its own, with its kernel for cards: as argmax, of what is smallest.
   local function add_argmin()
      local function turned(path, from, to)
         local text = core.sys.read_file(copy .. "/" .. path)
         local first = text:find(from, 1, true)
         local part = text:sub(first, (select(2, text:find(to, first, true))))
         return (part:gsub("argmax", "argmin"):gsub("%f[%w]x%[i%]", "-x[i]")
            :gsub("x%[best%]", "-x[best]"):gsub("ft_read%(x, i%)", "-%0"))
      end
      core.sys.write_file(copy .. "/src/ops/op_argmin.c",
         turned("src/ops/op_argmax.c", "/* ops/op_argmax.c", "n_samples = sizeof samples / "
            .. "sizeof *samples,\n};\n"))
      insert(copy, "src/ops/internal.h", "extern const ft_op ft_op_argmax,", " ft_op_argmin,", true)
      insert(copy, "src/ops/table.c", "    &ft_op_argmax,\n", "    &ft_op_argmin,\n", true)
      insert(copy, "src/cuda/kernels.h", "    X(rows, argmax, 128) ",
         "\\\n    X(rows, argmin, 128) ", true)
      insert(copy, "src/cuda/args.h", "} ft_argmax_args;\n",
         "typedef ft_argmax_args ft_argmin_args;\n", true)
      insert(copy, "kernels/rows.cu", "FT_KERNEL(argmax)",
         turned("kernels/rows.cu", "FT_KERNEL(argmax)", "(int32_t)at;\n}\n"))
      insert(copy, "src/launch/matrix_rows.c", "static ft_status argmax_launch(",
         turned("src/launch/matrix_rows.c", "static ft_status argmax_launch(", "&args, err);\n}\n"))
      insert(copy, "src/launch/matrix_rows.c", '    {"argmax", argmax_launch, NULL},\n',
         '    {"argmin", argmin_launch, NULL},\n')
   end

   it("an operator: a function of every number, in under 25 lines; one in its own file", function()
      if core.sanitized then return pending("what it builds has no sanitizer") end
      add_argmin()
      local lines = insert(copy, "src/ops/maps.h", "    X(tanh, TANH,", [[
    X(softplus, SOFTPLUS, softplus, 25, from_x, softplus_grad, "y = log(1 + e^x)")                 \
]])
      lines = lines + insert(copy, "src/ops/maps.h", "    X(tanh_grad,", [[
    X(softplus_grad, SOFTPLUS_GRAD, softplus_grad, 25, "dx = dy / (1 + e^-x); (dy, x)")            \
]])
      lines = lines + insert(copy, "src/ops/op_unary.c", "static double negative(", [[
static double softplus(double x) { return fmax(x, 0.0) + log1p(exp(-fabs(x))); }
static double softplus_grad(double dy, double x) { return dy / (1.0 + exp(-x)); }
]])
      lines = lines + insert(copy, "src/ops/simd/math.c", "static inline vf add(", [[
static inline vf vf_softplus(vf x)
{
    vf rest = vf_exp(vf_select(x > 0.0f, -x, x));
    return vf_select(x > 0.0f, x, vf_set(0.0f)) + vf_log(1.0f + rest);
}
static inline vf vf_softplus_grad(vf dy, vf x) { return dy / (1.0f + vf_exp(-x)); }

]])
      lines = lines + insert(copy, "kernels/elements.cu", "    case FT_CUDA_ONE:", [[
    case FT_CUDA_SOFTPLUS: return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
    case FT_CUDA_SOFTPLUS_GRAD: return x / (1.0f + expf(-y));
]])
      assert.is_true(lines < 25, lines)
      compile_for_cards(copy, "elements", "rows")
      build(copy, "ftpipe test_ops test_cuda_rows")
      local walked, err, code = process.shell(("cd %s && build/release/test_ops && "
         .. "build/release/test_cuda_rows argmin softplus softplus_grad"):format(copy))
      assert.equal(0, code, walked .. err)
      local out = evaluate(copy, [[
         local ft = require("ftpipe")
         local x = ft.tensor.from_table({ -2, 0, 3 })
         local y = ft.tensor.ops.softplus(x)
         for i = 1, 3 do
            print(math.abs(y:get(i) - math.log(1 + math.exp(x:get(i)))) < 1e-6)
         end]])
      assert.equal("true\ntrue\ntrue\n", out)
      assert.equal("tensor i32 ()\n1\n", evaluate(copy, [[
         local tensor = require("ftpipe").tensor
         print(tensor.ops.argmin(tensor.from_table({ 3, 1, 2 }))) ]]))
   end)

   it("a schedule: one rule and its line in the list", function()
      if core.sanitized then return pending("what it builds has no sanitizer") end
      insert(copy, "src/schedule/rules.c", "const ft_schedule ft_schedule_evaluate", [[
/* As 1f1b, with one micro-batch more in flight. */
static ft_action_kind roomy_next(const ft_rule_state *s)
{
    return choose(batch_is_open(s) && s->forwards - s->backwards <= s->depth + 1);
}

static const ft_schedule roomy = {
    .name = "roomy",
    .doc = "1f1b with one micro-batch more in flight in each stage",
    .synchronous = true,
    .next = roomy_next,
};

]])
      insert(copy, "src/schedule/rules.c", "&interleaved,", " &roomy,", false)
      build(copy, "ftpipe")
      local out, err, code = process.shell(("cd %s && build/release/ftpipe recipes/t5_rte.lua "
         .. "--steps 4 --schedule roomy --profile modelled"):format(copy))
      assert.equal(0, code, err)
      assert.matches("plan: roomy, 2 stages", out)
      assert.matches("roomy", (process.shell(("cd %s && build/release/ftpipe plan --help"):format(
         copy))))
   end)

   it("a task, and a kind of model: a file each, with a family and its line", function()
      if core.sanitized then return pending("what it builds has no sanitizer") end
      for from, to in pairs {
         mood = "task/mood", label = "data/kind/label", bag = "model/bag",
      } do
         core.sys.write_file(("%s/lua/ftpipe/%s.lua"):format(copy, to),
            core.sys.read_file(("spec/support/adding/%s.lua"):format(from)))
      end
      insert(copy, "lua/ftpipe/model/families.lua", '   bert = "ftpipe.model.bert",\n',
         '   bag = "ftpipe.model.bag",\n')
      build(copy, "ftpipe")
      local model = copy .. "/bag"
      files.tiny_model(model) -- its tokenizer
      os.remove(model .. "/model.safetensors")
      core.sys.write_file(model .. "/config.json",
         '{ "model_type": "bag", "vocab_size": 352, "width": 8, "labels": 2 }')
      core.sys.write_file(copy .. "/mood.lua", [[
local ft = require("ftpipe")
local args = ft.args { "Learn moods.", preset = "fine_tune", steps = { default = 60 },
   lr = { default = 0.05 }, devices = { default = "cpu:2" } }
ft.fine_tune { args = args, task = ft.task.mood {} }
]])
      local out, err, code = process.shell(("cd %s && build/release/ftpipe mood.lua --model bag "
         .. "--init random --data embedded --profile modelled --out out"):format(copy))
      assert.equal(0, code, err)
      assert.matches("plan: 1f1b, 2 stages on 2 devices", out)
      assert.matches("after: accuracy 100.0 %% on 6 held%-out examples", out)
      out, err, code = process.shell(("cd %s && build/release/ftpipe predict out "
         .. "--text 'Greta has a ball'"):format(copy))
      assert.equal(0, code, err)
      assert.same({ index = 1, answer = "sad" }, core.json.decode(out))
      out, err, code = process.shell(("cd %s && build/release/ftpipe plan bag --devices "
         .. "sim:2x1GB --batch 8 --micro-batches 2"):format(copy))
      assert.equal(0, code, err)
      assert.matches("bag, 8 x 128 source tokens: partition mixed", out)
   end)

   it("options: a row each, and the code that reads them, of training and of planning", function()
      insert(copy, "lua/ftpipe/plan/options.lua", '   { "recompute", of =', [[
   { "stop_below", of = "recipe", rare = true, type = "number", min = 0, value = "LOSS",
      help = "training ends when the mean loss is less" },
   { "label", of = "recipe plan", rare = true, type = "string", help = "what a plan is called" },
]])
      insert(copy, "lua/ftpipe/run/training.lua",
         "   if (compares or due(run.args.eval_every)) and run.judged ~= run.done then "
            .. "run:judge() end\n", [[
   local enough = run.args.stop_below
   if enough and run.loss_mean < enough then run.stopped = true end
]], true)
      insert(copy, "lua/ftpipe/plan/init.lua",
         "   plan.devices_name = clusters.name_of(o.devices)\n", "   plan.label = o.label\n", true)
      local lua = ("cd %s && FTPIPE_LUA=lua '%s' "):format(copy, core.sys.executable())
      local function run(arguments)
         return process.shell(lua .. arguments)
      end
      local recipe = "recipes/t5_rte.lua --profile modelled "
      assert.matches("%-%-stop%-below LOSS +training ends when the mean loss is less",
         (run(recipe .. "--help all")))
      local _, err, code = run(recipe .. "--stop-below -1")
      assert.equal(2, code)
      assert.matches("%-%-stop%-below: expected at least 0, got %-1", err)
      _, err, code = run(recipe .. "--steps 6 --save-every 2 --stop-below 1000 --out enough")
      assert.equal(0, code, err)
      local summary = core.json.decode(core.sys.read_file(copy .. "/enough/summary.json"))
      assert.same({ 2, true }, { summary.steps, summary.stopped_early })
      core.sys.write_file(copy .. "/label.lua", [[
local ft = require("ftpipe")
local args = ft.args { "Plan.", preset = "t5", label = { default = "mine" },
   steps = { default = 2 }, profile = { default = "modelled" } }
local model = ft.model(args)
local data = ft.task.load("examples/tasks/colour.lua") {}:open(model, args)
print(ft.plan { model = model, data = data, args = args }.label)
]])
      local out
      out, err, code = run("label.lua")
      assert.equal(0, code, err)
      assert.equal("mine\n", out)
      _, err, code = run("tools/reference.lua")
      assert.equal(0, code, err)
      assert.matches("label %(string%): what a plan is called",
         core.sys.read_file(copy .. "/doc/lua.md"))
      for _, spec in ipairs { "args", "opts" } do
         out, err, code = run(("tools/spec.lua spec/%s_spec.lua"):format(spec))
         assert.equal(0, code, out .. err)
      end
   end)
end)

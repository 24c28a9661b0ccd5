--- The first hundred steps of every recipe on real rows: its losses, and what it scores before and
-- after.
--
--    ftpipe bench/real_rows.lua --data DIR --models DIR [--recipes t5_rte,...] [--flags TEXT]
--
-- DIR of --data has superglue/TASK, squad and wikitext2 with the published files; of BoolQ's
-- training rows many copies lack the passages, so its validation rows are trained on and 32 others
-- evaluated. DIR of --models has t5_rte_real, gpt2_wikitext_real (real vocabularies, small random
-- weights) and minilm_squad (real pre-trained weights). Small batches and short texts: a hundred
-- steps show that rows are read, losses fall and figures are finite, not what a model can reach.
-- Losses follow from the flags and the data; times are not printed.

local ft = require("ftpipe")
local core = require("ftpipe.core")

local T5 = "--model {models}/t5_rte_real --batch 8 --micro-batches 4 --max-source 128 "
local GLUE = T5 .. "--data {data}/superglue/"

local RUNS = {
   { "t5_wic", GLUE .. "WiC" },
   { "t5_rte", GLUE .. "RTE" },
   { "t5_boolq", T5 .. "--train-file {data}/superglue/BoolQ/val.jsonl "
      .. "--eval-file {data}/superglue/FewGLUE_32dev/BoolQ/dev32.jsonl" },
   { "t5_multirc", GLUE .. "MultiRC" },
   { "gpt2_wikitext2", "--model {models}/gpt2_wikitext_real --batch 4 --block 64 --lr 2e-3 "
      .. "--train-file {data}/wikitext2/wiki.valid.tokens "
      .. "--eval-file {data}/wikitext2/wiki.test.tokens" },
   { "bert_squad", "--model {models}/minilm_squad --batch 8 --micro-batches 2 --max-source 128 "
      .. "--lr 1e-4 --train-file {data}/squad/train-v1.1-subset.json "
      .. "--eval-file {data}/squad/dev-v1.1-reconstructed.json" },
}

local args = ft.args {
   "The first hundred steps of every recipe on real rows.",
   data = { type = "string", required = true, value = "DIR", help = "published files" },
   models = { type = "string", required = true, value = "DIR", help = "checkpoints" },
   recipes = { type = "string", value = "NAMES", help = "which; all of them without" },
   flags = { type = "string", value = "TEXT", default = "", help = "more flags of every run" },
   steps = { type = "int", min = 10, default = 100, help = "of every run" },
}

--- Rows of a metrics.jsonl.
local function rows_of(directory)
   local rows = {}
   for line in core.sys.read_file(directory .. "/metrics.jsonl"):gmatch("[^\n]+") do
      rows[#rows + 1] = core.json.decode(line)
   end
   return rows
end

--- Runs a recipe, and gives what it printed and the rows of its metrics.
local function run(recipe, flags)
   local directory = os.tmpname()
   os.remove(directory)
   local shown = flags:gsub("{(%w+)}", args)
   local pipe = assert(io.popen(("'%s' recipes/%s.lua %s --out %s 2>&1"):format(
      core.sys.executable(), recipe, shown, directory)))
   local said = pipe:read("*a")
   pipe:close()
   if not core.sys.exists(directory .. "/summary.json") then
      error(("%s ended without a result:\n%s"):format(recipe, said), 0)
   end
   local rows = rows_of(directory)
   os.execute(("rm -rf '%s'"):format(directory))
   return said, rows
end

--- The line that begins so.
local function line_of(said, word) return said:match("\n(" .. word .. ": [^\n]*)") end

local function print_run(recipe, flags)
   local said, rows = run(recipe, flags)
   print(("recipes/%s.lua %s"):format(recipe, flags))
   print("  " .. said:match("^[^\n]*"):gsub(args.models .. "/", ""):gsub(args.data .. "/", ""))
   print("  " .. line_of(said, "rate"))
   print("  " .. line_of(said, "before"))
   for _, row in ipairs(rows) do
      if row.loss and (row.step == 1 or row.step % 10 == 0) then
         print(("  step %3d  loss %8.4f  mean %8.4f  rate %.3e  tokens %5d"):format(row.step,
            row.loss, row.loss_mean, row.lr, row.tokens))
      end
   end
   print("  " .. line_of(said, "after") .. "\n")
end

io.stdout:setvbuf("line")
for _, one in ipairs(RUNS) do
   if not args.recipes or ("," .. args.recipes .. ","):find("," .. one[1] .. ",", 1, true) then
      print_run(one[1], ("%s --devices cpu:2 --profile modelled --eval-limit 64 --seed 1 "
         .. "--steps %d %s"):format(one[2], args.steps, args.flags))
   end
end

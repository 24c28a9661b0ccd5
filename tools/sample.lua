--- Writes what the sample generator makes, for the tokenizer's training or for a look.
--
--    luajit tools/sample.lua lines 20000         lines of text for the tokenizer's training
--    luajit tools/sample.lua problems 20         pre-training problems, source and target by a tab
--    luajit tools/sample.lua rte DIR             DIR/train.jsonl and DIR/val.jsonl
--
-- A last argument, if given, is the seed. Run it from the source tree's root, or by its path.

local here = arg[0]:match("^(.*)[/\\]") or "."
package.path = here .. "/../lua/?.lua;" .. package.path

local corpus = require("ftpipe.sample.corpus")
local rte = require("ftpipe.sample.rte")

local USAGE = "usage: sample.lua lines COUNT | problems COUNT | rte DIR  [SEED]\n"

local function fail(message)
   io.stderr:write(message)
   os.exit(2)
end

local function write_sequence(next_item, count)
   for _ = 1, count do
      local source, target = next_item()
      io.write(source, target and "\t" .. target or "", "\n")
   end
end

local function write_examples(path, examples)
   local file, problem = io.open(path, "w")
   if not file then fail(("sample: cannot write %s\n"):format(problem)) end
   for _, example in ipairs(examples) do file:write(rte.to_json(example), "\n") end
   file:close()
end

local function write_rte(directory, seed)
   local train, held_out = rte.examples { seed = seed }
   write_examples(directory .. "/train.jsonl", train)
   write_examples(directory .. "/val.jsonl", held_out)
end

local what, amount, seed = arg[1], arg[2], tonumber(arg[3] or "1")
local count = tonumber(amount)
if what == "rte" and amount and seed then
   write_rte(amount, seed)
elseif what == "lines" and count and seed then
   write_sequence(corpus.lines(seed), count)
elseif what == "problems" and count and seed then
   write_sequence(corpus.problems(seed), count)
else
   fail(USAGE)
end

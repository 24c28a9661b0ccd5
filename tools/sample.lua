--- Writes what the sample generator makes, for the tokenizer's training or for a look.
--
--    luajit tools/sample.lua lines 20000         lines of text for the tokenizer's training
--    luajit tools/sample.lua problems 20         pre-training problems, source and target by a tab
--    build/release/ftpipe tools/sample.lua wic DIR
--                                                DIR/train.jsonl and DIR/val.jsonl of a task
--
-- A last argument, if given, is the seed. Run it from the source tree's root, or by its path.

local here = arg[0]:match("^(.*)[/\\]") or "."
package.path = here .. "/../lua/?.lua;" .. package.path

local corpus = require("ftpipe.sample.corpus")

local TASKS = { rte = true, wic = true, boolq = true, multirc = true }

local USAGE = "usage: sample.lua lines COUNT | problems COUNT | rte|wic|boolq|multirc DIR  [SEED]\n"

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

local function write_rows(path, rows)
   local core = require("ftpipe.core") -- only tasks need more than plain Lua
   local lines = {}
   for i, row in ipairs(rows) do lines[i] = core.json.encode(row) .. "\n" end
   core.sys.write_file(path, table.concat(lines))
end

local function write_task(name, directory, seed)
   local train, held_out = require("ftpipe.sample." .. name).examples { seed = seed }
   write_rows(directory .. "/train.jsonl", train)
   write_rows(directory .. "/val.jsonl", held_out)
end

local what, amount, seed = arg[1], arg[2], tonumber(arg[3] or "1")
local count = tonumber(amount)
if TASKS[what] and amount and seed then
   write_task(what, amount, seed)
elseif what == "lines" and count and seed then
   write_sequence(corpus.lines(seed), count)
elseif what == "problems" and count and seed then
   write_sequence(corpus.problems(seed), count)
else
   fail(USAGE)
end

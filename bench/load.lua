--- Loading the data of a task: rows to tokenised examples, without the cache.
--
--    build/release/ftpipe bench/load.lua [ROWS]
--
-- Processor time, of all threads, for a task of texts (RTE-like rows), a long text in
-- blocks, and questions with contexts; each the best of five. Two programs are compared by giving
-- both the same rows, in turn.

local core = require("ftpipe.core")
local ft = require("ftpipe")

local ROWS = tonumber(arg[1]) or 20000

--- Words of a small vocabulary, in an order that repeats late.
local function words(seed, n)
   local list, known = {}, { "the", "stage", "holds", "weights", "while", "another", "computes",
      "gradients", "and", "sends", "them", "back", "Ben", "has", "seven", "kites" }
   for i = 1, n do list[i] = known[(seed * 7 + i * i * 5 + i * seed) % #known + 1] end
   return table.concat(list, " ")
end

local function write(path, each)
   local lines = {}
   for i = 1, ROWS do lines[i] = core.json.encode(each(i)) end
   core.sys.write_file(path, table.concat(lines, "\n") .. "\n")
end

local function best_of(what, load)
   local best = math.huge
   for _ = 1, 5 do
      collectgarbage()
      local start = os.clock()
      load()
      best = math.min(best, os.clock() - start)
   end
   print(("%-28s %.3f s of processor time"):format(what, best))
end

local directory = os.tmpname()
os.remove(directory)
core.sys.mkdir(directory)

write(directory .. "/rows.jsonl", function(i)
   return { idx = i, premise = words(i, 60), hypothesis = words(i + 1, 12),
      label = i % 2 == 0 and "entailment" or "not_entailment" }
end)
local text = {}
for i = 1, ROWS do text[i] = words(i, 40) end
core.sys.write_file(directory .. "/text.tokens", table.concat(text, "\n") .. "\n")
local paragraphs = {}
for i = 1, ROWS / 20 do
   local context = words(i, 300)
   paragraphs[i] = { context = context, qas = {} }
   for q = 1, 5 do
      paragraphs[i].qas[q] = { id = ("%d-%d"):format(i, q), question = words(q, 10),
         answers = { { text = context:sub(1, 9):match("^%S+"), answer_start = 0 } } }
   end
end
core.sys.write_file(directory .. "/squad.json", core.json.encode { version = "1.1",
   data = { { title = "t", paragraphs = paragraphs } } })

local function load(task, model, file)
   local path = directory .. "/" .. file
   return function()
      task:load { train_file = path, eval_file = path, eval_only = true,
         tokenizer = ft.model("embedded:" .. model):tokenizer() }
   end
end

best_of("texts and answers", load(ft.task.rte { max_source = 128 }, "t5_tiny", "rows.jsonl"))
best_of("a long text in blocks", load(ft.task.wikitext2 { block = 128 }, "gpt2_tiny",
   "text.tokens"))
best_of("questions with contexts", load(ft.task.squad {}, "bert_tiny", "squad.json"))

for _, name in ipairs(core.sys.list_dir(directory)) do os.remove(directory .. "/" .. name) end
os.remove(directory)

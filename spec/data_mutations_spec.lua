--- Data files with something changed in them: each loads, or is refused in one line that names it.

local cases = require("spec.support.cases")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local random = require("ftpipe.base.random")
local short_pieces = require("spec.support.short_pieces")
local task = require("ftpipe.task")
local task_files = require("spec.support.task_files")

local CHANGES = cases.count(1500) -- of each file

local VALUES = {
   "null", "true", "false", "0", "-1", "2", "1e300", "0.5", '""', '"x"', '"\\u0000"', "[]", "{}",
   "[[]]", '[{}]', '{"a": 1}', "[null]", '[{"text": 3}]',
}
local BYTES = {
   "\0", "\n", "\t", '"', "{", "}", "[", "]", ",", ":", "\\", "\255", "\195", " ", "9",
}

--- Ways to change a text: each gives another one.
local changes = {
   function(rng, text) -- a byte
      local at = rng:integer(#text)
      return text:sub(1, at - 1) .. rng:pick(BYTES) .. text:sub(at + 1)
   end,
   function(rng, text) -- a stretch left out
      local at = rng:integer(#text)
      return text:sub(1, at - 1) .. text:sub(at + rng:integer(12))
   end,
   function(rng, text) -- a stretch twice
      local at = rng:integer(#text)
      local stop = at + rng:integer(30)
      return text:sub(1, stop) .. text:sub(at)
   end,
   function(rng, text) -- a JSON value
      local pattern = rng:pick { '"[^"\\]*"', "%d+", "%b[]", "%b{}", "true", "false" }
      local places = {}
      for at, stop in text:gmatch("()" .. pattern .. "()") do
         places[#places + 1] = { at, stop }
      end
      if #places == 0 then return text .. rng:pick(VALUES) end
      local place = rng:pick(places)
      return text:sub(1, place[1] - 1) .. rng:pick(VALUES) .. text:sub(place[2])
   end,
}

local function jsonl(name)
   local rows, lines = require("ftpipe.sample." .. name).examples { train = 4, held_out = 4 }, {}
   for i, row in ipairs(rows) do lines[i] = core.json.encode(row) .. "\n" end
   return table.concat(lines)
end

local SQUAD = core.json.encode {
   version = "1.1",
   data = { { title = "t", paragraphs = { {
      context = "In 911 Rollo of Norway was given land by Charles.",
      qas = { { id = "a", question = "Who was given land?",
         answers = { { text = "Rollo", answer_start = 7 } } } },
   } } } },
}

local FILES = {
   { task = "rte", name = "val.jsonl", text = jsonl("rte") },
   { task = "rte", name = "dev.tsv",
      text = "index\tsentence1\tsentence2\tlabel\n0\tp\th\tentailment\n1\tq\tg\tnot_entailment\n" },
   { task = "wic", name = "val.jsonl", text = jsonl("wic") },
   { task = "boolq", name = "val.jsonl", text = jsonl("boolq") },
   { task = "multirc", name = "val.jsonl", text = jsonl("multirc") },
   { task = "squad", name = "dev-v1.1.json", text = SQUAD, tokenizer = short_pieces.new() },
   { task = "wikitext2", name = "wiki.test.raw", text = (" Ben sang . \n"):rep(40), block = 4 },
}

--- What is wrong with how a file was refused; nil when nothing is.
local function fault_of(problem, path)
   if type(problem) ~= "table" then return "not an error of its own: " .. tostring(problem) end
   if problem.status ~= "malformed data" then return problem.status .. ": " .. problem.message end
   if problem.message:find("\n") then return "several lines: " .. problem.message end
   if problem.message:sub(1, #path) ~= path then return "another place: " .. problem.message end
end

for _, file in ipairs(FILES) do
   describe(("a changed %s of %s"):format(file.name, file.task), function()
      it("loads or is refused", function()
         local rng, loaded = random.new(1, 7), 0
         files.in_directory(function(dir)
            local path = dir .. "/" .. file.name
            local made = task[file.task] { block = file.block }
            local tokenizer = file.tokenizer or task_files.tokenizer()
            for _ = 1, CHANGES do
               local text = file.text
               for _ = 1, rng:integer(2) do text = rng:pick(changes)(rng, text .. "\n") end
               core.sys.write_file(path, text)
               local ok, problem = pcall(function()
                  local split = made:load { eval_file = path, eval_only = true,
                     tokenizer = tokenizer }.eval
                  local _ = split.examples[1].source
               end)
               local fault = not ok and fault_of(problem, path)
               assert(not fault, ("%s\n%s"):format(tostring(fault), text))
               loaded = loaded + (ok and 1 or 0)
            end
         end)
         assert.is_true(loaded > 0 and loaded < CHANGES, "loaded " .. loaded)
      end)
   end)
end

local core = require("ftpipe.core")
local files = require("spec.support.files")
local records = require("ftpipe.text.records")

local function read(name, text)
   local rows
   files.in_directory(function(dir)
      core.sys.write_file(dir .. "/" .. name, text)
      rows = records.read(dir .. "/" .. name)
   end)
   return rows
end

-- What reading a text fails with, without the directory in front.
local function fault(name, text)
   local problem = files.failure(read, name, text)
   assert.equal("malformed data", problem.status)
   return (problem.message:gsub("^.*/", ""))
end

describe("a jsonl file", function()
   it("gives one row a line, with its number", function()
      local rows = read("x.jsonl",
         '{"premise": "a\\u00e9", "idx": 0}\n\n{"idx": 7, "ok": true}\r\n')
      assert.equal(2, #rows)
      assert.equal("aé", rows[1].premise)
      assert.equal(0, rows[1].idx)
      assert.same({ 1, 3 }, { records.line(rows[1]), records.line(rows[2]) })
      assert.equal(rows.path .. ":3", records.where(rows, rows[2]))
      assert.is_true(rows[2].ok)
   end)

   it("keeps a field that is called line", function()
      local rows = read("x.jsonl", '{"idx": 1}\n{"line": "The cat sat.", "idx": 2}\n')
      assert.equal("The cat sat.", records.string(rows, rows[2], "line"))
      assert.same({ "idx", "line" }, records.names(rows[2]))
      assert.equal(2, records.line(rows[2]))
      rows = read("x.tsv", "line\tlabel\nThe cat sat.\tyes\n")
      assert.equal("The cat sat.", rows[1].line)
   end)

   it("may start with a byte order mark and end without a line end", function()
      local rows = read("x.jsonl", '\239\187\191{"idx": 1}\n{"idx": 2}')
      assert.equal(1, rows[1].idx)
      assert.equal(2, rows[2].idx)
   end)

   it("tells file, line and column of what is not JSON", function()
      assert.matches("^x.jsonl:2:10: ", fault("x.jsonl", '{"a": 1}\n{"a": 1, }\n'))
      assert.matches("^x.jsonl:3:%d+: ", fault("x.jsonl", '{}\n{}\n{"a": 1, "a": 2}'))
      assert.matches("^x.jsonl:1:%d+: ", fault("x.jsonl", '{"a": 1'))
   end)

   it("refuses lines that are no object", function()
      assert.equal("x.jsonl:2:1: expected a JSON object a line", fault("x.jsonl", "{}\n[1]"))
      assert.equal("x.json:1:1: expected a JSON object a line", fault("x.json", "[]"))
      local indented = "x.json:1:%d: expected a JSON object a line, this one goes on in the "
         .. "next line"
      assert.equal(indented:format(1), fault("x.json", '[\n  {"a": 1},\n  {"a": 2}\n]\n'))
      assert.equal(indented:format(1), fault("x.json", '[{\n  "a": 1\n}]\n'))
      assert.equal(indented:format(2), fault("x.json", ' {\r\n"a": 1}\n'))
   end)

   it("refuses bytes that are not UTF-8, with their place", function()
      assert.equal("x.jsonl:2:8: byte 0xff is not UTF-8", fault("x.jsonl", '{}\n{"a": "\255"}'))
      assert.matches("^x.jsonl:1:8: byte 0xed", fault("x.jsonl", '{"a": "\237\160\128"}'))
   end)

   it("refuses integers that a number cannot hold, with the line", function()
      assert.matches("^x.jsonl:2: integer", fault("x.jsonl", '{}\n{"a": 9007199254740993}'))
   end)

   it("is not empty", function()
      assert.matches("^x.jsonl: holds no rows", fault("x.jsonl", ""))
      assert.matches("^x.jsonl: holds no rows", fault("x.jsonl", "\n  \n"))
   end)
end)

describe("a tsv file", function()
   it("gives rows by the names of its columns", function()
      local rows = read("x.tsv", 'index\tsentence1\tlabel\n5\ta "b\tyes\r\n6\t\tno\n')
      assert.equal(2, #rows)
      assert.same(records.numbered({ index = "5", sentence1 = 'a "b', label = "yes" }, 2), rows[1])
      assert.equal("", rows[2].sentence1)
   end)

   it("may start with a byte order mark", function()
      assert.equal("1", read("x.tsv", "\239\187\191a\tb\n1\t2\n")[1].a)
   end)

   it("tells the line of a row with other columns than the header line", function()
      assert.equal("x.tsv:3: 1 column, the header line names 2 (a, b)",
         fault("x.tsv", "a\tb\n1\t2\n3\n"))
   end)

   it("refuses a header line that names a column twice", function()
      assert.matches("^x.tsv:1: .*'a' twice", fault("x.tsv", "a\tb\ta\n1\t2\t3\n"))
   end)

   it("refuses bytes that are not UTF-8, with their place", function()
      assert.equal("x.tsv:2:3: byte 0xe9 is not UTF-8", fault("x.tsv", "a\tb\n1\t\233\n"))
   end)

   it("is not empty, nor a header line alone", function()
      assert.matches("^x.tsv: holds no rows", fault("x.tsv", ""))
      assert.matches("^x.tsv: holds no rows", fault("x.tsv", "a\tb\n"))
   end)
end)

describe("a field", function()
   local rows = { path = "RTE/val.jsonl" }

   it("that is missing is an error that lists the fields", function()
      local row = records.numbered({ hypothesis = "h", idx = 3, label = "x" }, 9)
      local problem = files.failure(records.string, rows, row, "premise")
      assert.equal("RTE/val.jsonl:9: field 'premise' is missing (have: hypothesis, idx, label)",
         problem.message)
      assert.equal("h", records.string(rows, row, "hypothesis"))
   end)

   it("that is null is an error that says so", function()
      local row = records.numbered({ premise = core.json.null }, 9)
      assert.equal("RTE/val.jsonl:9: field 'premise' is null, expected a string",
         files.failure(records.string, rows, row, "premise").message)
   end)

   it("of another type is an error", function()
      local row = records.numbered({ premise = 3 }, 1)
      local problem = files.failure(records.string, rows, row, "premise")
      assert.equal("RTE/val.jsonl:1: field 'premise' is a number, expected a string",
         problem.message)
   end)
end)

describe("a file of records", function()
   it("is told by its ending", function()
      local problem = files.failure(records.read, "a/b.csv")
      assert.equal("invalid argument", problem.status)
      assert.matches("%.jsonl or %.tsv", problem.message)
   end)

   it("that is not there is an error with its name", function()
      local problem = files.failure(records.read, "/nowhere/x.jsonl")
      assert.equal("not found", problem.status)
      assert.equal(6, problem.exit)
      assert.matches("^/nowhere/x.jsonl", problem.message)
   end)
end)

local core = require("ftpipe.core")
local files = require("spec.support.files")
local input = require("ftpipe.data.predict.input")
local process = require("spec.support.process")

local ROW = '{"premise": "Ben has a red kite.", "hypothesis": "Ben has a %s."}\n'
local SOURCE = "rte hypothesis: Ben has a %s. premise: Ben has a red kite."

local function predict(arguments, stdin)
   return process.ftpipe({ "predict", unpack(arguments) }, stdin)
end

local function refused(code, pattern, arguments, stdin)
   assert.equal("", process.refused(code, pattern, { "predict", unpack(arguments) }, stdin))
end

describe("ftpipe predict", function()
   local directory, model, run

   setup(function()
      directory = files.directory()
      model, run = directory .. "/model", directory .. "/run"
      files.tiny_model(model)
      core.sys.write_file(directory .. "/rows.jsonl",
         (ROW:format("kite"):gsub("}", ', "label": "entailment"}')))
      local _, err, exit = process.ftpipe { "recipes/t5_rte.lua", "--model", model,
         "--train-file", directory .. "/rows.jsonl", "--eval-file", directory .. "/rows.jsonl",
         "--out", run, "--steps", "2", "--batch", "10" }
      assert.equal(0, exit, err)
   end)

   teardown(function() files.remove(directory) end)

   it("answers one text", function()
      local out, err, exit = predict { model, "--text", SOURCE:format("kite") }
      assert.equal(0, exit, err)
      local row = core.json.decode(out)
      assert.equal(1, row.index)
      assert.equal("string", type(row.answer))
   end)

   it("answers rows as it answers their texts, whatever the batch, the threads and the way in",
      function()
         local things = { "kite", "saw", "red kite", "boat", "lamp" }
         local rows, texts = {}, {}
         for i, thing in ipairs(things) do
            rows[i], texts[i] = ROW:format(thing), SOURCE:format(thing) .. "\n"
         end
         core.sys.write_file(directory .. "/some.jsonl", table.concat(rows))
         core.sys.write_file(directory .. "/some.txt", table.concat(texts))
         local wanted, err, exit = predict { run, "--file", directory .. "/some.jsonl" }
         assert.equal(0, exit, err)
         assert.equal(#things, select(2, wanted:gsub("\n", "")))
         local function same(arguments, stdin)
            local out, problem, code = predict(arguments, stdin)
            assert.equal(0, code, problem)
            assert.equal(wanted, out)
         end
         same { run, "--file", directory .. "/some.jsonl", "--batch", "2" }
         same { run, "--file=" .. directory .. "/some.txt", "--devices", "cpu:2" }
         same({ run, "-" }, table.concat(rows))
         same({ run, "--file", "-" }, table.concat(texts))
         same({ run .. "/hf", "--task", "rte", "--max-target", "8", "-" }, table.concat(rows))
      end)

   it("says the line of each answer, as blank lines have none", function()
      local text = SOURCE:format("kite")
      local out = predict({ run, "--file", "-" }, ("\n%s\n\n  \n%s\n"):format(text, text))
      local lines, said = {}, 0
      for line in out:gmatch("[^\n]+") do
         local row = core.json.decode(line)
         said = said + 1
         lines[row.index] = row.line
      end
      assert.same({ 2, 5 }, lines)
      assert.equal(2, said)
   end)

   it("takes a file that begins with a byte order mark", function()
      local path = directory .. "/marked"
      core.sys.write_file(path, "\239\187\191Ben\nAnn\n")
      local items = input.read { flags = { file = path } }
      assert.same({ "Ben", "Ann" }, { items[1].text, items[2].text })
      core.sys.write_file(path, '\239\187\191{"text": "Ben"}\n')
      assert.equal("Ben", input.read({ flags = { file = path } })[1].row.text)
   end)

   it("takes one row behind blank lines", function()
      local path = directory .. "/blank.jsonl"
      for _, text in ipairs { '\n{"text": "Ben"}\n', ' \t\r\n\r\n{"text": "Ben"}\r\n\r\n',
         '\239\187\191\n {"text": "Ben"}' } do
         core.sys.write_file(path, text)
         local items = input.read { flags = { file = path } }
         assert.equal(1, #items)
         assert.equal("Ben", items[1].row.text)
         assert.equal(text:find("\r") and 3 or 2, items[1].line)
      end
   end)

   it("says how many inputs it does not read to their end", function()
      local long = ("a red kite "):rep(40)
      core.sys.write_file(directory .. "/long.txt", long .. "\nshort\n" .. long .. "\n")
      local function said(...)
         local _, err, exit = predict { model, "--file", directory .. "/long.txt", ... }
         assert.equal(0, exit, err)
         return err
      end
      assert.matches("long%.txt: 2 of 3 inputs cut to 16 ids, %-%-max%-source reads more\n$",
         said("--max-source", "16"))
      assert.equal("", said())
   end)

   it("says what it is asked in one line when it cannot", function()
      refused(2, "needs a run or the directory of a model", {})
      refused(2, "unexpected word 'a b' behind the model, give a text with %-%-text and a file "
         .. "with %-%-file", { model, "a b" })
      refused(2, "needs one of %-%-text and %-%-file", { model })
      refused(2, "needs one of %-%-text and %-%-file", { model, "--text", "a", "--file", "b" })
      refused(2, "%-%-text is empty: give a question",
         { model, "--text", " ", "--context", "Ann." })
      refused(2, "%-%-context goes with %-%-text",
         { model, "--file", "b", "--context", "a" })
      refused(2, "%-%-devices sim:2x11GB: predict runs on cores of this machine",
         { model, "--text", "a", "--devices", "sim:2x11GB" })
      refused(2, "%-%-tokens is not for models like .*/model %(t5%)",
         { model, "--text", "a", "--tokens", "3" })
      refused(2, "unknown flag '%-%-tetx' %(did you mean '%-%-text'%?%)", { model, "--tetx", "a" })
      refused(2, "no task is called 'rtf' %(did you mean 'rte'%?%)",
         { model, "--text", "a", "--task", "rtf" })
      refused(2, "stdin holds rows: %-%-task says what they mean", { model, "-" }, '{"a": 1}\n')
      refused(6, "'/nope': there is no such directory", { "/nope", "--text", "a" })
      refused(6, "is neither a run %(run%.json%) nor a model", { directory, "--text", "a" })
      refused(6, "/nope%.jsonl", { model, "--file", "/nope.jsonl" })
      refused(6, "stdin: holds no text", { model, "-" }, "\n\n")
      refused(6, "stdin:2: byte 0xff is not UTF%-8", { model, "-" }, "a\nb\255\n")
      refused(6, "stdin:1: field 'hypothesis' is missing %(have: premise%)", { run, "-" },
         '{"premise": "x"}\n')
      refused(6, "stdin: is one JSON value over several lines", { run, "-" }, '{\n"data": []\n}\n')
      refused(6, "stdin: is one JSON value over several lines", { run, "-" },
         '\r\n{\r\n"data": []\r\n}\r\n')
      refused(6, "stdin:1:12", { run, "-" }, '{"premise": \n')
   end)

   --- The tiny model whose final norm has this number for its weights.
   local function with_number(value)
      local broken, list = directory .. "/broken", {}
      files.tiny_model(broken)
      local archive = core.io.archive(broken .. "/model.safetensors")
      for i, name in ipairs(archive:names()) do
         local tensor = archive:read(name, core.tensor.zeros(archive:spec(name).dims))
         if name == "decoder.final_layer_norm.weight" then tensor:fill(value) end
         list[i] = { name = name, tensor = tensor }
      end
      core.io.write(broken .. "/model.safetensors", list)
      archive:close()
      return broken
   end

   it("refuses weights that are not finite, by name", function()
      for _, value in ipairs { 0 / 0, 1 / 0 } do
         refused(4, "/broken predicts nothing here: the weights are not finite "
            .. "%(decoder.final_layer_norm.weight holds a NaN or an infinity%)",
            { with_number(value), "--text", "a" })
      end
   end)

   it("answers nothing when finite weights make numbers that are not", function()
      refused(4, "/broken predicts nothing here: '[%l_]+' in %S+ %(forward%) gave "
         .. "%l+, expected finite numbers\n$", { with_number(3e38), "--text", "a" })
   end)

   it("ends without a word when its reader goes away", function()
      local rows = {}
      for i = 1, 200 do rows[i] = SOURCE:format("kite") end
      core.sys.write_file(directory .. "/many.txt", table.concat(rows, "\n"))
      for _, trap in ipairs { "", "trap '' PIPE;" } do
         local out, err = process.shell(("%s '%s' predict '%s' --batch 1 --file '%s' | head -n 1")
            :format(trap, core.sys.executable(), model, directory .. "/many.txt"))
         assert.equal(1, select(2, out:gsub("\n", "")))
         assert.equal("", err)
      end
   end)

   it("is listed by --help, and has its own", function()
      assert.matches("\n  predict ", (process.ftpipe { "--help" }))
      local out, _, exit = predict { "--help" }
      assert.equal(0, exit)
      assert.is_nil(out:find("sim:", 1, true)) -- which it refuses
      assert.is_true(select(2, out:gsub("\n", "")) <= 40)
      local _, err = process.ftpipe { "predicct" }
      assert.matches("no file or command 'predicct' %(did you mean 'predict'%?%)", err)
   end)
end)

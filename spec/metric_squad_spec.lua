local core = require("ftpipe.core")
local files = require("spec.support.files")
local squad = require("ftpipe.data.metric.squad")

local function near(expected, actual)
   assert.is_true(math.abs(expected - actual) < 5e-4, ("%.6f, not %.3f"):format(actual, expected))
end

describe("the normal form of an answer", function()
   local function is(expected, text) assert.equal(expected, core.data.normal_answer(text)) end

   it("is lower case without punctuation, articles and extra blanks", function()
      is("denver broncos", "  The Denver  BRONCOS! ")
      is("24 10", "24, a 10")
      is("", "The a, an")
      is("theatre anna ab", "Theatre Anna A.B.")
   end)

   it("knows Unicode's letters, blanks and boundaries as Python does", function()
      is("éa x", "Éa\194\160\226\128\131 X")
      is("24– 10", "24–a 10")
      is("1 ½a", "a 1 ½a")
      is("οδος οδοσα", "ΟΔΟΣ ΟΔΟΣΑ")
      is("i̇", "İ")
   end)

   it("refuses bytes that are not UTF-8", function()
      local problem = files.failure(core.data.normal_answer, "ab\255")
      assert.equal("malformed data", problem.status)
      assert.equal("answer: byte 0xff at position 3 is not UTF-8", problem.message)
   end)
end)

describe("blanks squeezed", function()
   it("leave one space between words", function()
      assert.equal("a b c", core.data.squeeze("\t a\226\128\168b \31\194\133c\n"))
      assert.equal("", core.data.squeeze(" \n"))
   end)
end)

describe("EM and F1", function()
   it("take the gold answer that fits best", function()
      local em, f1 = squad.score("the Broncos", { "Denver Broncos", "broncos." })
      assert.same({ 1, 1 }, { em, f1 })
      assert.same({ 1, 1 }, { squad.score("the Broncos", { "broncos.", "Denver Broncos" }) })
      em, f1 = squad.score("Broncos of Denver", { "Denver Broncos" })
      assert.equal(0, em)
      near(0.8, f1)
   end)

   it("count words as often as both have them", function()
      local _, f1 = squad.score("x x x y", { "x x z" })
      near(2 * (2 / 4) * (2 / 3) / (2 / 4 + 2 / 3), f1)
      local _, other = squad.score("x x z", { "x x x y" })
      near(f1, other)
   end)

   it("are nothing where no word is common, and a match of two empty texts is exact", function()
      assert.same({ 0, 0 }, { squad.score("x", { "y" }) })
      assert.same({ 1, 0 }, { squad.score("the", { "a" }) })
   end)

   it("are means over all questions, of which those without prediction score nothing", function()
      local sum = squad.sum()
      sum:add("x", { "x" })
      sum:add(nil, { "x" })
      assert.same({ em = 50, f1 = 50 }, sum:result())
   end)

   it("are the official figures of published predictions", function()
      local dir = files.shared("data/squad", pending)
      if not dir then return end
      local published = {
         { "dev-v1.1-reconstructed.json", "bert_ensemble", 72.598, 85.468 },
         { "dev-v1.1-reconstructed.json", "rnet_plus_ensemble", 69.399, 81.969 },
         { "dev-v1.1-reconstructed.json", "logreg_baseline", 33.878, 46.846 },
         { "xquad.en.json", "bert_ensemble", 74.874, 86.325 },
         { "xquad.en.json", "rnet_plus_ensemble", 72.773, 83.408 },
         { "xquad.en.json", "logreg_baseline", 34.538, 45.852 },
      }
      local function read(name) return core.json.decode(core.sys.read_file(dir .. "/" .. name)) end
      for _, row in ipairs(published) do
         local predictions, sum = read("predictions/" .. row[2] .. "_v1.1.json"), squad.sum()
         for _, article in ipairs(read(row[1]).data) do
            for _, paragraph in ipairs(article.paragraphs) do
               for _, question in ipairs(paragraph.qas) do
                  local golds = {}
                  for i, answer in ipairs(question.answers) do golds[i] = answer.text end
                  sum:add(predictions[question.id], golds)
               end
            end
         end
         near(row[3], sum:result().em)
         near(row[4], sum:result().f1)
      end
   end)
end)

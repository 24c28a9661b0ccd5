--- Models by the names that they have in the cache of Hugging Face.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

describe("a model in the cache of Hugging Face", function()
   it("is found by its name: the snapshot of main, else the last", function()
      files.in_directory(function(dir)
         local place = dir .. "/models--org--tiny"
         files.tiny_model(place .. "/snapshots/aa11")
         core.sys.mkdir(place .. "/snapshots/bb22")
         local function opened()
            return process.shell(("HF_HUB_CACHE=%s '%s' -e 'print(require(\"ftpipe\").model("
               .. "\"org/tiny\").name)'"):format(dir, core.sys.executable()))
         end
         assert.equal(place .. "/snapshots/aa11\n", (opened()))
         files.tiny_model(place .. "/snapshots/bb22")
         assert.equal(place .. "/snapshots/bb22\n", (opened()))
         core.sys.mkdir(place .. "/refs")
         core.sys.write_file(place .. "/refs/main", "aa11\n")
         assert.equal(place .. "/snapshots/aa11\n", (opened()))
         local out, err, code = process.shell(("HF_HUB_CACHE=%s '%s' recipes/t5_rte.lua --model "
            .. "org/tiny --data embedded --dry-run --profile modelled"):format(dir,
            core.sys.executable()))
         assert.equal(0, code, err)
         assert.matches("model %S+/aa11 %(t5%)", out)
      end)
   end)

   it("is not looked for outside of it", function()
      files.in_directory(function(dir)
         files.tiny_model(dir .. "/there/snapshots/aa11")
         for _, name in ipairs { "../there", "..", "org/../there", "a/b/c" } do
            local _, err, code = process.shell(("HF_HUB_CACHE=%s/none '%s' recipes/t5_rte.lua "
               .. "--model %s"):format(dir, core.sys.executable(), name))
            assert.is_true(code ~= 0, err)
            assert.not_matches("aa11", err)
         end
      end)
   end)
end)

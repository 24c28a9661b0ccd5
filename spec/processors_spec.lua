--- The processors of several processes, in words.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local processors = require("ftpipe.base.processors")

describe("processors", function()
   local all = core.ranks.all

   after_each(function() core.ranks.all = all end)

   local function met(...)
      local rows = {}
      for i, words in ipairs { ... } do rows[i] = { host = "h", processor = words } end
      core.ranks.all = function() return rows end
   end

   it("are said with their ranks where they differ", function()
      assert.equal("A", processors.words { "A", "A" })
      assert.equal("A at rank 0, B at rank 1", processors.words { "A", "B" })
      assert.equal("A at ranks 0, 2, 3, B at rank 1", processors.words { "A", "B", "A", "A" })
      assert.equal("A at ranks 0 to 2, 4, 6 to 8, B at ranks 3, 5", processors.words {
         "A", "A", "A", "B", "A", "B", "A", "A", "A" })
   end)

   it("of one process are its own", function()
      assert.matches(" %(" .. core.sys.kernels():gsub("%+", "%%+") .. "%)$", processors.all())
      assert.is_nil(processors.differ())
      met("Zen 4 (avx512)", "Zen 4 (avx512)")
      assert.equal("Zen 4 (avx512)", processors.all())
      assert.is_nil(processors.differ())
   end)

   it("differ by kernels, of which all have the least", function()
      met("Zen 4 (avx512)", "Xeon (R) (avx512)")
      assert.equal("Zen 4 (avx512) at rank 0, Xeon (R) (avx512) at rank 1", processors.all())
      assert.is_nil(processors.differ())
      met("Xeon (avx512+amx)", "Zen (avx2)", "Zen 4 (avx512+bf16)")
      assert.same({ "avx512+amx at rank 0, avx2 at rank 1, avx512+bf16 at rank 2", "avx2" },
         { processors.differ() })
      local all_names = table.concat(core.sys.all_kernels(), ", ")
      assert.equal("base, avx2, avx512, avx512+bf16, avx512+amx", all_names)
      local list = files.failure(core.sys.allow_kernels, "none").message
      assert.truthy(list:find(all_names, 1, true))
   end)
end)

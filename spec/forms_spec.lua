local forms = require("ftpipe.model.forms")

local FORM = {
   names = { { "^wte%.", "model.wte." }, { "^h%.", "model.h." }, { "%.gamma$", ".weight" } },
   aliases = { ["model.wte.weight"] = { "lm_head.weight" } },
   ignored = { "^model%.h%.%d+%.mask$", "^pooler%." },
   optional = { "^head%." },
}

describe("forms of a checkpoint", function()
   it("know a parameter by the names of older files", function()
      local names = forms.names(FORM, { "h.0.norm.gamma", "model.h.1.norm.weight", "wte.weight" })
      assert.same({ "h.0.norm.gamma" }, names:candidates("model.h.0.norm.weight"))
      assert.same({ "model.h.1.norm.weight" }, names:candidates("model.h.1.norm.weight"))
      assert.equal("wte.weight", names:own("model.wte.weight"))
      assert.is_nil(names:own("wte.weight"))
      assert.same({}, names:candidates("model.h.2.norm.weight"))
   end)

   it("put the own name before an older one, and both before aliases", function()
      local names = forms.names(FORM, { "lm_head.weight", "model.wte.weight", "wte.weight" })
      assert.same({ "model.wte.weight", "wte.weight", "lm_head.weight" },
         names:candidates("model.wte.weight"))
      assert.equal("model.wte.weight", names:own("model.wte.weight"))
      assert.equal("lm_head.weight", names:own("lm_head.weight"))
   end)

   it("ignore by pattern, after renaming", function()
      local names = forms.names(FORM, {})
      assert.is_true(names:ignored("h.3.mask"))
      assert.is_true(names:ignored("pooler.dense.gamma"))
      assert.is_false(names:ignored("h.3.masks"))
   end)

   it("tell by which pattern a parameter may be absent", function()
      local names = forms.names(FORM, {})
      assert.equal("^head%.", names:optional("head.weight"))
      assert.is_nil(names:optional("model.head.weight"))
   end)

   it("may lack every list", function()
      local names = forms.names({}, { "a" })
      assert.same({ "a" }, names:candidates("a"))
      assert.is_false(names:ignored("a"))
      assert.is_nil(names:optional("a"))
   end)
end)

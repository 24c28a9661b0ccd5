--- Completion of shells, in bash itself.

local process = require("spec.support.process")
local core = require("ftpipe.core")
local files = require("spec.support.files")

describe("ftpipe completion", function()
   --- What bash completes the last of these words to.
   local function complete(words)
      local directory = files.directory()
      core.sys.write_file(directory .. "/c.sh", ([[
         ftpipe() { '%s' "$@"; }
         eval "$(ftpipe completion bash)"
         COMP_WORDS=(ftpipe %s) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
         _ftpipe
         printf '%%s\n' "${COMPREPLY[@]}"]]):format(core.sys.executable(), words))
      local out, err = process.shell("bash " .. directory .. "/c.sh")
      files.remove(directory)
      assert.equal("", err)
      return out
   end

   it("knows commands, their flags, those of recipes, and files", function()
      assert.equal("sweep\nsweeps\n", complete("swe"))
      assert.matches("\n%-%-max%-source\n", "\n" .. complete("plan --ma"))
      assert.equal("--micro-batches\n", complete("recipes/t5_rte.lua --micro"))
      assert.equal("recipes/t5_rte.lua\n", complete("recipes/t5_r"))
      assert.equal("--resume\n", complete("sweep --res"))
   end)

   it("has a text for each shell, and refuses others", function()
      for _, shell in ipairs { "bash", "zsh", "fish" } do
         local out, _, code = process.ftpipe { "completion", shell }
         assert.equal(0, code)
         assert.is_nil(out:find("@%l+@"))
         assert.matches("doctor", out)
      end
      process.refused(2, "one of bash, zsh, fish", { "completion", "tcsh" })
      assert.matches("^usage: ftpipe completion", (process.ftpipe { "completion", "--help" }))
   end)
end)

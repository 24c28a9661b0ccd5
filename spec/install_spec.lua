--- What is installed is complete, and the program runs from there.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

local function has(command)
   return os.execute("command -v " .. command .. " >/dev/null 2>&1") == 0
end

local function list(pattern)
   local pipe, paths = io.popen("find " .. pattern), {}
   for line in pipe:lines() do paths[#paths + 1] = line end
   pipe:close()
   return paths
end

describe("man pages", function()
   it("are there for every command and page, and are no trouble to those who print them", function()
      files.in_directory(function(dir)
         local out, err, code = process.ftpipe { "tools/man.lua", dir }
         assert.same({ "", "", 0 }, { out, err, code })
         local host = require("ftpipe.prompt.host")
         for _, name in ipairs(host.commands()) do
            local text = core.sys.read_file(("%s/man1/ftpipe-%s.1"):format(dir, name))
            assert.matches("\n%.SH DESCRIPTION\n%.PP\n%.nf\nusage: ftpipe " .. name, text)
         end
         assert.matches("\n%.SS \"\\fBplan:why%(node%)\\fR\"\n",
            core.sys.read_file(dir .. "/man3/ftpipe-lua.3"))
         local pages = list(dir .. " -type f")
         assert.is_true(#pages > 25)
         if not has("groff") then return pending("there is no groff") end
         for _, page in ipairs(pages) do
            local _, warnings = process.shell(("groff -ww -z -man -Tutf8 '%s'"):format(page))
            assert.equal("", warnings, page)
         end
         local shown = process.shell(("groff -man -Tascii -P -cbou '%s/man7/ftpipe-recipes.7'")
            :format(dir))
         assert.matches("\n       %-%-out +names +it%.", shown)
      end)
   end)
end)

describe("tools/man.lua", function()
   it("makes no directory of a flag, or of one of two words", function()
      files.in_directory(function(dir)
         for _, word in ipairs { "--help", "one two" } do
            local out, err, code = process.shell(("root=$PWD; cd %s; '%s' $root/tools/man.lua %s")
               :format(dir, core.sys.executable(), word))
            assert.same({ "", "usage: ftpipe tools/man.lua [DIR]\n", 2 }, { out, err, code })
            assert.same({}, core.sys.list_dir(dir))
         end
      end)
   end)
end)

describe("the installed program", function()
   it("has its recipes, pages and completion beside it, and runs from there", function()
      if core.sanitized then return pending("nothing of the program runs in it") end
      if not has("cmake") then return pending("there is no cmake") end
      local build = core.sys.executable():match("^(.*)/[^/]*$")
      files.in_directory(function(dir)
         local _, err, code = process.shell(("cmake --install '%s' --prefix '%s/usr'"):format(build,
            dir))
         assert.equal(0, code, err)
         for _, path in ipairs { "bin/ftpipe", "share/man/man1/ftpipe.1",
            "share/man/man3/ftpipe-lua.3", "share/bash-completion/completions/ftpipe",
            "share/zsh/site-functions/_ftpipe", "share/fish/vendor_completions.d/ftpipe.fish",
            "share/ftpipe/examples/explore.lua", "share/ftpipe/sweeps/t5_rte.lua",
            "share/ftpipe/lua/ftpipe/init.lua", "share/doc/ftpipe/recipes.md" }
         do
            assert.equal("file", core.sys.exists(dir .. "/usr/" .. path), path)
         end
         local out
         out, err, code = process.shell(("cd '%s' && env -u FTPIPE_LUA usr/bin/ftpipe usr/share/"
            .. "ftpipe/recipes/t5_rte.lua --steps 2 --eval-limit 4 --profile modelled")
            :format(dir))
         assert.equal(0, code, err)
         assert.matches("\nafter: accuracy ", out)
         -- from anywhere, what comes with it is found, and named as it is there
         local recipe = dir .. "/usr/share/ftpipe/recipes/t5_rte.lua"
         out = process.shell(("cd '%s' && usr/bin/ftpipe doctor --quick"):format(dir))
         assert.is_not_nil(out:find("\nnext      ftpipe " .. recipe .. " ", 1, true), out)
         _, err, code = process.shell(("cd '%s' && usr/bin/ftpipe recipes/t5_rte.lua"):format(dir))
         assert.same({ 2, ("ftpipe: there is no file 'recipes/t5_rte.lua' here, but ftpipe %s\n")
            :format(recipe) }, { code, err })
      end)
   end)
end)

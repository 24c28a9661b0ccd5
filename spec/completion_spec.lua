--- Completion of shells, in the shells themselves.

local candidates = require("ftpipe.command.completion").candidates
local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")
local pty = require("spec.support.pty")

local function has(command)
   return os.execute("command -v " .. command .. " >/dev/null 2>&1") == 0
end

--- What a shell says of a script, in a directory where this program is `ftpipe`.
local function run(shell, script)
   local directory = files.directory()
   os.execute(("ln -s '%s' '%s/ftpipe'"):format(core.sys.executable(), directory))
   core.sys.write_file(directory .. "/script", script)
   local out, err = process.shell(("PATH='%s':$PATH HOME='%s' %s %s/script"):format(directory,
      directory, shell, directory))
   files.remove(directory)
   assert.equal("", err)
   return out
end

-- What the words so far may go on with, in every shell.
local CASES = {
   { "swe", "sweep", "sweeps" },
   { "plan --ma", "--max-source", "--max-staleness", "--max-target" },
   { "recipes/t5_rte.lua --micro", "--micro-batches" },
   { "run recipes/t5_rte.lua --save", "--save-every" },
   { "run recipes/t5_rte.lua --rest", "--restart" },
   { "recipes/t5_r", "recipes/t5_rte.lua" },
   { "sweep --res", "--resume" },
   { "runs sh", "show" },
   { "sweep pa", "pause" },
   { "plan t5-3", "t5-3b" },
   { "plan --schedule gp", "gpipe" },
   { "plan t5-3b --format grap", "graphml" },
}

describe("ftpipe completion", function()
   it("knows what flags may say, and where files may stand", function()
      local function check(expected, takes_files, ...)
         local list, files_too = candidates { ... }
         local set = {}
         for _, word in ipairs(list) do set[word] = true end
         for _, word in ipairs(expected) do assert.is_true(set[word], word) end
         assert.equal(takes_files, files_too)
         return list
      end
      check({ "help", "plan", "runs" }, true, "")
      check({ "auto" }, true, "recipes/t5_rte.lua", "--out", "")
      check({ "mixed", "seq" }, true, "plan", "t5-3b", "--partition=")
      check({ "1f1b" }, false, "plan", "t5-3b", "--schedule", "=", "1") -- as bash has them
      check({ "--print-config", "--events", "--help" }, false, "x.lua", "--")
      check({ "zsh" }, true, "completion", "")
      assert.same({}, check({}, false, "plan", "t5-3b", "--batch", ""))
      assert.same({}, check({}, true, "report", "out/"))
      local list = check({ "--lr" }, false, "run", "x.lua", "--", "--")
      assert.is_nil(table.concat(list, " "):find("--restart", 1, true))
      list = check({ "--help" }, false, "plan", "--")
      assert.is_nil(table.concat(list, " "):find("--print-config", 1, true))
   end)

   it("is taken by bash", function()
      for _, case in ipairs(CASES) do
         local out = run("bash", ([[
            eval "$(ftpipe completion bash)"
            COMP_WORDS=(ftpipe %s) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            _ftpipe
            printf '%%s\n' "${COMPREPLY[@]}"]]):format(case[1]))
         assert.equal(table.concat(case, "\n", 2) .. "\n", out)
      end
   end)

   it("offers nothing in bash where there is nothing", function()
      assert.equal("\n\n", (run("bash", [[
         eval "$(ftpipe completion bash)"
         for word in fil wor; do
            COMP_WORDS=(ftpipe report $word) COMP_CWORD=2
            _ftpipe
            echo "${COMPREPLY[@]}"
         done]])))
   end)

   it("keeps names of files whole in bash, which may have blanks", function()
      files.in_directory(function(directory)
         core.sys.write_file(directory .. "/first run", "")
         assert.equal(directory .. "/first run\n", (run("bash", ([[
            eval "$(ftpipe completion bash)"
            COMP_WORDS=(ftpipe predict %s/fir) COMP_CWORD=2
            _ftpipe
            printf '%%s\n' "${COMPREPLY[@]}"]]):format(directory))))
      end)
   end)

   it("is taken by fish", function()
      if not has("fish") then return pending("there is no fish") end
      for _, case in ipairs(CASES) do
         local out = run("fish --no-config", ([[
            ftpipe completion fish | source
            complete -C 'ftpipe %s']]):format(case[1]))
         for i = 2, #case do
            assert.is_not_nil(("\n" .. out):find("\n" .. case[i] .. "/?[\t\n]")
               or ("\n" .. out):find("\n" .. case[i] .. "\n", 1, true), case[1] .. ": " .. out)
         end
      end
      assert.matches("^%-%-schedule=gpipe\n$", (run("fish --no-config", [[
         ftpipe completion fish | source
         complete -C 'ftpipe plan --schedule=gp']])))
   end)

   it("is taken by zsh", function()
      if not has("zsh") then return pending("there is no zsh") end
      files.in_directory(function(directory)
         os.execute(("ln -s '%s' '%s/ftpipe'"):format(core.sys.executable(), directory))
         core.sys.mkdir(directory .. "/functions")
         core.sys.write_file(directory .. "/functions/_ftpipe",
            (process.ftpipe { "completion", "zsh" }))
         local path = directory .. ":" .. os.getenv("PATH")
         -- as it is installed, and as a line of .zshrc
         for _, setup in ipairs { ("fpath=(%s/functions $fpath); autoload -Uz compinit; "
            .. "compinit -u -D"):format(directory), "autoload -Uz compinit; compinit -u -D; "
            .. 'eval "$(ftpipe completion zsh)"' }
         do
            local t = pty.open("-f -i", { PATH = path, HOME = directory, PS1 = "z> " }, "zsh")
            t:wait("z> ")
            t:type("unsetopt beep list_beep; " .. setup .. "; echo rea''dy\r")
            t:wait("ready\r\n")
            t:wait("z> ")
            for _, row in ipairs { { "runs sh", "runs show" },
               { "plan --schedule=gp", "%-%-schedule=gpipe" },
               { "recipes/t5_r", "recipes/t5_rte%.lua" },
               { "recipes/t5_rte.lua --micro", "%-%-micro%-batches" } }
            do
               t:type("ftpipe " .. row[1] .. "\t")
               t:wait(row[2])
               t:type("\21") -- kills the line
            end
            t:close()
         end
      end)
   end)

   it("has a text for each shell, and refuses others", function()
      for _, shell in ipairs { "bash", "zsh", "fish" } do
         local out, _, code = process.ftpipe { "completion", shell }
         assert.equal(0, code)
         assert.matches("ftpipe completion for ", out)
      end
      process.refused(2, "one of bash, zsh, fish", { "completion", "tcsh" })
      assert.matches("^usage: ftpipe completion", (process.ftpipe { "completion", "--help" }))
   end)
end)

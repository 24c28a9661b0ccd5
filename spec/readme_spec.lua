--- What README.md, CONTRIBUTING.md and doc/ name has to be there.

local core = require("ftpipe.core")
local process = require("spec.support.process")

local texts = {}
for _, name in ipairs { "README.md", "CONTRIBUTING.md" } do
   texts[name] = core.sys.read_file(name)
end
for _, name in ipairs(core.sys.list_dir("doc")) do
   if name:find("%.md$") then texts["doc/" .. name] = core.sys.read_file("doc/" .. name) end
end

--- Calls visit(file, word) for every match of a pattern.
local function each(pattern, visit)
   local n = 0
   for file, text in pairs(texts) do
      for word in text:gmatch(pattern) do
         visit(file, word)
         n = n + 1
      end
   end
   assert.is_true(n > 0)
end

-- Flags of launchers, which need not be here: mpirun, srun.
local LAUNCHERS = [[--bind-to --map-by --host --hostfile --mca
   --mpi --cpus-per-task --signal --list]]

--- All that --help says of the recipes, the commands and the tools that take flags.
local function help()
   local parts = { LAUNCHERS, process.shell("./dev help"), process.shell("cmake --help"),
      (process.ftpipe { "--help" }), (process.ftpipe { "tools/mutate.lua", "--help" }),
      (process.ftpipe { "bench/staleness.lua", "--help" }) }
   for _, recipe in ipairs(core.sys.list_dir("recipes")) do
      parts[#parts + 1] = process.ftpipe { "recipes/" .. recipe, "--help", "all" }
   end
   for _, command in ipairs(require("ftpipe.prompt.host").commands()) do
      parts[#parts + 1] = process.ftpipe { command, "--help", "all" }
   end
   return table.concat(parts, "\n") .. "\n"
end

describe("README.md, CONTRIBUTING.md and doc/", function()
   it("name files and directories that are there", function()
      local tops = {}
      for _, name in ipairs(core.sys.list_dir(".")) do tops[name] = name ~= "build" end
      each("%f[%w_./]([%l_]+/[%w_./%-]*[%w_/])", function(file, path)
         local is_name = path:find("%u%u") ~= nil -- op_NAME.c
         if tops[path:match("^[^/]+")] and not is_name then
            assert.is_truthy(core.sys.exists(path), ("%s: there is no %s"):format(file, path))
         end
      end)
   end)

   it("show the classes of memory that the first recipe has", function()
      local said, n = process.ftpipe { "recipes/t5_rte.lua", "-n", "--profile", "modelled" }, 0
      local planned = said:match("\n  cpu:0 .- MB: ([^\n]+)"):gsub(" [%d.]+", "")
      for classes in texts["README.md"]:gmatch("\n      cpu:%d .- MB: (.-), %.%.%.") do
         assert.matches("^" .. classes:gsub(" [%d.]+", ""), planned)
         n = n + 1
      end
      assert.equal(2, n)
   end)

   it("say what every letter of an action is", function()
      local n = 0
      for letter in core.sys.read_file("src/plan/plan.h"):gmatch("X%(%u[%u_]*, '(%u)', ") do
         assert.is_truthy(texts["doc/plans.md"]:find("\n| [^|]*`" .. letter .. "`[^|]* | "), letter)
         n = n + 1
      end
      assert.is_true(n > 15)
   end)

   it("give what a plan with numbers of 16 bits is predicted to take", function()
      local command, whole, half = texts["doc/hardware.md"]:match("`ftpipe (plan t5%-3b [^`]+)` "
         .. "predicts ([%d.]+ m?s) a batch, with `%-%-precision bf16` ([%d.]+ m?s)")
      for flags, time in pairs { [""] = whole, [" --precision bf16"] = half } do
         local words = {}
         for word in (command .. flags):gmatch("%S+") do words[#words + 1] = word end
         local out, err = process.ftpipe(words)
         assert.equal(time, out:match("predicted: ([%d.]+ m?s) a batch"), err)
      end
   end)

   it("lead to every page of doc/", function()
      for name in pairs(texts) do
         assert.is_truthy(name == "README.md" or texts["README.md"]:find(name, 1, true), name)
      end
   end)

   it("name flags and commands of ./dev that are there", function()
      local known = help()
      each("%f[%w-](%-%-%l[%l-]+)", function(file, flag)
         assert.is_truthy(known:find(flag:gsub("%-", "%%-") .. "[^%l-]"),
            ("%s: there is no %s"):format(file, flag))
      end)
      each("%./dev (%l+)", function(file, command)
         assert.is_truthy(known:find("%f[%l]" .. command .. "%f[^%l]"),
            ("%s: there is no ./dev %s"):format(file, command))
      end)
   end)

   it("have a line for every recipe and every room", function()
      local readme = texts["README.md"]
      for _, recipe in ipairs(core.sys.list_dir("recipes")) do
         assert.is_truthy(readme:find("\n| `" .. recipe .. "` |", 1, true), recipe)
      end
      local rooms = texts["CONTRIBUTING.md"]:match("| room | what it is |(.-)\n\n")
      for _, room in ipairs(core.sys.list_dir("src")) do
         assert.is_truthy(rooms:find("`" .. room .. "`", 1, true), room)
      end
      for room in rooms:gmatch("`(%l+)`") do
         assert.equal("directory", (core.sys.exists("src/" .. room)), room)
      end
   end)
end)

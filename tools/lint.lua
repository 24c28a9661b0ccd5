--- The rules that do not depend on goodwill. ftpipe tools/lint.lua BUILD_DIR [RULE...]
-- Runs in the root of the sources. A rule is one check; what it finds is printed as
-- "file:line: what".

local core = require("ftpipe.core")

local build = arg[1] or "build/release"

-- Files -------------------------------------------------------------------------------------------

--- Appends the paths below a directory with one of the suffixes; absent directories are empty.
local function collect(directory, suffixes, list)
   if core.sys.exists(directory) ~= "directory" then return list end
   for _, name in ipairs(core.sys.list_dir(directory)) do
      local path = directory .. "/" .. name
      if core.sys.exists(path) == "directory" then
         collect(path, suffixes, list)
      else
         for _, suffix in ipairs(suffixes) do
            if name:sub(-#suffix) == suffix then list[#list + 1] = path end
         end
      end
   end
   return list
end

local function files(directories, ...)
   local list = {}
   for _, directory in ipairs(directories) do collect(directory, { ... }, list) end
   return list
end

local function split_lines(text)
   local lines = {}
   for line in (text .. "\n"):gmatch("(.-)\n") do lines[#lines + 1] = line end
   if lines[#lines] == "" then lines[#lines] = nil end
   return lines
end

local function lines_of(path) return split_lines(core.sys.read_file(path)) end

local function blank(text)
   return (text:gsub("[^\n]", " "))
end

--- The text of a C file with comments, strings and characters blanked out, lines kept.
local function code_of(path)
   local text, out, i = core.sys.read_file(path), {}, 1
   while i <= #text do
      local first, last = text:find('/[*/]', i)
      local quote = text:find("[\"']", i)
      if quote and (not first or quote < first) then
         local mark, finish = text:sub(quote, quote), quote + 1
         while finish <= #text and text:sub(finish, finish) ~= mark do
            finish = finish + (text:sub(finish, finish) == "\\" and 2 or 1)
         end
         out[#out + 1] = text:sub(i, quote) .. blank(text:sub(quote + 1, finish - 1)) .. mark
         i = finish + 1
      elseif first then
         local _, finish
         if text:sub(first, last) == "/*" then
            _, finish = text:find("*/", last + 1, true)
         else
            finish = text:find("\n", last, true)
         end
         finish = finish or #text
         out[#out + 1] = text:sub(i, first - 1) .. blank(text:sub(first, finish))
         i = finish + 1
      else
         out[#out + 1] = text:sub(i)
         break
      end
   end
   return table.concat(out)
end

local function room_of(path)
   return path:match("^src/([^/]+)/")
end

-- Rules: each gets a function that notes a finding -----------------------------------------------

-- The rules by name, and their names in the order in which they stand here. cmake/FtTests.cmake
-- reads the lines that begin them: each is a test.
local ORDER = {}
local rules = setmetatable({}, { __newindex = function(list, name, rule)
   ORDER[#ORDER + 1] = name
   rawset(list, name, rule)
end })

--- What a room may include: itself and, transitively, what it uses (rooms.txt is written by CMake).
local function reachable()
   local uses, all = {}, {}
   for line in io.lines(build .. "/rooms.txt") do
      local name, list = line:match("^(%S+):%s*(.*)$")
      uses[name] = {}
      all[#all + 1] = name
      for used in list:gmatch("%S+") do table.insert(uses[name], used) end
   end
   uses.app = all
   local reach = {}
   local function visit(name, into)
      into[name] = true
      for _, used in ipairs(uses[name] or {}) do visit(used, into) end
   end
   for name in pairs(uses) do
      reach[name] = {}
      visit(name, reach[name])
   end
   return reach
end

--- Headers that only some may see, by where these are: those of libraries, and parts of
-- plans and problems that only who makes them needs.
local HOMES = {
   ["problem/ground.h"] = { "src/problem/", "src/contiguous/", "src/mixed/", "src/partition/" },
   ["plan/making.h"] = { "src/plan/", "src/proof/", "src/planfile/", "src/schedule/",
      "src/residency/" },
   ["state/run.h"] = { "src/state/", "src/edges/", "src/ranks/", "src/actions/", "src/engine/" },
   ["plan/wires.h"] = { "src/plan/", "src/proof/", "src/schedule/", "src/simulate/", "src/slots/" },
   ["lua.h"] = { "src/script/", "src/bind_", "src/core/", "src/app/" },
   ["lauxlib.h"] = { "src/script/", "src/bind_", "src/core/", "src/app/" },
   ["lualib.h"] = { "src/script/", "src/bind_", "src/core/", "src/app/" },
   ["jansson.h"] = { "src/io/", "src/bind_values/" },
   ["histedit.h"] = { "src/app/" },
   ["sqlite3.h"] = { "src/bind_values/" },
   ["dlfcn.h"] = { "src/nvidia/load.c", "src/transport/load.c" },
   ["mpi.h"] = { "src/transport/module/" },
   ["sentencepiece_processor.h"] = { "src/sentencepiece/" },
}

local function check_include(path, header, quoted, reach, note)
   local room, homes = room_of(path), HOMES[header]
   if homes then
      for _, home in ipairs(homes) do
         if path:sub(1, #home) == home then return end
      end
      note("<%s> belongs to %s", header, table.concat(homes, ", "))
   elseif quoted then
      local other, name = header:match("^([^/]+)/(.+)$")
      if not other then
         note('"%s" has no room in front', header)
      elseif not reach[room] or not reach[room][other] then
         note('room %s may not include "%s" (see ft_room in CMakeLists.txt)', room, header)
      elseif name:find("internal") and other ~= room then
         note('"%s" is internal to room %s', header, other)
      end
   end
end

--- Includes go along the edges of CMakeLists.txt.
function rules.layers(finding)
   local reach = reachable()
   for _, path in ipairs(files({ "src" }, ".c", ".h", ".cpp")) do
      for number, line in ipairs(lines_of(path)) do
         local mark, header = line:match('^%s*#%s*include%s*([<"])([^>"]+)')
         if header then
            check_include(path, header, mark == '"', reach,
               function(...) finding(path, number, ...) end)
         end
      end
   end
end

--- Commas at the outermost level of a parameter list, plus one.
local function count_parameters(signature)
   local list = signature:match("^[^%(]*(%b())")
   if not list then return 0 end
   list = list:sub(2, -2)
   if list:match("^%s*$") or list:match("^%s*void%s*$") then return 0 end
   local flat = list:gsub("%b()", "")
   return select(2, flat:gsub(",", "")) + 1
end

--- Calls visit(first line, last line, signature) for each function of a C file. A function starts
-- with an unindented line and has its closing brace in column 1; tables of data end in "};".
local function each_function(lines, visit)
   local start
   for number, line in ipairs(lines) do
      if line:match("^[%a_]") and not line:match("^#") then start = start or number end
      if start and line:match("^}") then
         local head = table.concat(lines, "\n", start, number):match("^(.-){") or ""
         if line:match("^}%s*$") and head:find("%)%s*$") then visit(start, number, head) end
         start = nil
      elseif start and line:match(";%s*$")
         and not table.concat(lines, "\n", start, number):find("{") then
         start = nil
      end
   end
end

local C_PLACES = { "src", "kernels", "test", "bench" }
local LUA_PLACES = { "lua", "recipes", "examples", "spec", "tools" }
-- Whose functions have the parameters of a library's, which they stand for.
local PARAMETERS_OF_OTHERS =
   { ["test/emulation/cublas.c"] = true, ["test/test_cuda_descriptors.c"] = true }
local MAX = { line = 100, ["function"] = 70, parameters = 7, file = 600, header = 300,
   room = 3500, bytes = 1e6 }

--- Utf-8 characters, as an editor shows them.
local function width(line)
   return select(2, line:gsub("[^\128-\191]", ""))
end

local function check_size_of(path, finding)
   local lines = lines_of(path)
   local limit = path:match("%.h$") and MAX.header or MAX.file
   if #lines > limit then finding(path, #lines, "%d lines, at most %d", #lines, limit) end
   for number, line in ipairs(lines) do
      if width(line) > MAX.line then
         finding(path, number, "%d columns, at most %d", width(line), MAX.line)
      end
   end
end

--- Sizes of lines, functions, parameter lists, files and headers.
function rules.sizes(finding)
   for _, path in ipairs(files(LUA_PLACES, ".lua")) do
      check_size_of(path, finding)
   end
   for _, path in ipairs(files(C_PLACES, ".c", ".h", ".cpp", ".cu")) do
      check_size_of(path, finding)
      each_function(split_lines(code_of(path)), function(first, last, signature)
         if last - first + 1 > MAX["function"] then
            finding(path, first, "a function of %d lines, at most %d", last - first + 1,
               MAX["function"])
         end
         local n = count_parameters(signature)
         if n > MAX.parameters and not PARAMETERS_OF_OTHERS[path] then
            finding(path, first, "%d parameters, at most %d", n, MAX.parameters)
         end
      end)
   end
end

-- Rooms that may be larger, and why.
local LARGE_ROOMS = { ops = "a table of many rows, each operator a file" }

--- No file in the repository is larger than what a clone should carry. Nothing is said outside of
-- a repository.
function rules.weight(finding)
   local pipe = assert(io.popen("(git ls-files -z | xargs -0 -r stat -c '%s %n' --) 2>/dev/null"))
   for line in pipe:lines() do
      local bytes, path = line:match("^(%d+) (.*)$")
      if tonumber(bytes) > MAX.bytes then
         finding(path, 0, "%s bytes, at most %d", bytes, MAX.bytes)
      end
   end
   pipe:close()
end

--- No room is larger than one can keep in mind, and CONTRIBUTING.md has a row for each.
function rules.rooms(finding)
   local tour = core.sys.read_file("CONTRIBUTING.md")
   local function check(directory, room)
      local path, lines = directory .. "/" .. room, 0
      for _, file in ipairs(files({ path }, ".c", ".h", ".cpp", ".lua")) do
         lines = lines + #lines_of(file)
      end
      if lines > MAX.room and not LARGE_ROOMS[room] then
         finding(path, 0, "%d lines, at most %d: split it by what it does", lines, MAX.room)
      end
      if not tour:find(("\n| [^|]*`%s`"):format(room)) then
         finding("CONTRIBUTING.md", 0, "the tour of the source has no room '%s'", room)
      end
   end
   for _, room in ipairs(core.sys.list_dir("src")) do check("src", room) end
   for room in pairs(dofile("tools/lua_rooms.lua")) do check("lua/ftpipe", room) end
end

--- Each benchmark is a row of the table that `./dev bench` runs.
function rules.benches(finding)
   local run = { gates = true, peer = true } -- modules
   for _, row in ipairs(dofile("bench/gates.lua")) do
      run[row[2]:match("BUILD/([%w_]+)") or row[2]:match("bench/([%w_]+)%.lua") or "?"] = true
   end
   for _, name in ipairs(core.sys.list_dir("bench")) do
      local stem = name:match("^(.*)%.c$") or name:match("^(.*)%.lua$")
      if stem and not run[stem] then
         finding("bench/" .. name, 0, "is in no row of bench/gates.lua")
      end
   end
end

local FORBIDDEN = { "abort", "exit", "_exit", "printf", "fprintf", "puts", "malloc", "calloc",
   "realloc", "free", "strdup", "getenv", "setenv", "system", "pthread_create" }
local FREE_OF_RULES = { ["src/base/alloc.c"] = true, ["src/base/thread.c"] = true,
   ["src/bind_values/process.c"] = true } -- ends children, in which nothing of the program runs

--- Rooms do not end the process, print, read the environment, allocate past base/alloc or start a
-- thread past base/thread.
function rules.calls(finding)
   for _, path in ipairs(files({ "src" }, ".c", ".h", ".cpp")) do
      if not FREE_OF_RULES[path] and room_of(path) ~= "app" then
         for number, line in ipairs(split_lines(code_of(path))) do
            for _, name in ipairs(FORBIDDEN) do
               if (" " .. line):find("[^%w_.>]" .. name .. "%s*%(") then
                  finding(path, number, "%s() is not called in rooms", name)
               end
            end
         end
      end
   end
end

local function check_header(path, finding)
   local commented, code, before = false, split_lines(code_of(path)), ""
   for number, line in ipairs(lines_of(path)) do
      if line:match("^%s*$") and not before:find("%*/%s*$") then commented = false end
      if line:find("/%*") then commented = true end
      local declares = code[number]:match("^[%a_][%w_%s%*]-[%s%*]([%w_]+)%(")
      if declares and not code[number]:match("^typedef") and not commented then
         finding(path, number, "%s has no comment", declares)
      end
      before = line
   end
end

--- Each file says in its first line what it does. In public headers a comment stands above every
-- function, or above the paragraph or section that it begins.
function rules.comments(finding)
   for _, path in ipairs(files({ "src" }, ".c", ".h", ".cpp")) do
      local first, name = lines_of(path)[1] or "", path:sub(5)
      if not first:find("/* " .. name .. " - ", 1, true) then
         finding(path, 1, "the first line is not /* %s - what it does.", name)
      end
   end
   for _, path in ipairs(files({ "src" }, ".h")) do
      local room, name = path:match("([^/]+)/([^/]+)%.h$")
      if room == "base" or room == name then check_header(path, finding) end
   end
end

--- Mutable objects at file scope: where they may be.
local MAY_CHANGE = { "base/alloc%.c", "device/cpu%.c", "memory/extent%.c",
   "nvidia/load%.c", "app/[%w_]+%.c" }

local function may_change(object)
   for _, pattern in ipairs(MAY_CHANGE) do
      if object:find(pattern) then return true end
   end
   return false
end

--- No mutable objects at file scope, by the symbols of the object files.
function rules.globals(finding)
   local archives = collect(build, { ".a" }, {})
   if #archives == 0 then finding(build, 0, "no libft_*.a: build first") end
   for _, archive in ipairs(archives) do
      local member = archive
      local pipe = assert(io.popen(("objdump -t '%s' 2>/dev/null"):format(archive)))
      for line in pipe:lines() do
         member = line:match("^(%S+%.o):%s+file format") or member
         local section, size, name = line:match("%sO%s+(%S+)%s+(%x+)%s+(.+)$")
         local mutable = section and (section:match("^%.t?bss") or section:match("^%.t?data")
            or section == "*COM*") and not section:match("^%.data%.rel%.ro")
         local room = archive:match("libft_([%w_]+)%.a$") or "?"
         local object = room .. "/" .. member:gsub("%.o$", "")
         if mutable and tonumber(size, 16) > 0 and not may_change(object)
            and not name:find("DW.ref.", 1, true) then -- C++ type references, made by the compiler
            finding(object, 0, "'%s' is a mutable object at file scope", name)
         end
      end
      pipe:close()
   end
end

--- Every header compiles alone.
function rules.headers(finding)
   local flags = "-std=gnu17 -D_GNU_SOURCE -DFT_ISA_SUFFIX=base -Isrc -Itest "
      .. "$(pkg-config --cflags luajit jansson)"
   for _, path in ipairs(files({ "src", "test" }, ".h")) do
      local command = "cc -x c -fsyntax-only -w %s '%s' 2>&1"
      local pipe = assert(io.popen(command:format(flags, path)))
      local problem = pipe:read("*l")
      pipe:close()
      if problem then finding(path, 1, "does not compile alone: %s", problem) end
   end
end

--- Modules of lua/ftpipe are in rooms, and require those that tools/lua_rooms.lua lets them.
function rules.lua_rooms(finding)
   local rooms = dofile("tools/lua_rooms.lua")
   local allowed = {}
   for name, row in pairs(rooms) do
      allowed[name] = { [name] = true, core = true }
      for _, other in ipairs(row[2]) do allowed[name][other] = true end
   end
   for _, path in ipairs(files({ "lua/ftpipe" }, ".lua")) do
      local room = path:match("^lua/ftpipe/([^/]+)/")
      if room and not rooms[room] then
         finding(path, 0, "no room is called '%s'", room)
      elseif not room and not path:find("/init%.lua$") and not path:find("/parts%.lua$") then
         finding(path, 0, "is in no room")
      end
      for number, line in ipairs(room and rooms[room] and lines_of(path) or {}) do
         local other = line:match('require%(?"ftpipe%.([%w_]+)')
         if other and not allowed[room][other] then
            finding(path, number, "%s may not require %s", room, other)
         end
      end
   end
end

--- Kinds of devices are told apart by the columns of ft_device_kinds, which rows of devices have.
function rules.device_kinds(finding)
   for _, path in ipairs(files({ "lua", "spec", "tools", "examples", "bench" }, ".lua")) do
      for number, line in ipairs(lines_of(path)) do
         local by_field = line:find('device[%w_%[%]]*%.kind%s*[=~]=%s*"')
         local name = line:match('kind%s*[=~]=%s*"(%l+)"') or line:match('%("%^(%l+)"%)')
         if by_field or name == "cpu" or name == "cuda" or name == "sim" then
            finding(path, number, "asks for the name of a kind of device, expected a property")
         end
      end
   end
end

-- Ends of names of files in comments, and names that stand for no file of the sources.
local NAME_OF_FILE = "%f[%w_/.~*-]([%l_][%l%d_/]*%.(%l+))%f[^%w_]"
local SOURCE = { lua = true, c = true, h = true, cu = true }
local NO_SOURCE = { ["recipe.lua"] = true, ["x.lua"] = true, ["ftpipe.lua"] = true }

--- Files of the sources that comments name are there: beside the file, in the directory above it,
-- or by their path in one of the trees.
function rules.named_files(finding)
   for _, path in ipairs(files({ "src", "kernels", "lua" }, ".c", ".h", ".cpp", ".cu", ".lua")) do
      local above, own = path:match("^(.*/)[^/]+/[^/]+$") or "", path:match("^.*/")
      for number, line in ipairs(lines_of(path)) do
         local comment = path:find("%.lua$") and (line:match("^%s*%-%-(.*)")
            or line:match("%s%-%- (.*)")) or line:match("/%*(.*)") or line:match("^%s%*(.*)")
         for name, suffix in (comment or ""):gmatch(NAME_OF_FILE) do
            local there = NO_SOURCE[name] or not SOURCE[suffix]
            for _, tree in ipairs { "", own, above, "src/", "lua/", "lua/ftpipe/" } do
               there = there or core.sys.exists(tree .. name) == "file"
            end
            if not there then finding(path, number, "names %s, which is not there", name) end
         end
      end
   end
end

--- Nothing is left for later.
function rules.leftovers(finding)
   local list = files({ "src", "kernels", "test", "bench", "cmake", "lua", "recipes", "examples",
      "spec" }, ".c", ".h", ".cpp", ".cu", ".cmake", ".lua")
   for _, path in ipairs(list) do
      for number, line in ipairs(lines_of(path)) do
         for _, word in ipairs { "TODO", "FIXME", "XXX" } do
            if line:find("%f[%w]" .. word .. "%f[%W]") then finding(path, number, "%s", word) end
         end
         if line:find("%s$") then finding(path, number, "blanks at the end of the line") end
      end
   end
end

--- C files are as `./dev format` leaves them.
function rules.format(finding)
   local list = files({ "src", "test", "bench" }, ".c", ".h")
   local pipe = assert(io.popen("clang-format --dry-run " .. table.concat(list, " ")
      .. " 2>&1; echo \"clang-format ended: $?\""))
   local said = {}
   for line in pipe:lines() do
      local code, path = line:match("^clang%-format ended: (%d+)$"), line:match("^([^:]+):%d+:")
      if code and code ~= "0" then
         finding("clang-format", 0, "could not run: exit code %s", code)
      end
      if path and not said[path] then
         finding(path, 0, "differs from what ./dev format makes of it")
         said[path] = true
      end
   end
   pipe:close()
end

--- luacheck on all Lua files.
function rules.luacheck(finding)
   local pipe = assert(io.popen("luacheck -q --no-color --formatter plain " ..
      table.concat(LUA_PLACES, " ") .. " bench 2>&1; echo \"luacheck ended: $?\""))
   for line in pipe:lines() do
      local code = line:match("^luacheck ended: (%d+)$")
      if code and tonumber(code) > 2 then
         finding("luacheck", 0, "could not run: exit code %s", code)
      end
      if not code then finding(line, 0, "luacheck") end
   end
   pipe:close()
end

--- ldoc on the comments of lua/ftpipe: what they say of arguments is what there is.
function rules.ldoc(finding)
   local pages = os.tmpname()
   os.remove(pages)
   local pipe = assert(io.popen(("ldoc --project ftpipe --format plain --all --dir %s lua/ftpipe "
      .. "2>&1; echo \"ldoc ended: $?\"; rm -rf %s"):format(pages, pages)))
   for line in pipe:lines() do
      local code = line:match("^ldoc ended: (%d+)$")
      if code and code ~= "0" then finding("ldoc", 0, "could not run: exit code %s", code) end
      local path, number, words = line:match("(lua/ftpipe/%S+%.lua):(%d+): (.*)$")
      -- a module that is one function has no items to ldoc
      if path and words ~= "contains no items" then finding(path, tonumber(number), "%s", words) end
   end
   pipe:close()
end

-- Running -----------------------------------------------------------------------------------------

local chosen = {}
for i = 2, #arg do chosen[i - 1] = arg[i] end
if #chosen == 0 then chosen = ORDER end

local passed, failed = 0, 0
for _, name in ipairs(chosen) do
   if not rules[name] then
      core.fail("invalid argument", ("no rule is called '%s' (there are: %s)"):format(name,
         table.concat(ORDER, ", ")))
   end
   local n = 0
   rules[name](function(path, number, format, ...)
      n = n + 1
      local place = number > 0 and ("%s:%d"):format(path, number) or path
      print(("%s: %s"):format(place, format:format(...)))
   end)
   print(("%s: %s"):format(name, n == 0 and "ok" or n .. " findings"))
   if n == 0 then passed = passed + 1 else failed = failed + 1 end
end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and 0 or 1, true)

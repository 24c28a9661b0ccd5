--- Tokenised data on disk, by a digest of everything that it was made of.
--
-- A file holds one split: a line with the digest of what follows and the size of its first part,
-- the notes of the task's kind as JSON, the packed dataset. A file that is cut short or changed
-- does not have its digest, and is made anew. Files are written beside and renamed, so that
-- several runs may share a directory. Nothing is ever stale: another file, tokenizer, template,
-- version of the code, value that a function holds or global that it names has another name.

local core = require("ftpipe.core")
local jit_util = require("jit.util")
local keys = require("ftpipe.base.keys")

local M = {}

local FORMAT = "ftset 1" -- no character of it means anything in a pattern
local LEAST_BYTES = 2 ^ 18 -- of a file: smaller ones are tokenised sooner than looked up

--- The default directory, nil when there is no home.
function M.directory()
   local xdg, home = os.getenv("XDG_CACHE_HOME"), os.getenv("HOME")
   if xdg and xdg:sub(1, 1) == "/" then return xdg .. "/ftpipe" end
   if home and home:sub(1, 1) == "/" then return home .. "/.cache/ftpipe" end
   return nil
end

-- Libraries of Lua, whose functions are what their names say.
local LIBRARIES = { "string", "table", "math", "bit", "os", "io", "coroutine", "_G" }

--- The module of this program that a function is of, by what debug.getinfo names its text; nil
-- where it is of a script.
local function module_of(source)
   local path = source:match("^@lua/(ftpipe/.*)%.lua$")
   local module = path and path:gsub("/init$", ""):gsub("/", ".")
   return module and core.source(module) and module
end

--- What needs no more than its name: modules of this program, and what is in Lua's libraries.
-- @treturn table names by value
local function named_values()
   local names = {}
   for name, module in pairs(package.loaded) do
      if type(module) == "table" and (name == "ftpipe.core" or core.source(name)) then
         names[module] = name
      end
   end
   for _, library in ipairs(LIBRARIES) do
      for name, value in pairs(_G[library]) do
         local is_function = type(value) == "function"
         if is_function and debug.getinfo(value, "S").source:find("^=%[") then
            names[value] = library .. "." .. name
         end
      end
      names[_G[library]] = library
   end
   names[_G] = nil -- it has what scripts put there
   return names
end

local describe

local function describe_table(value, out)
   if debug.getmetatable(value) then return false end
   local fields = {}
   for key in pairs(value) do fields[#fields + 1] = key end
   table.sort(fields, function(a, b) return tostring(a) < tostring(b) end)
   out[#out + 1] = "{"
   for _, key in ipairs(fields) do
      if not describe(key, out) or not describe(value[key], out) then return false end
   end
   out[#out + 1] = "}"
   return true
end

-- What reads a global, among the instructions of this LuaJIT.
local GET_GLOBAL = bit.band((jit_util.funcbc(loadstring("return x"), 1)), 0xff)

--- Adds the names of the globals that a function reads, or one that it makes, as keys.
local function add_globals(code, names)
   local info = jit_util.funcinfo(code)
   for at = 1, info.bytecodes - 1 do
      local instruction = jit_util.funcbc(code, at)
      if bit.band(instruction, 0xff) == GET_GLOBAL then
         names[jit_util.funck(code, -bit.rshift(instruction, 16) - 1)] = true
      end
   end
   for k = -1, -info.gcconsts, -1 do
      local constant = jit_util.funck(code, k)
      if type(constant) == "proto" then add_globals(constant, names) end
   end
   return names
end

local function field(values, name) return values[name] end

--- The globals that a function reads, with their values; those that are not there raise where
-- somebody wants it so.
local function describe_globals(value, out)
   local all = debug.getfenv(value)
   for _, name in ipairs(keys(add_globals(value, {}))) do
      local is_there, held = pcall(field, all, name)
      out[#out + 1] = "global " .. name
      if not is_there then held = nil end
      if not describe(held, out) then return false end
   end
   return true
end

--- The code of a function, and the values that it holds or reads as globals. Those of a module of
-- this program are as the program's version says.
local function describe_function(value, out)
   local info = debug.getinfo(value, "Su")
   if info.what == "C" then return false end
   out[#out + 1] = ("function %q"):format(string.dump(value, true))
   if module_of(info.source) then return true end
   for i = 1, info.nups do
      if not describe(select(2, debug.getupvalue(value, i)), out) then return false end
   end
   return describe_globals(value, out)
end

local BY_TYPE = { table = describe_table, ["function"] = describe_function }

-- Types whose values are told by text, each so that equal texts are of equal values.
local PLAIN = { ["nil"] = "%s", boolean = "%s", number = "%.17g", string = "%q" }

--- Adds text that two values share only when they are equal; functions by their code and what they
-- hold. What was met before is told by its place, so that what holds itself ends.
-- @param value
-- @tparam table out lines, with `names` of named_values and `met`, places by value
-- @treturn boolean false: there is no such text, as of what C made
function describe(value, out)
   local kind = type(value)
   local plain, place = PLAIN[kind], value ~= nil and (out.names[value] or out.met[value])
   if plain then
      local told = kind == "number" and value or tostring(value)
      out[#out + 1] = (kind .. " " .. plain):format(told)
      return true
   elseif place then
      out[#out + 1] = "as " .. place
      return true
   elseif not BY_TYPE[kind] then
      return false
   end
   out.n_met = out.n_met + 1
   out.met[value] = out.n_met
   return BY_TYPE[kind](value, out)
end

--- The text of Lua modules: the code that makes what is cached. Nil when it is not to be had, as it
-- is while somebody edits it (FTPIPE_LUA).
local function sources(modules)
   local list = {}
   for i, name in ipairs(modules) do
      list[i] = core.source(name)
      if not list[i] then return nil end
   end
   return list
end

--- Where to keep something; nil when it is not worth it, or when `parts` have a function that holds
-- or reads what cannot be told from another: what C made, or a table with a metatable.
-- @tparam string dir
-- @tparam string bytes of the data file
-- @tparam table parts everything else that the result depends on
-- @tparam {string,...} modules that compute it
-- @treturn string path
function M.path(dir, bytes, parts, modules)
   local code = sources(modules)
   if #bytes < LEAST_BYTES or not code then return nil end
   local text = { names = named_values(), met = {}, n_met = 0 }
   local all = { FORMAT, core.version, core.sys.sha256(bytes), parts, code }
   if not describe(all, text) then return nil end
   return ("%s/%s.ftset"):format(dir, core.sys.sha256(table.concat(text, "\n")))
end

--- Reads what `write` wrote.
-- @treturn dataset nil when there is no such file, or it is not whole
-- @treturn table notes
function M.read(path)
   if core.sys.exists(path) ~= "file" then return nil end
   local ok, dataset, notes = pcall(function()
      local bytes = core.sys.read_file(path)
      local digest, size, at = bytes:match("^" .. FORMAT .. " (%x+) (%d+)\n()")
      if not digest or core.sys.sha256(bytes:sub(at)) ~= digest then return nil end
      local stop = at + tonumber(size)
      return core.data.unpack(bytes:sub(stop)), core.json.decode(bytes:sub(at, stop - 1), path)
   end)
   if ok then return dataset, notes end
   return nil
end

--- Writes a dataset and plain notes. A cache that cannot be written is no error, but is told once.
-- @tparam string path
-- @tparam dataset dataset
-- @tparam table notes
-- @tparam table o options of who asked for it, with `cache`
-- @treturn boolean whether it was written
function M.write(path, dataset, notes, o)
   local ok, problem = pcall(function()
      core.sys.mkdir(path:match("^(.*)/"))
      local text = core.json.encode(notes)
      local body = text .. dataset:pack()
      core.sys.write_file(path, ("%s %s %d\n%s"):format(FORMAT, core.sys.sha256(body), #text, body))
   end)
   if not ok then
      io.stderr:write(("ftpipe: tokenised data is not kept: %s (%s asks for none)\n"):format(
         tostring(problem), o.flagged and "--cache none" or "no option 'cache'"))
   end
   return ok
end

return M

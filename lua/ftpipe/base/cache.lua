--- Tokenised data on disk, by a digest of everything that it was made of.
--
-- A file holds one split: a line with the digest of what follows and the size of its first part,
-- the notes of the task's kind as JSON, the packed dataset. A file that is cut short or changed
-- does not have its digest, and is made anew. Files are written beside and renamed, so that
-- several runs may share a directory. Nothing is ever stale: another file, tokenizer, template or
-- version of the code has another name.

local core = require("ftpipe.core")

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

--- Text that two values share only when they are equal, functions by their code.
local function describe(value, out)
   if type(value) == "table" then
      local keys = {}
      for key in pairs(value) do keys[#keys + 1] = key end
      table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
      out[#out + 1] = "{"
      for _, key in ipairs(keys) do
         describe(key, out)
         describe(value[key], out)
      end
      out[#out + 1] = "}"
   elseif type(value) == "function" then
      out[#out + 1] = ("%q"):format(string.dump(value, true))
   else
      out[#out + 1] = ("%s %q"):format(type(value), tostring(value))
   end
   return out
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

--- Where to keep something, or nil when it is not worth it.
-- @tparam string dir
-- @tparam string bytes of the data file
-- @tparam table parts everything else that the result depends on
-- @tparam {string,...} modules that compute it
-- @treturn string path
function M.path(dir, bytes, parts, modules)
   local code = sources(modules)
   if #bytes < LEAST_BYTES or not code then return nil end
   local text = describe({ FORMAT, core.version, core.sys.sha256(bytes), parts, code }, {})
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

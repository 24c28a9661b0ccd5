--- Names of runs: "2026-11-23_14-03-05_t5_rte_k3f9" is when it began (UTC), its recipe, and four
-- characters by chance, so that no two are called the same. --out auto makes a directory of that
-- name below out/, and a link beside it, out/latest.

local core = require("ftpipe.core")
local usage = require("ftpipe.base.usage")

local M = {}

M.AUTO = "auto" -- of --out

local ROOT, LATEST = "out", "latest"
local TIME = "%d%d%d%d%-%d%d%-%d%d_%d%d%-%d%d%-%d%d_"
local CHANCE = "_%w%w%w%w"
local DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

--- The pattern of such names, of one recipe if that is given.
local function pattern_of(of)
   return "^" .. TIME .. (of and of:gsub("%p", "%%%0") or ".*") .. CHANCE .. "$"
end

--- Four characters, of the kernel's random bytes.
local function by_chance()
   local file = assert(io.open("/dev/urandom", "rb"))
   local bytes = file:read(4)
   file:close()
   return (bytes:gsub(".", function(byte)
      local digit = byte:byte() % #DIGITS + 1
      return DIGITS:sub(digit, digit)
   end))
end

--- The path of the script that this process runs; nil at the prompt.
function M.script()
   local path = arg and arg[0]
   local _, program = pcall(core.sys.executable) -- a problem, where it was removed: no path
   local is_script = path and core.sys.exists(path) == "file"
      and core.sys.real_path(path) ~= program
   return is_script and path or nil
end

--- Its name, without what names cannot have; "run" at the prompt.
local function recipe()
   local path = M.script() or "run"
   return (path:match("[^/]*$"):gsub("%.lua$", ""):gsub("[^%w_.-]", "_"))
end

--- A name that no other run has.
function M.new() return os.date("!%Y-%m-%d_%H-%M-%S_") .. recipe() .. "_" .. by_chance() end

--- The name of a run by its directory: what it is called, if that is such a name, else a new one.
function M.of(path)
   local name = path:match("([^/]+)/*$")
   return name and name:find(pattern_of()) and name or M.new()
end

--- Names in a directory that are those of runs, of one recipe if that is given, the newest last.
local function names_in(directory, of)
   local names = {}
   if core.sys.exists(directory) ~= "directory" then return names end
   for _, name in ipairs(core.sys.list_dir(directory)) do
      if name:find(pattern_of(of)) then names[#names + 1] = name end
   end
   table.sort(names)
   return names
end

--- The directory that --out auto is: a new one; with --resume the newest of this recipe.
-- @tparam table args of ft.args
-- @treturn string
-- @raise invalid argument: there is none to go on with
function M.directory(args)
   if not args.resume then return ROOT .. "/" .. M.new() end
   local names = names_in(ROOT, recipe())
   if #names == 0 then
      usage.of(args, "{resume} with {out=auto}: there is no %s/DATE_%s_* to go on with", ROOT,
         recipe())
   end
   return ROOT .. "/" .. names[#names]
end

--- Has `latest`, beside a run's directory, point to the newest one there; nothing beside one that
-- has a name of somebody's own.
-- @tparam string path of the run, which need not be there any more
-- @tparam[opt] boolean begins it is the newest, whatever its name says
function M.link(path, begins)
   local parent, name = (core.sys.real_path(path) or path):match("^(.*)/([^/]+)$")
   if not name or not name:find(pattern_of()) then return end
   local link = parent .. "/" .. LATEST
   if core.sys.exists(link) and not core.io.link_target(link) then
      io.stderr:write(link, ": is no link, and stays as it is\n")
      return
   end
   local names = names_in(parent)
   local newest = begins and name or names[#names]
   if newest then core.io.link(link, newest) else os.remove(link) end
end

return M

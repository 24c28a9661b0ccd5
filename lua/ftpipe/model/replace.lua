--- Directories that are there whole or not at all: made beside their place, then exchanged with
-- what is in it.

local core = require("ftpipe.core")

local M = {}

--- Removes a file, a link, or a directory with all that is in it.
function M.remove(path)
   if not core.io.link_target(path) and core.sys.exists(path) == "directory" then
      for _, name in ipairs(core.sys.list_dir(path)) do M.remove(path .. "/" .. name) end
   end
   os.remove(path)
end

--- Removes what processes that were killed left half-written beside its place. None may be alive
-- that writes there.
-- @tparam string dir the directory of those places
-- @tparam[opt] string name the one place of which; nil: of all
function M.sweep(dir, name)
   for _, found in ipairs(core.sys.list_dir(dir)) do
      local of = found:match("^(.+)%.tmp%-%d+$")
      if of and (not name or of == name) then M.remove(dir .. "/" .. found) end
   end
end

--- Moves what the new directory lacks of the old one into it; false when that is not possible.
local function move_kept(old, new, keeps)
   for _, name in ipairs(core.sys.list_dir(old)) do
      if keeps(name) and not core.sys.exists(new .. "/" .. name)
         and not os.rename(old .. "/" .. name, new .. "/" .. name) then
         return false
      end
   end
   return true
end

--- Moves what the new directory has into the one in which this process is, and the shell that began
-- it: to both another one of that name would be none. What is there and does not stay goes.
local function move_in(new, dir, keeps)
   for _, name in ipairs(core.sys.list_dir(dir)) do
      local path = dir .. "/" .. name
      local stays = keeps and keeps(name) and not core.sys.exists(new .. "/" .. name)
      if path ~= new and not stays then M.remove(path) end
   end
   for _, name in ipairs(core.sys.list_dir(new)) do
      local ok, problem = os.rename(new .. "/" .. name, dir .. "/" .. name)
      if not ok then core.fail("input or output failed", problem) end
   end
end

--- The name of a directory that another may be put in the place of: of "." and ".." none may.
local function name_of(path)
   local name = #path > 1 and path:gsub("/+$", "") or path
   local last = name:match("[^/]*$")
   return (last == "." or last == "..") and core.sys.real_path(name) or name
end

--- Puts a directory in its place, in which there may be another, or a link to one, which is
-- replaced itself. That in which this process is stays, and gets new contents, which is not done in
-- one step.
-- @tparam string path
-- @tparam function fill (dir): makes the directory of that name, and what is in it
-- @tparam[opt] function keeps (name): whether what the old directory has of that name stays, where
--   the new one has nothing of that name
-- @raise what `fill` raises, input or output failed: then the old one is as it was
function M.directory(path, fill, keeps)
   local dir = name_of(path)
   local kind = core.sys.exists(dir)
   if kind and kind ~= "directory" then
      core.fail("invalid argument", dir .. ": is there and not a directory")
   end
   local is_here = kind and not core.io.link_target(dir)
      and core.sys.real_path(dir) == core.sys.real_path(".")
   local beside = ("%s%s.tmp-%d"):format(dir, is_here and "/new" or "", core.sys.getpid())
   M.remove(beside)
   local ok, problem = pcall(function()
      fill(beside)
      if is_here then return move_in(beside, dir, keeps) end
      core.io.exchange(beside, dir)
   end)
   local is_old = ok and kind and not is_here -- the old one is beside now
   local old = is_old and keeps and not core.io.link_target(beside)
   if not old or move_kept(beside, dir, keeps) then M.remove(beside) end
   if not ok then error(problem, 0) end
end

return M

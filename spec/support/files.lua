--- Files for specs: temporary directories, and published inputs that do not come with the sources.

local assert = require("luassert")

local core = require("ftpipe.core")
local replace = require("ftpipe.model.replace")

local M = {}

--- A new, empty directory, for `remove` to take away.
function M.directory()
   local dir = os.tmpname()
   os.remove(dir)
   core.sys.mkdir(dir)
   return dir
end

--- Removes a file, or a directory with everything in it.
M.remove = replace.remove

--- Calls body(dir) with a new, empty directory that is gone afterwards.
function M.in_directory(body)
   local dir = M.directory()
   local ok, problem = xpcall(function() body(dir) end, function(e)
      return type(e) == "string" and debug.traceback(e) or e
   end)
   M.remove(dir)
   if not ok then error(problem, 0) end
end

--- The embedded model as a directory.
function M.tiny_model(path)
   core.sys.mkdir(path)
   for _, name in ipairs { "config.json", "model.safetensors", "spiece.model" } do
      core.sys.write_file(path .. "/" .. name, core.asset("t5_tiny/" .. name))
   end
end

--- The path of a published input; the spec is pending, with its name, when it is not there.
function M.shared(name, pending)
   local root = os.getenv("FTPIPE_SHARED")
   local path = (root and root ~= "" and root or "../shared") .. "/" .. name
   if core.sys.exists(path) then return path end
   pending("skipped: no " .. path)
   return nil
end

--- Calls f(...), which must raise an error object; gives the object.
function M.failure(f, ...)
   local ok, problem = pcall(f, ...)
   assert(not ok, "expected an error")
   return problem
end

--- The same: its message without temporary directories, and its status.
function M.fault(f, ...)
   local problem = M.failure(f, ...)
   return problem.message:gsub("/tmp/[^/ ]*/?", ""), problem.status
end

--- Checks that a call is refused as unsupported.
-- @tparam string pattern of the message
function M.unsupported(pattern, f, ...)
   local problem = M.failure(f, ...)
   assert.equal("unsupported", problem.status)
   assert.equal(6, problem.exit)
   assert.matches(pattern, problem.message)
end

return M

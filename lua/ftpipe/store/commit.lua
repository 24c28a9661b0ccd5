--- The commit of git that a directory is at, by git's own files: git itself need not be there.

local core = require("ftpipe.core")
local small_file = require("ftpipe.base.small_file")

local MOST_BYTES = 2 ^ 24 -- of packed-refs, some hundred thousand of them
local DEEPEST = 64 -- directories above one

--- The text of a file; nil of what is none.
local function text_of(path)
   local ok, text = pcall(small_file, path, MOST_BYTES)
   return ok and text or nil
end

local function first_line(path) return (text_of(path) or ""):match("^[^\r\n]*") end

--- A path as it is written in a file of a directory.
local function beside(directory, path)
   return path:find("^/") and path or directory .. "/" .. path
end

--- What git keeps of the tree that a directory is in; nil where it is in none. Of a further tree of
-- a repository, and of a module in another one, `.git` is a file that names it.
local function kept_of(directory)
   for _ = 1, DEEPEST do
      local path = directory .. "/.git"
      local kind = core.sys.exists(path)
      if kind == "directory" then return path end
      local named = kind and first_line(path):match("^gitdir: (.+)$")
      if named then return beside(directory, named) end
      if directory == "" then return nil end
      directory = directory:match("^(.*)/[^/]*$") or ""
   end
end

local function is_digest(text) return text:find("^%x+$") and (#text == 40 or #text == 64) end

--- What a branch points to, by its own file, or by that of those that were packed.
local function branch(kept, name)
   local shared = first_line(kept .. "/commondir")
   local root = shared ~= "" and beside(kept, shared) or kept
   local own = first_line(root .. "/" .. name)
   if is_digest(own) then return own end
   for line in (text_of(root .. "/packed-refs") or ""):gmatch("[^\r\n]+") do
      local digest, packed = line:match("^(%x+) (.*)$")
      if packed == name then return digest end
   end
end

--- @tparam string directory
-- @treturn[opt] string digits of the commit; nil outside a tree of git, and before its first commit
return function(directory)
   local path = core.sys.real_path(directory)
   local kept = path and kept_of(path:gsub("/$", ""))
   local head = kept and first_line(kept .. "/HEAD") or ""
   if is_digest(head) then return head end
   local name = head:match("^ref: (refs/.+)$")
   return name and branch(kept, name)
end

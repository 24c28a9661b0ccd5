--- The cache of Hugging Face on this machine: models--ORG--NAME/{refs,snapshots}/. It is read;
-- nothing is downloaded.

local core = require("ftpipe.core")
local small_file = require("ftpipe.base.small_file")

local M = {}

local MOST_BYTES = 4096 -- of a file in refs/

--- The directory of the cache: HF_HUB_CACHE, or hub/ in HF_HOME or ~/.cache/huggingface.
function M.root()
   local cache, home = os.getenv("HF_HUB_CACHE"), os.getenv("HF_HOME")
   if cache and cache ~= "" then return cache end
   if home and home ~= "" then return home .. "/hub" end
   return (os.getenv("HOME") or "") .. "/.cache/huggingface/hub"
end

--- Where a model of that name would be.
function M.place(name) return ("%s/models--%s"):format(M.root(), (name:gsub("/", "--"))) end

local function has_model(path) return core.sys.exists(path .. "/config.json") == "file" end

--- The snapshot that "main" stands for; of a cache without it, the last by name.
-- @tparam string name "google/flan-t5-base"
-- @treturn string a directory in Hugging Face layout; nil when there is none
function M.find(name)
   if not name:find("^[%w._-]+/?[%w._-]*$") or name:find("..", 1, true) then return nil end
   local place = M.place(name)
   local snapshots, ref = place .. "/snapshots", place .. "/refs/main"
   if core.sys.exists(snapshots) ~= "directory" then return nil end
   if core.sys.exists(ref) == "file" then
      local main = snapshots .. "/" .. (small_file(ref, MOST_BYTES):match("^%x+") or "")
      if has_model(main) then return main end
   end
   local names = core.sys.list_dir(snapshots)
   table.sort(names)
   for i = #names, 1, -1 do
      if has_model(snapshots .. "/" .. names[i]) then return snapshots .. "/" .. names[i] end
   end
   return nil
end

return M

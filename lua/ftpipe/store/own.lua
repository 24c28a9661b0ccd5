--- What a run writes in its directory, by name: all else there is somebody else's.
--
-- A place is a directory that runs write: a function (name) that gives true for a file of that name
-- in it, a place for a directory, nil for what no run writes.

local checkpoint = require("ftpipe.model.checkpoint")
local core = require("ftpipe.core")
local events = require("ftpipe.store.events")

local M = {}

-- Behind a name while what has it is not whole: of a file, of a directory or a link.
local UNFINISHED_FILE = "%.%d+%.%d+%.tmp$"
local UNFINISHED = { UNFINISHED_FILE, "%.tmp%-%d+$" }

local function named(name)
   for _, pattern in ipairs(UNFINISHED) do name = name:gsub(pattern, "") end
   return name
end

local function model(name) return checkpoint.writes(name) or nil end

local STATE = { ["state.json"] = true, ["state.safetensors"] = true }

local function state(name) return STATE[name] end

local STEP = { hf = model, state = state }

local function step(name) return STEP[name] end

local function checkpoints(name)
   local is_link = name == "latest" or name == "best" -- a directory in a copy that lost its links
   return (is_link or name:find("^step%-%d+$")) and step or nil
end

local RUN = { hf = model, checkpoints = checkpoints, [events.NAME] = true }
for _, name in ipairs { "run.json", "recipe.lua", "log.txt", "plan.txt", "plan-evaluate.txt",
   "metrics.jsonl", "summary.json", "timeline.json", "watchdog.txt", "report.html",
   "predictions.jsonl", "predictions.json", "nbest_predictions.json", "lock" }
do
   RUN[name] = true
end

local function run(name)
   return RUN[name] or name:find("^trace%-%d+%-%d+%.json$") and true or nil
end

--- Whether a run writes a file or a directory of this name in its directory.
function M.is_own(name) return run(named(name)) ~= nil end

local function is_directory(path)
   return not core.io.link_target(path) and core.sys.exists(path) == "directory"
end

--- Calls file(path) and behind what is in it directory(path) for all that runs write at a place,
-- foreign(path) for the rest.
local function walk(dir, place, on)
   for _, name in ipairs(core.sys.list_dir(dir)) do
      local path, what = dir .. "/" .. name, place(named(name))
      local is_link = core.io.link_target(path) ~= nil
      if what and is_directory(path) and type(what) == "function" then
         walk(path, what, on)
         on.directory(path)
      elseif what and (is_link or what == true and not is_directory(path)) then
         on.file(path)
      else
         on.foreign(path)
      end
   end
end

--- Paths of what is in a run's directory and no run writes.
function M.foreign(dir)
   local list, nothing = {}, function() end
   walk(dir, run, { file = nothing, directory = nothing,
      foreign = function(path) list[#list + 1] = path end })
   return list
end

--- Paths of files in a run's directory that killed processes had not made whole.
function M.unfinished(dir)
   local list = {}
   for _, name in ipairs(core.sys.list_dir(dir)) do
      local is_file = name:find(UNFINISHED_FILE) and run(named(name)) == true
      list[#list + 1] = is_file and dir .. "/" .. name or nil
   end
   return list
end

local function remove(path)
   local removed, problem = os.remove(path)
   if not removed then core.fail("input or output failed", problem) end
end

local function is_empty(dir) return #core.sys.list_dir(dir) == 0 end

--- Removes what a run has written in its directory, run.json last, and the directory itself where
-- nothing else is in it.
-- @raise input or output failed
function M.remove(dir)
   local last = dir .. "/run.json"
   walk(dir, run, {
      file = function(path)
         if path ~= last then remove(path) end
      end,
      directory = function(path)
         if is_empty(path) then remove(path) end
      end,
      foreign = function() end,
   })
   if core.sys.exists(last) or core.io.link_target(last) then remove(last) end
   if is_empty(dir) then remove(dir) end
end

--- The first directory below one for which is_run(path) holds; nil when there is none. No link is
-- followed.
function M.below(dir, is_run)
   for _, name in ipairs(core.sys.list_dir(dir)) do
      local path = dir .. "/" .. name
      local found = is_directory(path) and (is_run(path) and path or M.below(path, is_run))
      if found then return found end
   end
   return nil
end

return M

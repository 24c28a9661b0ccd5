--- Where the model is that a run has left, or that a directory is.

local core = require("ftpipe.core")
local models = require("ftpipe.model")
local records = require("ftpipe.store.record")
local states = require("ftpipe.store.state")

local M = {}

--- Where the model of a run is, and adapters for it: not in hf/ before its end, or when it only
-- evaluated.
local function model_of(path, record)
   if core.sys.exists(path .. "/hf") then return path .. "/hf" end
   local saved = states.find(path)
   if saved then return saved .. "/hf" end
   local model, adapter = record.flags.model, record.flags.adapter
   if type(model) == "string" then return model, type(adapter) == "string" and adapter or nil end
   return core.fail("malformed data", records.path(path) .. ": names no model")
end

--- The model's directory, and of a run its path and task (as records.read gives it).
-- @tparam string path of a run or a model, or "embedded:NAME"
-- @treturn table model, adapter (nil: none but those of the model), task, path (nil: it is a model)
function M.find(path)
   if path:find("^embedded:") then return { model = path, task = { settings = {} } } end
   if not core.sys.exists(path) then
      core.fail("not found", ("'%s': there is no such directory, expected a run or a model")
         :format(path))
   end
   if models.is(path) then
      return { model = path, task = { settings = {} } }
   end
   if not core.sys.exists(records.path(path)) then
      core.fail("not found", ("'%s' is neither a run (run.json) nor a model (config.json)")
         :format(path))
   end
   local record = records.read(path)
   local model, adapter = model_of(path, record)
   return { path = path, model = model, adapter = adapter, task = record.task }
end

return M

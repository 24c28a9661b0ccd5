--- Checkpoints of a run: what a stopped run goes on from, bit for bit.
--
--    OUT/checkpoints/step-N/hf/      the model, in Hugging Face layout
--    OUT/checkpoints/step-N/state/   state.json, state.safetensors
--    OUT/checkpoints/latest          link to the newest step-N, moved last
--    OUT/checkpoints/best            link to that of the best evaluation
--
-- A checkpoint is written beside its place, synced and renamed, so that there is a whole one under
-- `latest` at any moment. No stage or device is named in it: tensors have the names of parameters,
-- and the next run may cut the model in another way. Random numbers have no state: they are keyed
-- by seed and step.

local above = require("ftpipe.base.above")
local adapters = require("ftpipe.model.adapters")
local checkpoint = require("ftpipe.model.checkpoint")
local core = require("ftpipe.core")
local figures = require("ftpipe.store.figures")
local malformed = require("ftpipe.base.malformed")
local named = require("ftpipe.base.named")
local numbers = require("ftpipe.store.numbers")
local processors = require("ftpipe.base.processors")
local replace = require("ftpipe.model.replace")
local scaling = require("ftpipe.base.scaling")
local small_file = require("ftpipe.base.small_file")
local usage = require("ftpipe.base.usage")

local M = {}

local FORMAT = 2
local SLACK_BYTES = 1e6 -- of files that are not tensors
local PRESET_KEEP = 2
local MOST_BYTES = 2 ^ 20 -- of state.json

local function root_of(out) return out .. "/checkpoints" end

local function path_of(out, step) return ("%s/step-%d"):format(root_of(out), step) end

local function record_file(path) return path .. "/state/state.json" end

local function tensors_file(path) return path .. "/state/state.safetensors" end

-- ---------------------------------------------------------------------------------------------
-- Finding.

--- Steps of the whole checkpoints of a run directory, ascending: what has such a name was renamed
-- to it when it was whole.
local function steps_of(out)
   local steps, root = {}, root_of(out)
   if core.sys.exists(root) ~= "directory" then return steps end
   for _, name in ipairs(core.sys.list_dir(root)) do
      local step = tonumber(name:match("^step%-(%d+)$"))
      if step and core.sys.exists(root .. "/" .. name .. "/hf") then steps[#steps + 1] = step end
   end
   table.sort(steps)
   return steps
end

--- The checkpoint that a link of a run directory points to, nil when it is none.
local function linked(out, name)
   local target = core.io.link_target(root_of(out) .. "/" .. name)
   local path = target and target:find("^step%-%d+$") and root_of(out) .. "/" .. target
   return path and core.sys.exists(path) == "directory" and path or nil
end

--- The newest checkpoint of a run directory, also of one that was copied without its links, or with
-- what they point to in their place.
-- @treturn string its path; nil when there is none
function M.find(out)
   local path, steps = linked(out, "latest"), steps_of(out)
   if path then return path end
   if #steps > 0 then return path_of(out, steps[#steps]) end
   path = root_of(out) .. "/latest"
   return core.sys.exists(path .. "/hf") and path or nil
end

--- The checkpoint of the best evaluation, or nil.
function M.find_best(out) return linked(out, "best") end

-- ---------------------------------------------------------------------------------------------
-- Room.

--- Bytes of a checkpoint, nearly.
local function bytes_of(run)
   local bytes = SLACK_BYTES + 8 * #run.losses + run.plan.blueprint:state_bytes()
   for _, param in ipairs(run.plan.graphs[1]:params()) do
      local count = 1
      for _, dim in ipairs(param.dims) do count = count * dim end
      if not run.model.lora or adapters.saves(param) then bytes = bytes + 4 * count end
   end
   return bytes
end

local function megabytes(bytes) return ("%.1f MB"):format(bytes / 1e6) end

--- What the disk lacks for a checkpoint, as text; nil when it has the room.
local function missing(run)
   local needed, free = bytes_of(run), core.io.free_bytes(above(run.out))
   if needed <= free then return nil end
   return ("%s are missing: a checkpoint needs %s, its disk has %s left"):format(
      megabytes(needed - free), megabytes(needed), megabytes(free))
end

--- What is left of a run that ends here.
-- @local
function M.what_is_left(run)
   local found = M.find(run.out)
   return found and named.words(run.args, "%s is whole, {resume} goes on from it"):format(found)
      or "there is no checkpoint yet"
end

--- Raises when a checkpoint of the run has no room on its disk.
-- @tparam table run of it: out, which need not be there yet, plan, model, losses, args
function M.check_room(run)
   local lack = missing(run)
   if lack then
      core.fail("input or output failed", ("%s: no room for a checkpoint: %s; %s"):format(run.out,
         lack, M.what_is_left(run)))
   end
end

-- ---------------------------------------------------------------------------------------------
-- Writing.

--- A list of numbers as an f64 tensor, and back.
local function pack(list)
   local tensor = core.tensor.zeros({ #list }, "f64")
   for i, value in ipairs(list) do tensor:set(i, value) end
   return tensor
end

--- Tensors of state.safetensors, as run.engine:write takes them: the optimizer's by parameter and
-- part, losses of all steps.
local function tensors_of(run)
   local list = { { name = "losses", tensor = pack(run.losses) } }
   for i, param in ipairs(run.plan.graphs[1]:params()) do
      for k, part in ipairs(run.engine:state_names(i)) do
         list[#list + 1] = { name = "optimizer/" .. param.name .. "/" .. part,
            tensor = { param = i, part = k } }
      end
   end
   return list
end

--- What computes the run's numbers here, in all its processes; nil where cards do.
local function processor_of(run)
   for _, device in ipairs(run.plan.devices) do
      if device.in_host then return processors.all() end
   end
end

local function record_of(run)
   return {
      format = FORMAT,
      ftpipe = core.version,
      step = run.done,
      batch = run.done, -- batches drawn: one for each step, over all epochs
      seconds = run.seconds,
      tokens = run.tokens,
      best = run.best:state(),
      judged = run.judged,
      loss_scale = run.scaling and run.scaling:state(),
      numbers = numbers.of(run),
      processor = processor_of(run),
   }
end

local function write_files(run, dir)
   core.sys.mkdir(dir .. "/state")
   run:save(dir .. "/hf")
   run.engine:write(tensors_file(dir), tensors_of(run))
   core.sys.write_file(record_file(dir),
      core.json.encode(record_of(run), { indent = 2 }) .. "\n")
   core.io.sync(dir)
end

--- Removes the oldest checkpoints of a run; the best one and the last --keep stay. What is said of
-- checkpoints names a newer one by then.
function M.retire(run)
   local steps, best = steps_of(run.out), M.find_best(run.out)
   for i = 1, #steps - (run.args.keep or PRESET_KEEP) do
      local path = path_of(run.out, steps[i])
      local away = ("%s.tmp-%d"):format(path, core.sys.getpid())
      -- Out of its name first: what has the name of a checkpoint is a whole one.
      if path ~= best and os.rename(path, away) then replace.remove(away) end
   end
end

--- Writes the checkpoint of the step that was just done, and removes no other. The pipeline is
-- drained.
-- @tparam run run
-- @tparam boolean is_best whether `best` is to point to it
-- @treturn string its path
-- @raise input or output failed: then the one before it is as it was
function M.write(run, is_best)
   local root, name = root_of(run.out), "step-" .. run.done
   core.sys.mkdir(root)
   replace.sweep(root)
   M.check_room(run)
   local ok, problem = pcall(function()
      replace.directory(root .. "/" .. name, function(dir) write_files(run, dir) end)
      if is_best then core.io.link(root .. "/best", name) end
      core.io.link(root .. "/latest", name)
   end)
   if not ok then
      local lack = missing(run)
      core.fail(type(problem) == "table" and problem.status or "input or output failed",
         ("step %d could not be saved: %s%s; %s"):format(run.done, tostring(problem),
            lack and " (" .. lack .. ")" or "", M.what_is_left(run)))
   end
   return root .. "/" .. name
end

--- Makes hf/ of the run directory the model of a checkpoint, without a second copy where the file
-- system can do that.
-- @treturn boolean false: it cannot, hf/ is as it was
function M.publish(out, path) return checkpoint.link(out .. "/hf", path .. "/hf") end

-- ---------------------------------------------------------------------------------------------
-- Reading.

local function read_text(path) return small_file(record_file(path), MOST_BYTES) end

local function read_record(path)
   local file = record_file(path)
   local record = core.json.decode(read_text(path), file)
   local format
   if type(record) == "table" then format = record.format end
   if format ~= FORMAT then
      malformed("%s: the format is %s, expected %d (this is ftpipe %s)", file, format, FORMAT,
         core.version)
   end
   if record.numbers ~= nil and type(record.numbers) ~= "table" then
      malformed("%s: 'numbers' is %s, expected an object", file, record.numbers)
   end
   for _, key in ipairs { "step", "batch", "seconds", "tokens" } do
      if type(record[key]) ~= "number" then
         core.fail("malformed data", ("%s: '%s' is no number"):format(file, key))
      end
   end
   if record.step < 0 or record.step % 1 ~= 0 or record.step > 2 ^ 53 then
      core.fail("malformed data", ("%s: 'step' is no number of a step"):format(file))
   end
   local best = record.best
   if best ~= nil and not (type(best) == "table" and type(best.step) == "number"
      and type(best.value) == "number" and type(best.metric) == "string"
      and type(best.text) == "string" and type(best.since) == "number"
      and (best.data == nil or type(best.data) == "string"))
   then
      core.fail("malformed data",
         file .. ": 'best' is not an evaluation (step, value, metric, text, since, data)")
   end
   if record.loss_scale ~= nil and not scaling.is_state(record.loss_scale) then
      core.fail("malformed data", file .. ": 'loss_scale' is not a power of two and a count of "
         .. "steps (factor, good)")
   end
   return record
end

--- Where a checkpoint lies under a link's name instead of behind it: gives it its own name, or
-- removes it if that is there already.
local function unfold(out, name)
   local path = root_of(out) .. "/" .. name
   if core.io.link_target(path) or core.sys.exists(path) ~= "directory" then return end
   local own = path_of(out, read_record(path).step)
   if not core.sys.exists(own) then
      local moved, problem = os.rename(path, own)
      if not moved then core.fail("input or output failed", problem) end
   elseif read_text(own) == read_text(path) then
      replace.remove(path)
   else
      core.fail("malformed data", ("%s: a directory, and not the same as %s: remove one of them")
         :format(path, own))
   end
end

--- Makes the links of a run directory anew that a copy has lost.
-- @raise malformed data
function M.mend(out)
   for _, name in ipairs { "latest", "best" } do unfold(out, name) end
   local newest = M.find(out)
   if not newest then return end
   if not linked(out, "latest") then
      core.io.link(root_of(out) .. "/latest", newest:match("[^/]+$"))
   end
   local best = read_record(newest).best
   if best and not linked(out, "best") and core.sys.exists(path_of(out, best.step)) then
      core.io.link(root_of(out) .. "/best", ("step-%d"):format(best.step))
   end
end

--- Whether the run may lack a part of a parameter's state: how large steps are is only known where
-- gradients are divided by it, and begins anew with that (src/optim/gap.c).
local function may_begin(run, record, part)
   local was = record.numbers and record.numbers.weights
   return part:find("^gap_") and was ~= numbers.of(run).weights
end

local function read_optimizer(run, archive, record, path)
   local list = {}
   for i, param in ipairs(run.plan.graphs[1]:params()) do
      for k, part in ipairs(run.engine:state_names(i)) do
         local name = "optimizer/" .. param.name .. "/" .. part
         if archive:spec(name) then
            list[#list + 1] = { name = name, tensor = { param = i, part = k } }
         elseif not may_begin(run, record, part) then
            core.fail("malformed data", ("%s: holds no tensor %s"):format(path, name))
         end
      end
   end
   run.engine:read(path, list)
end

local function check_losses(archive, path, steps)
   local spec = archive:spec("losses")
   if not spec or spec.dims[1] ~= steps then
      core.fail("malformed data", ("%s: expected the losses of %d steps"):format(path, steps))
   end
end

local function read_losses(archive, path, steps)
   check_losses(archive, path, steps)
   if steps == 0 then return {} end
   return archive:read("losses", core.tensor.zeros({ steps }, "f64")):totable()
end

--- A run's parameters, as model:fill takes them. Its processes read and draw them themselves.
-- @tparam run run
-- @tparam boolean refuses processes that have another file at the path of one
-- @local
function M.params_of(run, refuses)
   local engine = run.engine
   return {
      seed = run.plan.options.seed,
      tensor_of = function(i) return engine:param(i) end,
      draw = function(...) engine:draw(...) end,
      read = function(path, rows)
         local list = {}
         for k, row in ipairs(rows) do
            list[k] = { name = row.name, tensor = { param = row.number } }
         end
         engine:read(path, list, refuses)
      end,
   }
end

--- Brings the weights of a checkpoint back; a refresh is to follow.
-- @tparam run run
-- @tparam string path of the checkpoint
-- @local
function M.restore(run, path)
   run.model:restore(path .. "/hf", run.plan.graphs[1]:params(), M.params_of(run, false))
end

--- Raises where a run has gone on for longer than it is to.
local function check_steps(run, step, path)
   local steps = run.plan.options.steps
   if not steps or step <= steps then return end
   usage.of(run.args, "{resume}: %s was written after step %d, and %s ends before: give {steps=%d} "
      .. "or more", path, step, named.value(run.args, "steps", steps), step)
end

--- Raises where a run would not go on from a checkpoint because of its arguments.
-- @tparam table run of it: what store/numbers.lua looks at
-- @tparam string path of the checkpoint
-- @treturn table what state.json says
-- @raise invalid argument: arguments would change the numbers; not found, malformed data
function M.check(run, path)
   local record = read_record(path)
   numbers.check(run, record.numbers or {}, record.step, path)
   check_steps(run, record.step, path)
   return record
end

--- Kernels of other processors add in another order.
local function remark_processor(run, record)
   local was, is = record.processor, processor_of(run)
   if not is or type(was) ~= "string" or was == is then return end
   run:say(named.words(run.args, "{resume}: the checkpoint was written on %s, this is %s: numbers "
      .. "may differ in their last bits from what they would have been there"):format(was, is))
end

--- Raises what is wrong with the files that a run would go on from, by what they say of themselves:
-- no tensor is read.
-- @tparam table run of it: plan, model
-- @tparam string path of the checkpoint
-- @raise not found, malformed data, shape mismatch
function M.check_files(run, path)
   local record, file = read_record(path), tensors_file(path)
   run.model:check_saved(path .. "/hf", run.plan.graphs[1]:params())
   local archive = core.io.archive(file)
   check_losses(archive, file, record.step)
   archive:close()
end

--- Brings a new run to where a checkpoint was written.
-- @tparam run run
-- @tparam string path of the checkpoint
-- @treturn table the state of its best evaluation, or nil
-- @raise invalid argument: arguments would change the numbers; not found, malformed data
function M.read(run, path)
   local record = M.check(run, path)
   M.restore(run, path)
   local file = tensors_file(path)
   local archive = core.io.archive(file)
   read_optimizer(run, archive, record, file)
   run.losses = read_losses(archive, file, record.step)
   archive:close()
   run.engine:refresh()
   if run.scaling then run.scaling = scaling.new(record.loss_scale) end
   run.loss_mean, run.tokens = figures.mean(run.losses), record.tokens
   run.done, run.seconds, run.judged = record.step, record.seconds, record.judged
   run.saved = run.done
   remark_processor(run, record)
   return record.best
end

return M

--- Packs of stages: what --packs asks for.
--
-- An order that groups takes all micro-batches of a batch through one stage of a device, then the
-- next. With packs it takes each of them through several stages that follow each other: forward
-- through those of a forward pack, back through those of a backward pack. What passes between
-- stages of a pack needs room for one micro-batch, and not for all. The last backward pack is taken
-- forward and back at once, as in Harmony, so that it keeps activations of one micro-batch alone.

local named = require("ftpipe.base.named")
local usage = require("ftpipe.base.usage")

local M = {}

-- Packs that are tried where nobody says how large: larger ones leave less between stages, and take
-- the weights of more at once.
M.TRIED = { "2/2", "4/4" }

--- Stages of a forward and of a backward pack, at most; nil where nothing is said.
-- @tparam table o packs: "3/1"
function M.sizes(o)
   if not o.packs then return nil end
   local forward, backward = o.packs:match("^([1-9]%d?%d?)/([1-9]%d?%d?)$")
   if not forward then
      usage("%s: expected stages of a forward pack and of a backward pack, as 3/1",
         named.value(o, "packs", o.packs))
   end
   return tonumber(forward), tonumber(backward)
end

--- Stages that follow each other on a device, where these take turns.
function M.run(o)
   local forward, backward = M.sizes(o)
   return forward and math.max(forward, backward) or 1
end

--- Whether two stages are on the same devices; each is a device, or a list of them.
local function together(a, b)
   if type(a) ~= "table" or type(b) ~= "table" then return a == b end
   return table.concat(a, " ") == table.concat(b, " ")
end

--- Tasks of stages in the order of the model, as engine.plan takes them: packs that are as large as
-- they may be, but for the first of those that follow each other on a device.
-- @tparam table o packs
-- @tparam table places by stage, its device or a list of them
-- @treturn[opt] table { forward = , backward = (by stage, the number of its task) }
function M.tasks(o, places)
   local forward_size, backward_size = M.sizes(o)
   if not forward_size then return nil end
   local tasks, number = { forward = {}, backward = {} }, 0
   local function cut(list, last, size)
      local count = size
      for s = last, 1, -1 do
         if count == size or not together(places[s], places[s + 1]) then
            number, count = number + 1, 0
         end
         list[s], count = number, count + 1
      end
   end
   local last = #places
   cut(tasks.backward, last, backward_size)
   while last > 0 and tasks.backward[last] == 1 do
      tasks.forward[last], last = 1, last - 1
   end
   cut(tasks.forward, last, forward_size)
   return tasks
end

--- How many micro-batches go forward as one, by stage; nil where each goes by itself. Those that go
-- forward and back at once do, and so do tasks that sum over rows, as parts of a loss: of several
-- micro-batches there is one sum.
-- @tparam table o micro_batches, forward_micro_batches
-- @tparam[opt] table tasks of `tasks`
-- @tparam graph graph of a micro-batch
-- @tparam {int,...} stage by forward node
function M.joint(o, tasks, graph, stage)
   local n, list = M.together(o), {}
   if n == 1 or not tasks then return nil end
   local sums = {}
   for i, s in ipairs(stage) do
      if #graph:spec(graph:node(i).out).dims == 0 then sums[tasks.forward[s]] = true end
   end
   for s, task in ipairs(tasks.forward) do
      list[s] = (task == tasks.backward[s] or sums[task]) and 1 or n
   end
   return list
end

--- Micro-batches that go forward as one, where some do.
function M.together(o)
   return o.micro_batches / (o.forward_micro_batches or o.micro_batches)
end

return M

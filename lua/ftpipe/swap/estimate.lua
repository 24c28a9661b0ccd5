--- Time of Harmony's tasks: discrete events on the streams of each device.
--
-- A device has streams for swapping in and out, receiving and sending to peers, computing, and its
-- share of the CPU. Events of a stream run in the order in which they are made here (the first half
-- of this file) after the events that they depend on (the second half); a transfer between peers
-- begins when both sides can. `overlap` fetches the next task's inputs and weights while the
-- present one computes, with two buffers; without it a task begins when the one before it has left.

local core = require("ftpipe.core")

local M = {}

-- ---------------------------------------------------------------------------------------------
-- Micro-batches of another size in the backward pass.

--- By forward micro-batch the backward ones that it completes, and by backward one the forward one
-- that does.
local function resize(forward, backward)
   local completes, completed_by, at, held = {}, {}, 1, 0
   for i, size in ipairs(forward) do
      completes[i] = {}
      held = held + size
      while backward[at] and held >= backward[at] do
         held = held - backward[at]
         table.insert(completes[i], at)
         completed_by[at] = i
         at = at + 1
      end
   end
   return { completes = completes, completed_by = completed_by }
end

local function first_of(tasks, kind)
   for _, task in ipairs(tasks) do
      if task.kind == kind then return task end
   end
end

-- ---------------------------------------------------------------------------------------------
-- Making events.

local Maker = {}
Maker.__index = Maker

local function sum_of(list, first, last)
   local sum = 0
   for layer = first, last do sum = sum + list[layer] end
   return sum
end

--- Bytes of what enters a layer; nothing leaves the last one.
function Maker:entering(layer, micro)
   return micro * (self.profile.input_bytes[layer] or 0)
end

function Maker:swap_s(bytes) return bytes / (self.rates.swap_bytes_per_s / self.working) end

function Maker:peer_s(bytes) return bytes / self.rates.peer_bytes_per_s end

function Maker:message_s(bytes, from, to)
   if from.device == to.device then return 0 end
   return 2 * bytes / (self.rates.message_bytes_per_s / self.working)
end

function Maker:times(kind, micro)
   local list = self.profile[kind][micro]
   if not list then
      core.fail("invalid argument",
         ("swap: the profile has no %s of micro-batches of %d"):format(kind, micro))
   end
   return list
end

--- A new event at the end of a stream of the task's device.
function Maker:event(task, stream, seconds)
   local key = task.device .. stream
   local queue = self.queues[key]
   if not queue then
      queue = { next = 1, time = 0 }
      self.queues[key], self.order[#self.order + 1] = queue, queue
   end
   local event = { seconds = seconds, after = {}, before = queue[#queue] }
   queue[#queue + 1] = event
   return event
end

--- A forward task is cut where it stashes, so that a stash can leave before the rest has run.
local function parts_of(task)
   local parts = {}
   local function begin(layer)
      if #parts > 0 then parts[#parts].last = layer - 1 end
      parts[#parts + 1] = { first = layer }
   end
   if not task.stash[1] or task.stash[1].layer ~= task.first then begin(task.first) end
   for _, stash in ipairs(task.stash) do
      begin(stash.layer)
      parts[#parts].stash = stash
   end
   parts[#parts].last = task.last
   return parts
end

--- Backward micro-batches that a forward one completes.
function Maker:completed(i)
   return self.sizes and self.sizes.completes[i] or { i }
end

function Maker:micro_of(i, ready)
   return self.sizes and self.backward_sizes[ready] or self.forward_sizes[i]
end

function Maker:make_stash(task, e, i, p, part)
   local bytes = self:entering(part.first, task.micros[i])
   e.stash[i][p] = self:event(task, "swap out", self:swap_s(bytes))
   for _, ready in ipairs(self:completed(i)) do
      bytes = self:entering(part.first, self:micro_of(i, ready))
      local message = self:event(task, "cpu", self:message_s(bytes, task, part.stash.to))
      message.after[1] = e.stash[i][p]
      e.messages[p][ready] = message
   end
end

function Maker:make_output(task, e, i)
   local layer = task.last + 1
   local bytes = self:entering(layer, task.micros[i])
   if task.output.medium == "peer" then
      e.output[i] = self:event(task, "send", self:peer_s(bytes))
      return
   end
   e.output[i] = self:event(task, "swap out", self:swap_s(bytes))
   if task.output.medium ~= "message" then return end
   for _, ready in ipairs(self:completed(i)) do
      bytes = self:entering(layer, self:micro_of(i, ready))
      local message = self:event(task, "cpu", self:message_s(bytes, task, task.output.to))
      message.after[1] = e.output[i]
      e.output_messages[ready] = message
   end
end

function Maker:make_forward(task, e, i)
   local times = self:times("forward_s", task.micros[i])
   e.compute[i], e.stash[i] = {}, {}
   for p, part in ipairs(e.parts) do
      e.compute[i][p] = self:event(task, "compute", sum_of(times, part.first, part.last))
   end
   for p, part in ipairs(e.parts) do
      if part.stash then self:make_stash(task, e, i, p, part) end
   end
   self:make_output(task, e, i)
end

function Maker:make_backward(task, e, i)
   local micro = task.micros[i]
   local forward_s = sum_of(self:times("forward_s", micro), task.first, task.last)
   local both_s = sum_of(self:times("backward_s", micro), task.first, task.last)
   e.recompute[i] = self:event(task, "compute", forward_s)
   e.backward[i] = self:event(task, "compute", both_s - forward_s)
   if not task.gradient_out then return end
   local bytes = self:entering(task.first, micro)
   if task.gradient_out.medium == "peer" then
      e.gradient_out[i] = self:event(task, "send", self:peer_s(bytes))
   else
      e.gradient_out[i] = self:event(task, "swap out", self:swap_s(bytes))
   end
end

--- What a task reads for micro-batch i: its input or stash, and the gradient of its output.
function Maker:make_inputs(task, e, i)
   local bytes = self:entering(task.first, task.micros[i])
   if task.input and task.input.medium == "peer" then
      e.input[i] = self:event(task, "receive", self:peer_s(bytes))
   else
      e.input[i] = self:event(task, "swap in", self:swap_s(bytes))
   end
   if not task.gradient_in then return end
   bytes = self:entering(task.last + 1, task.micros[i])
   if task.gradient_in.medium == "peer" then
      e.gradient_in[i] = self:event(task, "receive", self:peer_s(bytes))
   else
      e.gradient_in[i] = self:event(task, "swap in", self:swap_s(bytes))
   end
end

function Maker:make_end(task, e, weights_s)
   if task.kind == "backward" then
      if self.alone and self.working > 1 then
         local bytes = sum_of(self.profile.weight_bytes, task.first, task.last)
         e.reduce = self:event(task, "compute",
            2 * (self.working - 1) / self.working * self:peer_s(bytes))
      end
      e.weights_out = self:event(task, "swap out", weights_s)
   end
   e.free = self:event(task, "compute", self.rates.free_s)
end

--- All events of a task, in the order of their streams.
function Maker:make(task, left)
   local e = {
      input = {}, gradient_in = {}, compute = {}, stash = {}, messages = {}, output = {},
      output_messages = {}, recompute = {}, backward = {}, gradient_out = {},
   }
   self.events[task] = e
   if task.kind == "update" then
      e.update = self:event(task, "cpu", sum_of(self.profile.update_s, task.first, task.last))
      return
   end
   local weights_s = self:swap_s(sum_of(self.profile.weight_bytes, task.first, task.last))
   local inputs_first = self.overlap and left
      and (self.alone or task.kind == "backward" and not task.loss)
   if not inputs_first then e.weights = self:event(task, "swap in", weights_s) end
   if task.kind == "forward" then
      e.parts = parts_of(task)
      for p in ipairs(e.parts) do e.messages[p] = {} end
   end
   for i in ipairs(task.micros) do
      self:make_inputs(task, e, i)
      if i == 1 and inputs_first then e.weights = self:event(task, "swap in", weights_s) end
      if task.kind == "forward" then
         self:make_forward(task, e, i)
      else
         self:make_backward(task, e, i)
      end
   end
   self:make_end(task, e, weights_s)
end

-- ---------------------------------------------------------------------------------------------
-- What waits for what.

local function wait(event, other)
   if other then event.after[#event.after + 1] = other end
end

--- Both sides of a transfer between peers wait for what either waits for.
local function meet(one, other)
   one.peer, other.peer = other, one
end

--- The last computation of micro-batch i of a task.
function Maker:done(task, i)
   local e = self.events[task]
   if task.kind == "backward" then return e.backward[i] end
   return e.compute[i] and e.compute[i][#e.parts]
end

--- Inputs of the first micro-batch come when there is room for them: after the computation before
-- the last one of the task before.
function Maker:wait_for_room(event, left, left2)
   if not left then return end
   if #left.micros >= 2 then
      wait(event, self:done(left, #left.micros - 1))
   elseif left2 then
      wait(event, self.events[left2].free)
   end
end

--- Without overlap, an input comes when the micro-batch before has gone.
function Maker:gone(task, i)
   local e = self.events[task]
   if i == 0 then return e.weights end
   if not self.alone then return self:done(task, i) end
   if task.kind == "forward" then return e.output[i] end
   return e.gradient_out[i] or e.backward[i]
end

function Maker:link_input(task, i, left, left2)
   local event = self.events[task].input[i]
   if not self.overlap then
      wait(event, self:gone(task, i - 1))
   elseif i == 1 then
      self:wait_for_room(event, left, left2)
   elseif i == 2 then
      wait(event, left and self.events[left].free)
   else
      wait(event, self:done(task, i - 2))
   end
   if task.stashed_by then
      local source = self.events[task.stashed_by]
      for p, part in ipairs(source.parts) do
         if part.stash and part.stash.to == task then wait(event, source.messages[p][i]) end
      end
      return
   end
   local from = task.input.from and self.events[task.input.from]
   if task.input.medium == "peer" then
      meet(event, from.output[i])
   elseif task.input.medium == "message" then
      wait(event, from.output_messages[i])
   elseif task.input.medium == "host" then
      local at = task.loss and self.sizes and self.sizes.completed_by[i] or i
      wait(event, from.output[at])
   end
end

function Maker:link_gradient(task, i, left, left2)
   local e = self.events[task]
   local event = e.gradient_in[i]
   if task.gradient_in.medium == "peer" then
      meet(event, self.events[task.gradient_in.from].gradient_out[i])
   else
      wait(event, self.events[task.gradient_in.from].gradient_out[i])
   end
   if not self.overlap then
      wait(event, e.recompute[i])
   elseif i > 1 then
      wait(event, e.recompute[i - 1])
   elseif left and (self.alone or left.kind == "backward" and not left.loss) then
      wait(event, self.events[left].recompute[#left.micros])
   else
      self:wait_for_room(event, left, left2)
   end
end

function Maker:link_forward(task, i, left)
   local e = self.events[task]
   for p in ipairs(e.parts) do
      local compute, stash = e.compute[i][p], e.stash[i][p]
      if p == 1 then
         if i == 1 then wait(compute, e.weights) end
         wait(compute, e.input[i])
      end
      if stash then
         if not self.overlap then wait(compute, stash) end
         wait(stash, p > 1 and e.compute[i][p - 1] or e.input[i])
         if p == 1 and self.overlap then
            wait(stash, i > 1 and self:done(task, i - 1) or left and self.events[left].free)
         end
      end
   end
   wait(e.output[i], self:done(task, i))
end

function Maker:link_backward(task, i)
   local e = self.events[task]
   if i == 1 then wait(e.recompute[i], e.weights) end
   wait(e.recompute[i], e.input[i])
   wait(e.backward[i], e.gradient_in[i])
   if e.gradient_out[i] then wait(e.gradient_out[i], e.backward[i]) end
end

function Maker:link_end(task)
   local e = self.events[task]
   local n = #task.micros
   local last_out = self.alone and not self.overlap and (e.gradient_out[n] or e.output[n])
   if task.kind == "backward" then
      if e.reduce then
         wait(e.reduce, last_out)
         wait(e.weights_out, e.reduce)
      else
         wait(e.weights_out, last_out)
      end
      wait(e.weights_out, e.backward[n])
      wait(e.free, e.weights_out)
   else
      wait(e.free, last_out)
   end
end

function Maker:link(task, left, left2)
   local e = self.events[task]
   if task.kind == "update" then
      wait(e.update, self.events[task.after].weights_out)
      return
   end
   if left then
      wait(e.weights, self.overlap and self:done(left, #left.micros) or self.events[left].free)
   end
   for i in ipairs(task.micros) do
      self:link_input(task, i, left, left2)
      if task.gradient_in then self:link_gradient(task, i, left, left2) end
      if task.kind == "forward" then
         self:link_forward(task, i, left)
      else
         self:link_backward(task, i)
      end
   end
   self:link_end(task)
end

-- ---------------------------------------------------------------------------------------------
-- Running them.

--- When everything has ended that the event waits for; nil while something has not.
local function ready_at(event, time)
   for _, other in ipairs(event.after) do
      if not other.ends then return nil end
      time = math.max(time, other.ends)
   end
   return time
end

local function start_of(event, time)
   time = ready_at(event, time)
   local peer = event.peer
   if not time or not peer then return time end
   if peer.before then
      if not peer.before.ends then return nil end
      time = math.max(time, peer.before.ends)
   end
   return ready_at(peer, time)
end

local function run(order)
   local left, moved = 0, true
   for _, queue in ipairs(order) do left = left + #queue end
   while left > 0 do
      if not moved then
         core.fail("plan infeasible", ("swap: %d events wait for each other"):format(left))
      end
      moved = false
      for _, queue in ipairs(order) do
         local event = queue[queue.next]
         local start = event and start_of(event, queue.time)
         while start do
            event.ends = start + event.seconds
            queue.time, queue.next = event.ends, queue.next + 1
            left, moved = left - 1, true
            event = queue[queue.next]
            start = event and start_of(event, queue.time)
         end
      end
   end
end

--- Calls f(task, left, left2) for every task of the devices simulated, with the two tasks that the
-- device computed before it.
function Maker:each(f)
   local left, left2 = {}, {}
   for _, task in ipairs(self.tasks) do
      local d = task.device
      if not self.alone or d == 1 then
         f(task, left[d], left2[d])
         if task.kind ~= "update" then left2[d], left[d] = left[d], task end
      end
   end
end

local function count_devices(tasks)
   local seen, n = {}, 0
   for _, task in ipairs(tasks) do
      if not seen[task.device] then seen[task.device], n = true, n + 1 end
   end
   return n
end

--- Estimates the time of one update.
-- @tparam table tasks as composed
-- @tparam table profile lists by layer: weight_bytes, update_s, input_bytes (of one sample),
--   forward_s[micro] and backward_s[micro] (which has the recomputed forward in)
-- @tparam table rates swap_bytes_per_s and message_bytes_per_s (of the host, each way),
--   peer_bytes_per_s (of a pair), free_s (to release a task)
-- @tparam boolean overlap
-- @treturn table seconds, and by_device
function M.run(tasks, profile, rates, overlap)
   local forward, backward = first_of(tasks, "forward"), first_of(tasks, "backward")
   local self = setmetatable({
      tasks = tasks, profile = profile, rates = rates, overlap = overlap,
      -- Devices with data parallelism do the same at the same time: one of them is enough.
      alone = tasks.mode == "data" or tasks.devices == 1,
      working = count_devices(tasks),
      queues = {}, order = {}, events = {},
      forward_sizes = forward and forward.micros, backward_sizes = backward.micros,
   }, Maker)
   if forward and tasks.forward_micro ~= tasks.backward_micro then
      self.sizes = resize(forward.micros, backward.micros)
   end
   self:each(function(task, left) self:make(task, left) end)
   self:each(function(task, left, left2) self:link(task, left, left2) end)
   run(self.order)
   local result = { seconds = 0, by_device = {} }
   for key, queue in pairs(self.queues) do
      local device = tonumber(key:match("^%d+"))
      result.by_device[device] = math.max(result.by_device[device] or 0, queue.time)
      result.seconds = math.max(result.seconds, queue.time)
   end
   return result
end

return M

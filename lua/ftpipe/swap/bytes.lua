--- Bytes that Harmony's tasks move, and the memory they need.

local M = {}

local function sum(list, first, last)
   local total = 0
   for layer = first, last do total = total + list[layer] end
   return total
end

local function count_samples(task)
   local n = 0
   for _, size in ipairs(task.micros) do n = n + size end
   return n
end

--- The first backward task of each device, with the last forward task of the same device: layers
-- of both stay where they are.
local function neighbours(tasks)
   local last_forward, first_backward = {}, {}
   for _, task in ipairs(tasks) do
      local d = task.device
      if task.kind == "forward" then last_forward[d] = task end
      if task.kind == "backward" then first_backward[d] = first_backward[d] or task end
   end
   local stays = {}
   for d, task in pairs(first_backward) do stays[task] = last_forward[d] end
   return stays
end

local function add(row, key, bytes) row[key] = (row[key] or 0) + bytes end

local function count_forward(row, task, entering)
   for _, stash in ipairs(task.stash) do add(row, "stash_out", entering(task, stash.layer)) end
   local peer = task.output.medium == "peer"
   add(row, peer and "output_to_peer" or "output_out", entering(task, task.last + 1))
end

local function count_backward(row, task, entering, tasks, weights)
   -- with data parallelism gradients are summed first, and one device hands them to the CPU
   if tasks.mode == "pipeline" or task.device == 1 then add(row, "gradient_out", weights) end
   if tasks.mode == "data" and tasks.devices > 1 then add(row, "reduced", weights) end
   if task.gradient_out then
      local peer = task.gradient_out.medium == "peer"
      add(row, peer and "input_gradient_to_peer" or "input_gradient_out",
         entering(task, task.first))
   end
   if task.gradient_in and task.gradient_in.medium ~= "peer" then
      add(row, "output_gradient_in", entering(task, task.last + 1))
   end
end

--- Bytes by device and class of one update, with the optimizer on the CPU: weights_in, gradient_out
-- and reduced of parameters; data_in, stash_out and stash_in; output_out and input_in, or
-- output_to_peer; input_gradient_out and output_gradient_in, or input_gradient_to_peer.
function M.count(tasks, profile)
   local rows, stays = {}, neighbours(tasks)
   local function entering(task, layer)
      return count_samples(task) * (profile.input_bytes[layer] or 0)
   end
   for _, task in ipairs(tasks) do
      if task.kind ~= "update" then
         local row = rows[task.device] or {}
         rows[task.device] = row
         local weights, kept = sum(profile.weight_bytes, task.first, task.last), 0
         local with = stays[task]
         if with then
            kept = sum(profile.weight_bytes, math.max(task.first, with.first),
               math.min(task.last, with.last))
         end
         add(row, "weights_in", weights - kept)
         local medium = task.input and task.input.medium
         if task.stashed_by then
            add(row, "stash_in", entering(task, task.first))
         elseif medium ~= "peer" then
            add(row, medium == "data" and "data_in" or "input_in", entering(task, task.first))
         end
         if task.kind == "forward" then
            count_forward(row, task, entering)
         else
            count_backward(row, task, entering, tasks, weights)
         end
      end
   end
   return rows
end

--- Peak bytes by device: a pack's layers, less the outputs that two of them count, and what enters
-- and leaves it. forward_bytes and backward_bytes are those of layers, by themselves.
function M.peak(tasks, profile)
   local peaks = {}
   local function entering(task, layer)
      return task.micros[1] * (profile.input_bytes[layer] or 0)
   end
   for _, task in ipairs(tasks) do
      if task.kind ~= "update" then
         local forward = task.kind == "forward"
         local bytes = sum(forward and profile.forward_bytes or profile.backward_bytes, task.first,
            task.last)
         for layer = task.first + 1, task.last do bytes = bytes - entering(task, layer) end
         local input, output = entering(task, task.first), entering(task, task.last + 1)
         bytes = bytes + input + output
         if forward then
            for _, stash in ipairs(task.stash) do bytes = bytes + entering(task, stash.layer) end
         else
            bytes = bytes + input + (task.first > 1 and input or 0)
         end
         peaks[task.device] = math.max(peaks[task.device] or 0, bytes)
      end
   end
   return peaks
end

return M

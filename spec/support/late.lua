--- Training with weights that are late, from the formulas: no plan, no action, no engine.
--
-- Stages are a chain of P, numbered from 0; batches, micro-batches and versions count from 0, and
-- version v is what the weights are after v updates. One forward, one backward without a flush
-- means that stage s begins micro-batch i when i - (P - 1 - s) backwards are behind it, so with m
-- micro-batches in a batch its newest weights are then those of (i - (P - 1 - s)) / m updates.
-- Gradients are those of the whole graph, run at once with weights of such versions; operators are
-- the program's, all else is written out here.

local ffi = require("ffi")

local core = require("ftpipe.core")
require("ftpipe.base.tensor") -- pointer()
local pipeline = require("spec.support.pipeline")

local M = {}

--- By control: the version that stage s of P reads for micro-batch i, of m in each batch.
M.versions = {
   -- w(t+1) = w(t) - rate grad f(w_1(t-P+1), ..., w_P(t)), with one micro-batch in a batch
   stash = function(s, i, P, m) return math.floor(math.max(0, i - (P - 1 - s)) / m) end,
   -- w(t+1) = w(t) - rate grad f(w_1(t-P+1), ..., w_P(t-P+1))
   vertical = function(_, i, P, m) return math.floor(math.max(0, i - (P - 1)) / m) end,
   -- w(t+1) = w(t) - rate grad f(w(t-1))
   ["2bw"] = function(_, i, _, m) return math.max(0, math.floor(i / m) - 1) end,
}

--- The same where no forward's weights may be more than `bound` updates late.
function M.bounded(version, bound)
   return function(s, i, P, m) return math.max(version(s, i, P, m), math.floor(i / m) - bound) end
end

--- The same as stash where stage s has counts[s + 1] replicas, to which micro-batches are dealt in
-- turns: each goes by those of its own, and by as many workers behind it as come on each replica.
function M.replicated(counts)
   return function(s, i, P, m)
      local n, behind = counts[s + 1], 0
      for later = s + 2, P do behind = behind + counts[later] end
      local own = math.floor(i / m) * (m / n) + math.floor(i % m / n)
      return math.floor(math.max(0, own - math.ceil(behind / n)) / (m / n))
   end
end

local float = ffi.new("float[1]")

--- The nearest f32.
local function round(x)
   float[0] = x
   return tonumber(float[0])
end

local function floats(tensor) return ffi.cast("float *", tensor:pointer()), tensor:count() end

local function copy_of(tensor)
   local copy = core.tensor.zeros(tensor:shape(), "f32")
   ffi.copy(copy:pointer(), tensor:pointer(), 4 * tensor:count())
   return copy
end

--- The rate of a batch, which counts from 0.
local function rate_of(o, batch) return o.rates and o.rates(batch) or o.rate end

--- The root mean square of a parameter, which Adafactor's rates are multiplied by.
local function size_of(param)
   local p, n = floats(param)
   local sum = 0
   for i = 0, n - 1 do sum = sum + p[i] * p[i] end
   return math.max(1e-3, math.sqrt(sum / n))
end

--- Adafactor's mean squares of gradients, brought to a step: of a matrix the means of its rows and
-- columns stand for those of its numbers.
-- @treturn function the root of the mean square at a place
local function roots_of(g, shape, state, beta, eps)
   local R, C = shape[1], shape[2] or 1
   local function moved(old, squares) return beta * old + (1 - beta) * squares end
   if #shape == 1 then
      state.v = state.v or core.tensor.zeros(shape, "f32")
      local v = floats(state.v)
      for i = 0, R - 1 do v[i] = moved(v[i], g[i] * g[i] + eps) end
      return function(i) return math.sqrt(v[i]) end
   end
   state.row = state.row or core.tensor.zeros({ R }, "f32")
   state.col = state.col or core.tensor.zeros({ C }, "f32")
   local row, col, rows, columns = floats(state.row), floats(state.col), {}, {}
   for i = 0, R * C - 1 do
      local r, c, square = math.floor(i / C), i % C, g[i] * g[i] + eps
      rows[r], columns[c] = (rows[r] or 0) + square / C, (columns[c] or 0) + square / R
   end
   local mean = 0
   for r = 0, R - 1 do
      row[r] = moved(row[r], rows[r])
      mean = mean + row[r] / R
   end
   for c = 0, C - 1 do col[c] = moved(col[c], columns[c]) end
   return function(i) return math.sqrt(row[math.floor(i / C)] / mean * col[i % C]) end
end

--- Optimizers: each gets param, gradient and state (a table of its own), changes the first.
M.optimizers = {
   --- m = momentum m + g; p -= rate m.
   sgd = function(param, grad, state, o, step)
      local p, n = floats(param)
      local g = floats(grad)
      state.m = state.m or core.tensor.zeros(param:shape(), "f32")
      local m, rate, momentum = floats(state.m), round(rate_of(o, step - 1)), round(0.9)
      for i = 0, n - 1 do
         m[i] = momentum * m[i] + g[i]
         p[i] = p[i] - rate * m[i]
      end
   end,
   --- m, v: moving means; p -= rate (m' / (sqrt(v') + eps) + decay p).
   adamw = function(param, grad, state, o, step)
      local p, n = floats(param)
      local g = floats(grad)
      state.m = state.m or core.tensor.zeros(param:shape(), "f32")
      state.v = state.v or core.tensor.zeros(param:shape(), "f32")
      local m, v, decay = floats(state.m), floats(state.v), o.hypers.weight_decay
      local rate = rate_of(o, step - 1)
      for i = 0, n - 1 do
         m[i] = 0.9 * m[i] + 0.1 * g[i]
         v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i]
         local root = math.sqrt(v[i] / (1 - 0.999 ^ step)) + o.hypers.eps
         p[i] = p[i] * (1 - rate * decay) - rate * m[i] / (1 - 0.9 ^ step) / root
      end
   end,
   --- u = g over the root of its mean square, no longer than 1 in the mean; p -= rate size(p) (u +
   -- decay p).
   adafactor = function(param, grad, state, o, step)
      local p, n = floats(param)
      local g = floats(grad)
      local root = roots_of(g, param:shape(), state, 1 - step ^ -0.8, o.hypers.eps1)
      local squares, u = 0, {}
      for i = 0, n - 1 do
         u[i] = g[i] / root(i)
         squares = squares + u[i] * u[i]
      end
      local rate, decay = rate_of(o, step - 1) * size_of(param), o.hypers.weight_decay
      local length = math.max(1, math.sqrt(squares / n))
      for i = 0, n - 1 do p[i] = p[i] * (1 - rate * decay) - rate * u[i] / length end
   end,
}

--- Predictions by optimizer: what a parameter would be `n` updates later, were their gradients
-- zero; state is that after `step` updates, empty before the first, size that of the parameter.
M.predictions = {
   --- p - m (rate_1 momentum + rate_2 momentum^2 + ...).
   sgd = function(p, state, i, n, o, step)
      local m = state.m and state.m[i] or 0
      for k = 1, n do p = p - rate_of(o, step + k - 1) * 0.9 ^ k * m end
      return p
   end,
   adamw = function(p, state, i, n, o, step)
      local m, v = state.m and state.m[i] or 0, state.v and state.v[i] or 0
      for k = 1, n do
         local root = math.sqrt(v / (1 - 0.999 ^ (step + k))) + o.hypers.eps
         local rate = rate_of(o, step + k - 1)
         p = p * (1 - rate * o.hypers.weight_decay)
            - rate * 0.9 ^ k * m / (1 - 0.9 ^ (step + k)) / root
      end
      return p
   end,
   --- Its decay alone: it has no momentum.
   adafactor = function(p, _, _, n, o, step, size)
      for k = 1, n do p = p * (1 - rate_of(o, step + k - 1) * size * o.hypers.weight_decay) end
      return p
   end,
}

--- The parameter of version `version` moved ahead by n updates.
local function predict(full, past, version, n)
   local moved, state, size = copy_of(past.param), {}, size_of(past.param)
   for key, tensor in pairs(past.state) do state[key] = floats(tensor) end
   local x, count = floats(moved)
   for i = 0, count - 1 do
      x[i] = M.predictions[full.optimizer](x[i], state, i, n, full, version, size)
   end
   return moved
end

local function copy_state(state)
   local copies = {}
   for key, tensor in pairs(state) do copies[key] = copy_of(tensor) end
   return copies
end

--- The rows of micro-batch `micro` of every input.
local function inputs_of(graph, fed, micro, micros)
   local list = {}
   for i, input in ipairs(graph:inputs()) do
      local count = fed[i]:count() / micros
      list[i] = core.tensor.zeros(input.dims, input.dtype)
      assert(list[i]:count() == count, input.name)
      ffi.copy(list[i]:pointer(), fed[i]:pointer() + count * micro, 4 * count)
   end
   return list
end

--- Adds the gradients of a run of the whole graph to the sums, in f32: each as it is, or divided by
-- what a function says of its parameter and its place in it.
local function add_gradients(program, sums, first, penalty)
   for p, sum in ipairs(sums) do
      local from, n = floats(program:grad(p))
      local to = floats(sum)
      for i = 0, n - 1 do
         local g = penalty and from[i] / penalty(p, i) or from[i]
         to[i] = first and g or to[i] + g
      end
   end
end

--- How large the steps of a parameter are: the mean of their squares over their rates, the largest
-- rate, and how much of a mean it is yet.
local function note_step(size, before, after, rate)
   local from, n = floats(before)
   local to = floats(after)
   size.mean = size.mean or core.tensor.zeros(before:shape(), "f32")
   local mean = floats(size.mean)
   for i = 0, n - 1 do
      local step = round(round(from[i] - to[i]) / round(rate))
      mean[i] = 0.999 * mean[i] + 0.001 * step * step
   end
   size.weight = 0.999 * (size.weight or 0) + 0.001
   size.rate = math.max(size.rate or 0, rate)
end

--- What gradients of a micro-batch are divided by: 1 and the gap between the weights now and those
-- that its forward has read, over the size of a step.
-- @tparam table newest, read parameters by number
-- @tparam table sizes of note_step, by number
local function penalty_of(newest, read, sizes)
   local now, was, mean = {}, {}, {}
   for p in ipairs(newest) do
      now[p], was[p] = floats(newest[p]), floats(read[p])
      mean[p] = sizes[p].mean and floats(sizes[p].mean)
   end
   return function(p, i)
      if not mean[p] then return 1 end
      local size = sizes[p]
      local step = size.rate * math.sqrt(mean[p][i] / size.weight) + 1e-8
      return 1 + math.abs(now[p][i] - was[p][i]) / step
   end
end

--- The squared norm of each gradient.
local function squares_of(sums)
   local list = {}
   for p, sum in ipairs(sums) do
      local g, n = floats(sum)
      local total = 0
      for i = 0, n - 1 do total = total + g[i] * g[i] end
      list[p] = total
   end
   return list
end

--- What stage s multiplies its gradients of a batch by, so that their norm with all the others' is
-- at most o.clip: those of stages behind it are of the batch, those of the s stages before it of
-- s / m batches ago, rounded up, or of the first.
-- @tparam table squares by batch, from 0, then by parameter
local function clipping(o, s, batch, squares, stages, m)
   local sum = 0
   for p, stage in ipairs(stages) do
      local from = stage < s and math.max(0, batch - math.ceil(s / m)) or batch
      sum = sum + squares[from][p]
   end
   local norm = math.sqrt(sum)
   return norm > o.clip and round(o.clip / (norm + 1e-6)) or 1, norm
end

--- The gradients, each multiplied by what its stage finds.
-- @treturn number the norm that stage 0 finds, which is that of the batch
local function clip(o, sums, batch, squares, stages, m)
   squares[batch] = squares_of(sums)
   for p, sum in ipairs(sums) do
      local scale = clipping(o, stages[p], batch, squares, stages, m)
      local g, n = floats(sum)
      for i = 0, n - 1 do g[i] = g[i] * scale end
   end
   return (select(2, clipping(o, 0, batch, squares, stages, m)))
end

--- Trains as pipeline.train does.
-- @tparam table o of pipeline.train; version (of M.versions, or a function alike), stages; predicts
--   (true: what is read is moved ahead by the updates that it lacks, which is right for stages
--   whose backwards do not read their weights); gap_aware (true: gradients are divided by the gap)
-- @tparam function stage_of stage of a parameter's name
-- @treturn table losses, params, and norms where gradients are clipped
function M.train(o, stage_of)
   local plan, full = pipeline.plan(o)
   local micros, P = full.micro_batches, o.stages
   local names, newest, sums, states, programs = {}, {}, {}, {}, {}
   for p, param in ipairs(plan.graphs[1]:params()) do
      names[p], states[p] = param.name, {}
      newest[p] = core.tensor.zeros(param.dims, "f32")
      sums[p] = core.tensor.zeros(param.dims, "f32")
   end
   local by_name = {}
   for p, name in ipairs(names) do by_name[name] = newest[p] end
   plan.options.model:initialize(by_name, full.seed)
   for bucket, graph in ipairs(plan.graphs) do
      programs[bucket] = core.program.new(graph, { grads = true })
   end
   local history, losses, norms, squares, stages = { [0] = {} }, {}, {}, {}, {}
   local sizes = {}
   for p, name in ipairs(names) do stages[p], sizes[p] = stage_of(name), {} end
   for p in ipairs(names) do history[0][p] = { param = copy_of(newest[p]), state = {} } end
   for batch = 0, full.steps - 1 do
      local fed, loss = pipeline.fed(plan, full, batch), 0
      local program, graph = programs[fed.bucket], plan.graphs[fed.bucket]
      for micro = 0, micros - 1 do
         local mixed = {}
         for p in ipairs(names) do
            local i = batch * micros + micro
            local version = o.version(stages[p], i, P, micros)
            local past = history[version][p]
            mixed[p] = o.predicts and predict(full, past, version, batch - version) or past.param
         end
         local out = program:run(mixed, inputs_of(graph, fed.inputs, micro, micros))
         loss = loss + out.loss:get()
         add_gradients(program, sums, micro == 0,
            o.gap_aware and penalty_of(newest, mixed, sizes) or nil)
      end
      losses[batch + 1] = loss
      if full.clip > 0 then norms[batch + 1] = clip(full, sums, batch, squares, stages, micros) end
      history[batch + 1] = {}
      for p in ipairs(names) do
         M.optimizers[full.optimizer](newest[p], sums[p], states[p], full, batch + 1)
         if o.gap_aware then
            note_step(sizes[p], history[batch][p].param, newest[p], rate_of(full, batch))
         end
         history[batch + 1][p] = { param = copy_of(newest[p]), state = copy_state(states[p]) }
      end
   end
   local params = {}
   for p, name in ipairs(names) do params[name] = newest[p]:totable() end
   return { losses = losses, params = params, norms = norms }
end

--- The largest difference of two tables of numbers.
function M.distance(a, b)
   if type(a) == "number" then return a == b and 0 or math.abs(a - b) end
   local most = 0
   for key, value in pairs(a) do most = math.max(most, M.distance(value, b[key])) end
   return most
end

return M

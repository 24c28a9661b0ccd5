--- What benchmarks share: peers (child processes that answer each line they read with a line of
-- numbers), medians, gates, inputs of a training step.

local core = require("ftpipe.core")
local feed = require("ftpipe.data.feed")

local peer = {}

io.stdout:setvbuf("line") -- whoever waits for figures sees them as they come

--- One thread; and without the settings that slow the peer's matrix products down.
local CLEAN = "env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 "

--- Starts a command; its standard input is a pipe of ours.
function peer.open(command)
   local fifo = os.tmpname()
   os.remove(fifo)
   assert(os.execute("mkfifo " .. fifo) == 0, "mkfifo failed")
   local output = assert(io.popen(("%s%s < %s"):format(CLEAN, command, fifo)))
   local input = assert(io.open(fifo, "w"))
   os.remove(fifo)
   input:setvbuf("line")
   local child = {}

   --- Writes a line; returns the numbers of the answer.
   function child.ask(line)
      input:write(line, "\n")
      local answer, numbers = assert(output:read("*l"), "the peer ended: " .. command), {}
      for word in answer:gmatch("%S+") do
         numbers[#numbers + 1] = assert(tonumber(word), "the peer said: " .. answer)
      end
      return unpack(numbers)
   end

   function child.close()
      input:close()
      output:close()
   end

   return child
end

--- A script of bench/peers in the Python that FTPIPE_PEER_PYTHON names; nil when it names none.
function peer.python(script, ...)
   local python = os.getenv("FTPIPE_PEER_PYTHON")
   if not python or python == "" then return nil end
   return peer.open(("%s bench/peers/%s %s"):format(python, script, table.concat({ ... }, " ")))
end

--- Says the figure of a gate of bench/gates.lua, or (nil) why it could not be taken.
function peer.gate(name, figure, why)
   print(figure and ("gate %s %.4g"):format(name, figure)
      or ("gate %s absent: %s"):format(name, why))
end

--- Why there is no Python to compare with.
peer.NO_PYTHON = "FTPIPE_PEER_PYTHON is not set"

local function sort(list)
   local sorted = {}
   for i, value in ipairs(list) do sorted[i] = value end
   table.sort(sorted)
   return sorted
end

function peer.median(list)
   return sort(list)[math.floor(#list / 2) + 1]
end

--- Where the middle half of them begins and ends.
function peer.middle(list)
   local sorted = sort(list)
   return sorted[math.ceil(#sorted / 4)], sorted[math.ceil(#sorted * 3 / 4)]
end

--- A training step's inputs, in the order of a graph's: full rows, every label counts.
-- @tparam graph graph of a micro-batch
-- @tparam table family with its losses
-- @tparam table size batch, micro (micro-batches), vocab
function peer.step_inputs(graph, family, size)
   local batch = { counts = {} }
   local function make(input)
      local n = size.batch * (input.dims[2] or 1)
      local tensor = core.tensor.zeros({ n }, "i32")
      for i = 1, n do
         local id = (i * 104729) % (size.vocab - 2) + 2
         tensor:set(i, input.name == "mask" and 1 or input.name == "token_type_ids" and 0
            or input.name:find("_positions", 1, true) and i or id)
      end
      batch[input.name], batch.counts[input.name] = tensor, n
   end
   for _, input in ipairs(graph:inputs()) do make(input) end
   feed.weigh(family, batch, size.micro)
   return feed.list(graph:inputs(), batch)
end

--- Seconds of a step in one leg of a plan of one bucket: of so many, after others that warm up.
-- Parameters are drawn, as for a run with --init random.
-- @tparam[opt] function ready called when all is there but the steps
-- @treturn number seconds
-- @treturn table timeline of the whole leg; cpu_seconds of a step, of all threads; reached (memory
--   that live tensors took, by device)
function peer.step_seconds(plan, steps, warm, ready)
   local o, graph = plan.options, plan.graphs[1]
   local inputs = peer.step_inputs(graph, o.model.family,
      { batch = o.batch, micro = o.micro_batches, vocab = o.model.config.vocab_size })
   local run, params = plan.blueprint:run(), {}
   for i, param in ipairs(graph:params()) do params[param.name] = run:param(i) end
   o.model:initialize(params, 1)
   run:refresh()
   if ready then ready() end
   run:begin(steps + warm, 1)
   local fed, first, last, cpu = 0, nil, nil, nil
   for taken = 1, steps + warm do
      while fed < steps + warm and run:wants() do
         run:feed(inputs, 1, 1e-4)
         fed = fed + 1
      end
      last = run:next(600).end_ns
      if taken == warm then first, cpu = last, os.clock() end
   end
   local seen = { cpu_seconds = (os.clock() - cpu) / steps, timeline = run:finish() }
   seen.reached = run:measured()
   run:free()
   return (last - first) / 1e9 / steps, seen
end

return peer

--- Greedy decoding of encoder-decoder models with a key/value cache.
--
-- Two graphs: one runs over the inputs once, the other makes one token per run. Caches are tensors
-- that the second graph gives out and gets back, so they are updated in place.

local core = require("ftpipe.core")

local M = {}

local function bind(graph, params)
   local list = {}
   for i, param in ipairs(graph:params()) do list[i] = params[param.name] end
   return list
end

local function prepare(graph, params, threads)
   return {
      graph = graph,
      inputs = graph:inputs(),
      program = core.program.new(graph, { threads = threads }),
      params = bind(graph, params),
   }
end

--- A decoder for batches of one shape.
-- @tparam table model with `family` and `config` (see ftpipe.model)
-- @tparam table params tensors by name
-- @tparam table size batch, source (length), target (most new tokens), threads
function M.greedy(model, params, size)
   return {
      config = model.config,
      size = size,
      encode = prepare(model.family.encoding(model.config, size), params, size.threads),
      step = prepare(model.family.decoding(model.config, size), params, size.threads),
   }
end

local function step_inputs(decoder, encoded, mask)
   local ids = core.tensor.zeros({ decoder.size.batch, 1 }, "i32")
   ids:fill(decoder.config.decoder_start_token_id)
   local position = core.tensor.zeros({ 1 }, "i32")
   local list = {}
   for i, input in ipairs(decoder.step.inputs) do
      if input.name == "decoder_ids" then list[i] = ids
      elseif input.name == "position" then list[i] = position
      elseif input.name == "mask" then list[i] = mask
      else list[i] = encoded[input.name] or core.tensor.zeros(input.dims, "f32") end
   end
   return list, ids, position
end

--- Notes the new tokens of rows that have not ended; returns whether some row goes on.
local function note(rows, ids, eos)
   local going = false
   for b, row in ipairs(rows) do
      if row[#row] ~= eos then
         row[#row + 1] = ids:get(b, 1)
         going = going or row[#row] ~= eos
      end
   end
   return going
end

--- Decodes one batch.
-- @tparam table decoder from `greedy`
-- @tparam tensor input_ids (B, S) i32
-- @tparam tensor mask (B, S) i32
-- @treturn table a list of ids per row: without the start token, up to and with the end token
function M.run(decoder, input_ids, mask)
   local encoded = decoder.encode.program:run(decoder.encode.params, { input_ids, mask })
   local inputs, ids, position = step_inputs(decoder, encoded, mask)
   local rows = {}
   for b = 1, decoder.size.batch do rows[b] = {} end
   for t = 0, decoder.size.target - 1 do
      position:fill(t)
      local out = decoder.step.program:run(decoder.step.params, inputs)
      for i, input in ipairs(decoder.step.inputs) do
         local cache = out[input.name .. ".next"]
         if cache then inputs[i] = cache end
      end
      for b = 1, decoder.size.batch do ids:set(b, 1, out.next:get(b, 1)) end
      if not note(rows, ids, decoder.config.eos_token_id) then break end
   end
   return rows
end

return M

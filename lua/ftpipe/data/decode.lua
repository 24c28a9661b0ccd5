--- Greedy decoding with a key/value cache, for predictions on one device; evaluation in a pipeline
-- is drafts.lua.
--
-- Two graphs: one runs over the inputs once, the other makes one token per run. Caches are tensors
-- that the second graph gives out and gets back, so they are updated in place. `greedy` and `run`
-- are for encoder-decoder models, `continue` is for language models.

local choice = require("ftpipe.data.choice")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local named = require("ftpipe.base.named")

local M = {}

local function bind(graph, params)
   local list = {}
   for i, param in ipairs(graph:params()) do list[i] = params[param.name] end
   return list
end

local function prepare(graph, params, threads, packs)
   return {
      graph = graph,
      inputs = graph:inputs(),
      program = core.program.new(graph, { threads = threads, finite = true, packs = packs }),
      params = bind(graph, params),
   }
end

--- Room for packed copies of weights, which decoders share: a token reads all weights, and takes
-- less time where they are packed already. nil where weights and copies would not fit in half of
-- the memory.
-- @tparam table params tensors by name
-- @treturn ?packs
function M.packs(params)
   local bytes = 0
   for _, tensor in pairs(params) do bytes = bytes + 4 * tensor:count() end
   return 2 * bytes <= core.sys.memory() / 2 and core.program.packs() or nil
end

--- A decoder for batches of one shape.
-- @tparam table model with `family` and `config` (see ftpipe.model)
-- @tparam table params tensors by name
-- @tparam table size batch, source (length), target (most new tokens), threads; rules of answers
--   (data/choice.lua), those of greedy decoding if absent; packs of M.packs, or none
function M.greedy(model, params, size)
   local rules = size.rules or choice.plain(model.config)
   local step = copy(size, { logits = choice.scored(rules) })
   return {
      rules = rules,
      size = size,
      encode = prepare(model.family.encoding(model.config, size), params, size.threads),
      next = prepare(model.family.decoding(model.config, step), params, size.threads, size.packs),
   }
end

local function next_inputs(decoder, encoded, mask)
   local ids = core.tensor.zeros({ decoder.size.batch, 1 }, "i32")
   ids:fill(decoder.rules.start)
   local position = core.tensor.zeros({ 1 }, "i32")
   local list = {}
   for i, input in ipairs(decoder.next.inputs) do
      if input.name == "decoder_ids" then list[i] = ids
      elseif input.name == "position" then list[i] = position
      elseif input.name == "mask" then list[i] = mask
      else list[i] = encoded[input.name] or core.tensor.zeros(input.dims, "f32") end
   end
   return list, ids, position
end

--- The next token of row b, of which `new` tokens are its answer's.
local function next_of(out, rules, b, ids, new)
   return out.next and out.next:get(b, 1) or choice.pick(rules, out.logits, b, ids, new)
end

--- Adds the next tokens to rows that have not ended, and puts them into `ids`; returns whether some
-- row goes on. Rows begin with the start token.
local function extend(rows, out, rules, ids)
   local going = false
   for b, row in ipairs(rows) do
      if #row == 1 or not rules.ends[row[#row]] then
         row[#row + 1] = next_of(out, rules, b, row, #row - 1)
         ids:set(b, 1, row[#row])
         going = going or not rules.ends[row[#row]]
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
   local inputs, ids, position = next_inputs(decoder, encoded, mask)
   local rows = {}
   for b = 1, decoder.size.batch do rows[b] = { decoder.rules.start } end
   for t = 0, decoder.size.target - 1 do
      position:fill(t)
      local out = decoder.next.program:run(decoder.next.params, inputs)
      for i, input in ipairs(decoder.next.inputs) do
         inputs[i] = out[input.name .. ".next"] or inputs[i]
      end
      if not extend(rows, out, decoder.rules, ids) then break end
   end
   for _, row in ipairs(rows) do table.remove(row, 1) end
   return rows
end

-- ---------------------------------------------------------------------------------------------
-- Language models.

--- Feeds positions `from` ... `from + length - 1` of every row; caches are updated.
-- @tparam table part from `prepare`
-- @tparam table caches tensors by the names of their inputs, empty before the first call
-- @tparam int from
-- @tparam function token (b, t): the id at position t of row b
-- @treturn table what the graph gives of the last position: next or logits
local function feed(part, caches, from, token)
   local list = {}
   for i, input in ipairs(part.inputs) do
      local tensor = caches[input.name]
      if not tensor then
         tensor = core.tensor.zeros(input.dims, input.dtype)
         if input.name == "input_ids" then
            for b = 1, input.dims[1] do
               for t = 1, input.dims[2] do tensor:set(b, t, token(b, from + t - 1)) end
            end
         elseif input.name == "positions" then
            tensor:fill_range(from, 1)
         elseif input.name == "position" then
            tensor:fill(from)
         end
      end
      list[i] = tensor
   end
   local out = part.program:run(part.params, list)
   for _, input in ipairs(part.inputs) do
      caches[input.name] = out[input.name .. ".next"] -- nil for what is no cache
   end
   return out
end

--- The tokens of the shortest prompt.
local function shortest_of(prompts)
   local shortest = math.huge
   for b, prompt in ipairs(prompts) do
      if #prompt == 0 then
         core.fail("invalid argument",
            ("prompt %d is empty, expected at least one token"):format(b), 2)
      end
      shortest = math.min(shortest, #prompt)
   end
   return shortest
end

--- Continues texts. Prompts may differ in length: what all of them have is run at once, the rest
-- token by token, so that a row's tokens do not depend on the other rows.
-- @tparam table model with `family` and `config` (see ftpipe.model)
-- @tparam table params tensors by name
-- @tparam table prompts lists of ids, none empty
-- @tparam table o most (new tokens, by prompt), threads; rules of answers (data/choice.lua), those
--   of greedy decoding if absent; packs of M.packs, or none
-- @treturn table a list of new ids per prompt: up to and with the end token
-- @raise invalid argument: an empty prompt; more tokens than the model has positions
function M.continue(model, params, prompts, o)
   local config, shortest = model.config, shortest_of(prompts)
   local rules, rows, target = o.rules or choice.plain(config), {}, 0
   for b, prompt in ipairs(prompts) do
      rows[b] = copy(prompt)
      target = math.max(target, #prompt + o.most[b] - 1)
   end
   local size = named.like(o,
      { batch = #prompts, length = shortest, target = target, logits = choice.scored(rules) })
   local function part_of(length, packs)
      size.length = length
      return prepare(model.family.decoding(config, size), params, o.threads, packs)
   end
   local function token(b, t) return rows[b][t + 1] or config.pad_token_id end
   local function is_whole(b)
      local row, new = rows[b], #rows[b] - #prompts[b]
      return new == o.most[b] or new > 0 and rules.ends[row[#row]] or false
   end
   local caches, fed, single = {}, shortest, nil
   local out = feed(part_of(shortest), caches, 0, token)
   while true do
      local going = false
      for b, row in ipairs(rows) do
         if fed >= #prompts[b] and not is_whole(b) then
            row[#row + 1] = next_of(out, rules, b, row, #row - #prompts[b])
         end
         going = going or not is_whole(b)
      end
      if not going then break end
      single = single or part_of(1, o.packs)
      out = feed(single, caches, fed, token)
      fed = fed + 1
   end
   for b, prompt in ipairs(prompts) do rows[b] = { unpack(rows[b], #prompt + 1) } end
   return rows
end

return M

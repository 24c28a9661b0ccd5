--- A model as people read it: its blocks in the order of the graph, with their parameters and the
-- arithmetic of a forward.

local keys = require("ftpipe.base.keys")
local words = require("ftpipe.base.words")

--- "encoder/block.3" of "encoder/block.3/attn/q", "encoder/embed" of "encoder/embed/x".
local function block_of(scope)
   return scope:match("^.-%.%d+") or scope:match("^[^/]+/[^/]+") or scope
end

local function count_of(param)
   local n = 1
   for _, dim in ipairs(param.dims) do n = n * dim end
   return n
end

--- Blocks in their order: { name =, params = (numbers), flops =, shared = (set of names of
-- parameters that are counted in a block before it) }.
local function blocks_of(graph)
   local params, owner, blocks = graph:params(), {}, {}
   for n = 1, graph:counts().forward do
      local node = graph:node(n)
      local name, block = block_of(node.scope), blocks[#blocks]
      if not block or block.name ~= name then
         block = { name = name, params = 0, flops = 0, shared = {} }
         blocks[#blocks + 1] = block
      end
      block.flops = block.flops + node.flops
      for _, p in ipairs(node.params) do
         if not owner[p] then
            owner[p], block.params = block, block.params + count_of(params[p])
         elseif owner[p] ~= block then
            block.shared[params[p].name] = true
         end
      end
   end
   return blocks
end

--- "encoder/block" and "3"; nil of what has no number.
local function numbered(name) return name:match("^(.-)%.(%d+)$") end

--- Blocks that are alike and follow each other, as rows { first =, last =, n = } of them.
local function rows_of(blocks)
   local rows = {}
   for _, block in ipairs(blocks) do
      local row, stem = rows[#rows], numbered(block.name)
      local alike = row and stem and stem == numbered(row.last.name)
         and row.first.params == block.params and row.first.flops == block.flops
      if alike then
         row.last, row.n = block, row.n + 1
      else
         rows[#rows + 1] = { first = block, last = block, n = 1 }
      end
   end
   return rows
end

--- "24 x 50.33" in units of so many.
local function times(n, value, unit)
   return (n > 1 and n .. " x " or "") .. ("%.2f"):format(value / unit)
end

--- @tparam model model
-- @tparam table size source and target: tokens of one sample
-- @treturn string
return function(model, size)
   local graph = model.family.training(model.config,
      { batch = 1, source = size.source, target = size.target, grads = false })
   local cells = { { "block", "M parameters", "GFLOP forward", "" } }
   local params, flops = 0, 0
   local function add(name, n, block)
      local shared = keys(block.shared)
      cells[#cells + 1] = { name, times(n, block.params, 1e6), times(n, block.flops, 1e9),
         shared[1] and "with " .. table.concat(shared, ", ") or "" }
   end
   for _, row in ipairs(rows_of(blocks_of(graph))) do
      local _, last = numbered(row.last.name)
      add(row.n > 1 and row.first.name .. " .. " .. last or row.first.name, row.n, row.first)
      params, flops = params + row.n * row.first.params, flops + row.n * row.first.flops
   end
   add("all", 1, { params = params, flops = flops, shared = {} })
   return ("%s, of %d source tokens:\n%s"):format(tostring(model), size.source,
      words.columns(cells))
end

--- A model as people read it: its blocks in the order of the graph, with their parameters and the
-- arithmetic of a forward.

local bars = require("ftpipe.page.bars")
local core = require("ftpipe.core")
local keys = require("ftpipe.base.keys")
local words = require("ftpipe.base.words")

local M = {}

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

--- Rows of blocks that are alike: { name =, n = (blocks), parameters =, flops = (of one of them),
-- shared = (names of parameters that an earlier row counts) }.
-- @tparam model model
-- @tparam table size source and target: tokens of one sample
function M.rows(model, size)
   local graph = model.family.training(model.config,
      { batch = 1, source = size.source, target = size.target, grads = false })
   local rows = {}
   for i, row in ipairs(rows_of(blocks_of(graph))) do
      local _, last = numbered(row.last.name)
      rows[i] = {
         name = row.n > 1 and row.first.name .. " .. " .. last or row.first.name, n = row.n,
         parameters = row.first.params, flops = row.first.flops, shared = keys(row.first.shared),
      }
   end
   return rows
end

--- "24 x 50.33" in units of so many.
local function times(n, value, unit)
   return (n > 1 and n .. " x " or "") .. ("%.2f"):format(value / unit)
end

local function sum(rows, key)
   local total = 0
   for _, row in ipairs(rows) do total = total + row.n * row[key] end
   return total
end

--- As text.
function M.text(model, size)
   local rows = M.rows(model, size)
   local cells = { { "block", "M parameters", "GFLOP forward", "" } }
   for i, row in ipairs(rows) do
      cells[i + 1] = { row.name, times(row.n, row.parameters, 1e6), times(row.n, row.flops, 1e9),
         row.shared[1] and "with " .. table.concat(row.shared, ", ") or "" }
   end
   cells[#cells + 1] = { "all", times(1, sum(rows, "parameters"), 1e6),
      times(1, sum(rows, "flops"), 1e9), "" }
   return ("%s, of %d source tokens:\n%s"):format(tostring(model), size.source,
      words.columns(cells))
end

--- As bars, of parameters and of arithmetic.
function M.svg(model, size)
   local rows, groups = M.rows(model, size), {}
   for g, kind in ipairs { { "parameters", "Parameters", 1e6, "M" },
      { "flops", "Arithmetic of a forward of one sample", 1e9, "GFLOP" } }
   do
      local total, list = sum(rows, kind[1]), {}
      for i, row in ipairs(rows) do
         local value = row.n * row[kind[1]]
         list[i] = { name = row.name, value = value, colour = g,
            words = ("%.2f %s, %.1f %%"):format(value / kind[3], kind[4],
               total > 0 and 100 * value / total or 0) }
      end
      groups[g] = { title = kind[2], rows = list }
   end
   return bars(groups)
end

--- As JSON.
function M.json(model, size)
   local rows = M.rows(model, size)
   for _, row in ipairs(rows) do row.shared = core.json.array(row.shared) end
   return core.json.encode({
      model = tostring(model), source = size.source, target = size.target,
      blocks = core.json.array(rows), parameters = sum(rows, "parameters"),
      flops = sum(rows, "flops"),
   }, { sort = true }) .. "\n"
end

return M

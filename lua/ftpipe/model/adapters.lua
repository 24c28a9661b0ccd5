--- Adapters of low rank beside products whose weights stay as they are (LoRA).
--
-- Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022, section 4.1:
-- y = W x + (alpha / r) B (A dropout(x)) with A (r, in) and B (out, r), which alone are trained.
-- The factor is applied to A x, which is narrow. A model with adapters is one whose `config` has
-- `lora`: all its graphs have them, since all are built by ftpipe.model.blocks. Names and initial
-- values are those of the Python package peft; peft.lua has its files.

local copy = require("ftpipe.base.copy")
local named = require("ftpipe.base.named")
local patterns = require("ftpipe.base.pattern")
local usage = require("ftpipe.base.usage")
require("ftpipe.base.tensor") -- arithmetic

local M = {}

-- What peft takes where nothing is said.
local PRESETS = { alpha = 8, dropout = 0 }

local A, B = ".lora_A.weight", ".lora_B.weight"

--- Whether a parameter is part of an adapter.
function M.is(name) return name:find("%.lora_[AB]%.weight$") ~= nil end

--- The name of the product that an adapter's parameter is beside; nil of all others.
function M.product_of(name) return name:match("^(.*)%.lora_[AB]%.weight$") end

--- The names of products that have adapters among parameters, sorted.
-- @tparam table params anything by name
function M.names(params)
   local list = {}
   for name in pairs(params) do
      if name:sub(-#A) == A then list[#list + 1] = M.product_of(name) end
   end
   table.sort(list)
   return list
end

-- ---------------------------------------------------------------------------------------------
-- What is asked for.

local WITH_LORA = { "lora_alpha", "lora_dropout", "lora_targets" }

--- The model with the adapters that options ask for; the model itself where they ask for none.
-- @tparam model model
-- @tparam table o lora (the rank), lora_alpha, lora_dropout, lora_targets (a text "q,v", or a
--   list)
-- @raise invalid argument: they do not go together, or not with the model
function M.adapt(model, o)
   if not o.lora then
      for _, name in ipairs(WITH_LORA) do
         if o[name] ~= nil then usage.of(o, "{" .. name .. "} is of adapters, give {lora} too") end
      end
      return model
   end
   if model.lora then
      usage.of(o, "{lora}: %s has adapters already, which are trained on: leave {lora} out",
         model.lora.path or model.name)
   end
   local form = model.family.lora
   if not form then
      usage.of(o, "{lora}: there are no adapters for models of type '%s'",
         tostring(model.raw.model_type))
   end
   local targets = patterns.list(o.lora_targets or form.targets)
   if #targets == 0 then usage.of(o, "{lora_targets}: there is no name in it") end
   return M.attach(model, {
      rank = o.lora, alpha = o.lora_alpha or PRESETS.alpha,
      dropout = o.lora_dropout or PRESETS.dropout, targets = targets,
   })
end

--- The model with adapters.
-- @tparam model model without
-- @tparam table lora rank, alpha, dropout, targets (a list of patterns), scale (alpha / rank when
--   it is nil); of adapters in files also path and archive (peft.lua)
function M.attach(model, lora)
   lora.scale = lora.scale or lora.alpha / lora.rank
   return copy(model, {
      lora = lora,
      config = copy(model.config, {
         lora = { rank = lora.rank, scale = lora.scale, dropout = 0, targets = lora.targets },
      }),
   })
end

--- The configuration for a graph of training, where adapters have dropout.
function M.training_config(model)
   if not model.lora or model.lora.dropout == 0 then return model.config end
   return copy(model.config, { lora = copy(model.config.lora, { dropout = model.lora.dropout }) })
end

-- ---------------------------------------------------------------------------------------------
-- Graphs.

--- Whether a product has an adapter.
-- @tparam table lora of a configuration
-- @tparam string name of the product, which is that of its weight less ".weight"
function M.is_target(lora, name)
   for _, pattern in ipairs(lora.targets) do
      if patterns.ends(pattern, name) then return true end
   end
   return false
end

--- y with the output of an adapter of x added to it.
-- @tparam graph g
-- @tparam table lora of a configuration
-- @tparam value x what the product reads
-- @tparam value y what it gives
-- @tparam table product name, n_out, n_in
-- @treturn value
function M.add(g, lora, x, y, product)
   if lora.dropout > 0 then x = g:add("dropout", { x }, { p = lora.dropout }) end
   local down = g:param(product.name .. A, { lora.rank, product.n_in })
   local up = g:param(product.name .. B, { product.n_out, lora.rank })
   local h = g:add("scale", { g:add("linear", { x, down }) }, { factor = lora.scale })
   return g:add("add", { y, g:add("linear", { h, up }) })
end

--- The names of the products of a model that can have adapters, in the order of the graph.
local function products(model)
   local names, all = {}, M.attach(model, { rank = 1, alpha = 1, dropout = 0, targets = { "*" } })
   local graph = model.family.training(all.config,
      { batch = 1, source = 1, target = 1, grads = false })
   for _, param in ipairs(graph:params()) do names[#names + 1] = M.product_of(param.name) end
   return names
end

--- The last pieces of names, each once.
local function last_pieces(names)
   local list, seen = {}, {}
   for _, name in ipairs(names) do
      local piece = name:match("[^.]*$")
      if not seen[piece] then list[#list + 1], seen[piece] = piece, true end
   end
   return table.concat(list, ", ")
end

--- "rank 8, alpha 8 on q, v": what decides what adapters compute; nil of a model without.
-- @tparam model model
-- @tparam[opt=false] boolean whole names of products as they are, not the last pieces of them
function M.words(model, whole)
   local lora = model.lora
   if not lora then return nil end
   return ("rank %d, alpha %g%s on %s"):format(lora.rank, lora.alpha,
      lora.dropout > 0 and (", dropout %g"):format(lora.dropout) or "",
      whole and table.concat(lora.targets, ", ") or last_pieces(lora.targets))
end

--- The largest rank that any matrix of a product with an adapter has.
local function most_rank(graph)
   local most, narrow = 0, {}
   for _, param in ipairs(graph:params()) do
      local product = M.product_of(param.name)
      if product then
         local side = param.name:sub(-#A) == A and param.dims[2] or param.dims[1]
         narrow[product] = math.min(narrow[product] or side, side)
      end
   end
   for _, side in pairs(narrow) do most = math.max(most, side) end
   return most
end

--- Raises where a target stands for no product that has an adapter in a graph, or the rank is more
-- than all of those have.
-- @tparam table o options that the model was asked for with
-- @tparam model model
-- @tparam graph graph of the model
function M.check(o, model, graph)
   if not model.lora or model.lora.path then return end -- files say which by what is in them
   for _, pattern in ipairs(model.lora.targets) do
      local found = false
      for _, param in ipairs(graph:params()) do
         local product = M.product_of(param.name)
         found = found or product ~= nil and patterns.ends(pattern, product)
      end
      if not found then
         usage.of(o, "{lora_targets}: '%s' is the name of no product that can have an adapter; "
            .. "products are called %s", pattern, last_pieces(products(model)))
      end
   end
   local most = most_rank(graph)
   if model.lora.rank > most then
      usage.of(o, "{lora} %d: no product with an adapter has a side of as many numbers, expected a "
         .. "rank of 1 to %d", model.lora.rank, most)
   end
end

--- How many products of a graph have adapters.
function M.count(graph)
   local n = 0
   for _, param in ipairs(graph:params()) do n = n + (M.product_of(param.name) and 1 or 0) end
   return n / 2
end

-- ---------------------------------------------------------------------------------------------
-- What is trained.

--- Groups that stand before those of a user (ftpipe.trained.groups): adapters are trained, and the
-- family's new heads, everything else is frozen. None of a model without adapters.
function M.groups(model)
   if not model.lora then return {} end
   local list = { { "*", frozen = true } }
   for _, part in ipairs { A, B } do list[#list + 1] = { "*" .. part, frozen = false } end
   for _, head in ipairs(model.family.lora.heads or {}) do
      list[#list + 1] = { head .. ".*", frozen = false }
   end
   return list
end

--- Whether a parameter is saved with the adapters: it is one of theirs, or is trained beside them.
-- @tparam table param of graph:params()
function M.saves(param) return M.is(param.name) or not param.frozen end

--- Modules that are trained whole beside adapters, sorted; raises where a form that peft reads
-- cannot hold what is trained.
-- @tparam table o options, for the message
-- @tparam graph graph in which parameters are frozen
function M.modules(o, graph)
   local trained, frozen, targets, uses, names = {}, {}, {}, {}, {}
   local params = graph:params()
   for n = 1, graph:counts().forward do
      for _, p in ipairs(graph:node(n).params) do uses[p] = (uses[p] or 0) + 1 end
   end
   for p, param in ipairs(params) do
      local product = M.product_of(param.name)
      local module = param.name:match("^(.*)%.[^.]*$") or param.name
      if product then
         targets[product] = true
      elseif param.frozen then
         frozen[module] = param.name
      else
         trained[module] = { name = param.name, uses = uses[p] or 0 }
      end
   end
   for module, row in pairs(trained) do
      local why = frozen[module] and frozen[module] .. " of the same module is not"
         or targets[module] and "its module has an adapter"
         or row.uses > 1 and "it is used in several places"
      if why then
         usage("%s: %s cannot be trained beside adapters, since %s: it would have no place in the "
            .. "adapter's files", named.name(o, "lora"), row.name, why)
      end
      names[#names + 1] = module
   end
   table.sort(names)
   return names
end

-- ---------------------------------------------------------------------------------------------
-- Initial values.

--- How a parameter of an adapter is drawn: A uniformly between -1 / sqrt(in) and 1 / sqrt(in) (He
-- et al., "Delving Deep into Rectifiers", 2015, with a = sqrt(5)), B is zeros.
-- @tparam string name
-- @tparam {int,...} dims
-- @treturn string law, as run:draw takes it
-- @treturn number scale
function M.initial(name, dims)
   if not name:find(A, 1, true) then return "constant", 0 end
   return "uniform", dims[2] ^ -0.5
end

-- ---------------------------------------------------------------------------------------------
-- Merging.

--- Adds adapters to the weights that they are beside, and takes them away.
-- @tparam model model
-- @tparam table params tensors by name
-- @treturn int how many there were
function M.merge(model, params)
   local names = M.names(params)
   for _, name in ipairs(names) do
      local weight, a, b = name .. ".weight", params[name .. A], params[name .. B]
      local product = model.family.lora.transposed
         and a:transpose():copy():matmul(b:transpose():copy()) or b:matmul(a)
      params[weight] = params[weight] + product * model.lora.scale
      params[name .. A], params[name .. B] = nil, nil
   end
   return #names
end

return M

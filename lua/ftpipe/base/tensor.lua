--- ft.tensor: arrays of numbers, for looking at models and data, and for small computations.
--
--    local t = ft.tensor { { 1, 2 }, { 3, 4 } }
--    print(t[1][2], t * 2 + 1, t:matmul(t), t:sum(1))
--
-- Indices and axes count from 1, or from -1 backwards. t[i] of a vector is a number, else a view.
-- Arithmetic is f32; convert other dtypes with t:to("f32"). Every row of the operator table is a
-- function of ft.tensor.ops; those of one or two tensors are methods too, as t:matmul(u), t:relu(),
-- and t:add(u), t:sub(u), t:mul(u), t:div(u) are t + u and so on.
--
-- t:to("cuda:0") is a copy on a card (ft.cuda), where operators and arithmetic work alike, in the
-- card's memory; t:to("cpu") brings it back.

local cards = require("ftpipe.base.card")
local class = require("ftpipe.base.class")
local core = require("ftpipe.core")
local guard = require("ftpipe.base.guard")

local M = {}

local methods, meta = core.tensor.methods, core.tensor.meta
local on_card = { methods = core.card.methods, meta = core.card.meta }

local function is_tensor(value)
   return type(value) == "userdata" and getmetatable(value) == meta
end

--- Whether a value is a tensor of the host; those on cards are of another class.
-- @function ft.tensor.is_tensor
-- @tparam any value
M.is_tensor = is_tensor

meta.__whole = methods.text -- for page(x) at the prompt

local function is_on_card(value)
   return type(value) == "userdata" and getmetatable(value) == on_card.meta
end

function on_card.meta.__whole(self) return self:host():text() end

local function fail(format, ...)
   core.fail("invalid argument", core.where() .. format:format(...), 2)
end

-- Constructors -----------------------------------------------------------------------------------

--- A tensor of zeros: ft.tensor.zeros({ 2, 3 }, "i32").
M.zeros = core.tensor.zeros

--- A tensor of nested tables of numbers.
M.from_table = core.tensor.from_table

--- A tensor whose elements are all one number.
function M.full(dims, value, dtype)
   return M.zeros(dims, dtype):fill(value)
end

--- A tensor of ones.
function M.ones(dims, dtype)
   return M.full(dims, 1, dtype)
end

--- Standard normal numbers, the same for the same seed.
function M.randn(dims, seed)
   return M.zeros(dims, "f32"):draw("normal", 1, seed or 0)
end

--- arange(n): 0 to n-1. arange(first, last [, step]): both ends included when they fit.
function M.arange(first, last, step)
   if last == nil then first, last = 0, first - 1 end
   step = step or 1
   if step == 0 then fail("ft.tensor.arange: 'step' is 0, expected another number") end
   local n = math.max(0, math.floor((last - first) / step + 1e-9) + 1)
   return M.zeros({ n }, "f32"):fill_range(first, step)
end

guard("ft.tensor", M, {
   randn = "dims: table, seed?: int", arange = "first: number, last?: number, step?: number",
})

-- Operators --------------------------------------------------------------------------------------

--- Any operator, as ft.tensor.ops.softmax(x): a last table holds attributes by name, and `seed` for
-- those that draw random numbers. `false` stands for an absent optional input. pairs(ft.tensor.ops)
-- has their names.
-- @function ft.tensor.ops.NAME
-- @tparam tensor x
-- @param ...
M.ops = {}

local function operator(name)
   return function(...)
      local inputs, attrs, seed = { ... }, {}, nil
      if type(inputs[#inputs]) == "table" then
         for key, value in pairs(table.remove(inputs)) do
            if key == "seed" then seed = value else attrs[key] = value end
         end
      end
      local apply = core.ops.apply
      for _, input in ipairs(inputs) do
         if is_on_card(input) then apply = core.card.apply end
      end
      return apply(name, inputs, attrs, seed)
   end
end

for _, op in ipairs(core.ops.list()) do
   M.ops[op.name] = operator(op.name)
   if op.n_in >= 1 and op.n_in <= 2 and not op.name:find("_grad") and not methods[op.name] then
      methods[op.name], on_card.methods[op.name] = M.ops[op.name], M.ops[op.name]
   end
end

-- Arithmetic -------------------------------------------------------------------------------------

--- A tensor where another one is.
local function beside(like, tensor)
   return is_on_card(like) and core.card.tensor(like, tensor) or tensor
end

local function check_operand(x)
   local kind = type(x)
   if kind == "number" or (kind == "userdata" or kind == "table") and x.count then return end
   fail("ft.tensor: expected a tensor or a number, got a " .. kind)
end

--- A function of two tensors or numbers; the table wants the larger tensor first.
local function binary(name, commutes)
   local apply = M.ops[name]
   return function(a, b)
      check_operand(a)
      check_operand(b)
      if type(b) == "number" then b = beside(a, M.from_table(b)) end
      if type(a) == "number" then
         a = beside(b, commutes and M.from_table(a) or M.full(b:shape(), a))
      end
      if commutes and a:count() < b:count() then a, b = b, a end
      return apply(a, b)
   end
end

for name, commutes in pairs { add = true, mul = true, sub = false, div = false } do
   local f = binary(name, commutes)
   methods[name], on_card.methods[name] = f, f
   meta["__" .. name], on_card.meta["__" .. name] = f, f
end
meta.__unm = function(self) return M.ops.neg(self) end
on_card.meta.__unm = meta.__unm

-- Reductions -------------------------------------------------------------------------------------

local function reduction(name)
   local apply = M.ops[name]
   return function(self, axis)
      if axis == nil then return apply(self, { axis = -1 }):to("cpu"):get() end
      local n = #self:shape()
      if type(axis) ~= "number" or axis % 1 ~= 0 or axis == 0 or math.abs(axis) > n then
         fail("%s: axis %s of a tensor of %d dimensions", name, class.told(axis), n)
      end
      return apply(self, { axis = axis > 0 and axis - 1 or n + axis })
   end
end

--- The sum of all elements, a number; along an axis, a tensor without it.
-- @function tensor:sum
-- @tparam[opt] int axis

--- The mean of all elements, a number; along an axis, a tensor without it.
-- @function tensor:mean
-- @tparam[opt] int axis

--- The largest element, a number; along an axis, a tensor without it.
-- @function tensor:max
-- @tparam[opt] int axis

for _, name in ipairs { "sum", "mean", "max" } do
   local f = reduction(name)
   methods[name], on_card.methods[name] = f, f
end

-- Shapes -----------------------------------------------------------------------------------------

--- The elements in another shape, { 2, -1 }, copied when they are not contiguous. One dimension may
-- be -1.
-- @function tensor:reshape
-- @tparam table dims
function methods.reshape(self, dims)
   if type(dims) ~= "table" then
      fail("tensor:reshape: 'dims': expected a table, got %s", class.told(dims))
   end
   local known, unknown, result = 1, nil, {}
   for i, size in ipairs(dims) do
      if type(size) ~= "number" then
         fail("tensor:reshape: dimension %d: expected a number, got %s", i, class.told(size))
      end
      result[i] = size
      if size == -1 then unknown = i else known = known * size end
   end
   if unknown and known > 0 then result[unknown] = self:count() / known end
   if unknown and (result[unknown] or 0) % 1 ~= 0 then
      fail("tensor:reshape: %d elements are no multiple of %g, the others' product",
         self:count(), known)
   end
   return (is_on_card(self) or self:is_contiguous()) and self:view(result)
      or self:copy():view(result)
end
on_card.methods.reshape = methods.reshape

--- A typed pointer (float *, int32_t *, ...) to the elements of a contiguous tensor, from 0 on.
-- Keep the tensor alive while it is used.
-- @function tensor:pointer
function methods.pointer(self)
   local ffi = require("ffi")
   local address, ctype = self:address()
   return ffi.cast(ctype, address)
end

-- Cards ------------------------------------------------------------------------------------------

local function is_place(where)
   return class.of(where) == "card" or type(where) == "string"
      and (where == "cpu" or where == "cuda" or where:find(":", 1, true) ~= nil)
end

local function card_of(where) return type(where) == "string" and cards.open(where) or where end

local convert = methods.to

--- To a dtype: a copy, converted. To a place: a copy on a card ("cuda:0", or what ft.cuda.open
-- gave), or in the host ("cpu"), where it is there already the tensor itself.
-- @function tensor:to
-- @tparam string|card where
function methods.to(self, where)
   if not is_place(where) then return convert(self, where) end
   return where == "cpu" and self or core.card.tensor(card_of(where).handle, self)
end

function on_card.methods.to(self, where)
   if where == "cpu" then return self:host() end
   if not is_place(where) then return beside(self, convert(self:host(), where)) end
   local card = card_of(where)
   return self:move(card.handle) or core.card.tensor(card.handle, self:host())
end

function on_card.methods.totable(self) return self:host():totable() end

function on_card.methods.get(self, ...) return self:host():get(...) end

function on_card.meta.__index(self, key)
   if type(key) ~= "number" then return on_card.methods[key] end
   fail("the tensor is on %s: its elements can be had of t:to(\"cpu\")", self:device())
end

function on_card.meta.__tostring(self)
   return (tostring(self:host()):gsub("^tensor %S+ %b()", "%0 on " .. self:device(), 1))
end

-- Methods in Lua say of what they are called on what those in C say.
for _, name in ipairs { "sum", "mean", "max", "reshape", "pointer", "to" } do
   local method = methods[name]
   methods[name] = function(self, ...)
      if not is_tensor(self) then
         fail("tensor:%s: called on %s, expected a tensor in front of the colon", name,
            class.told(self))
      end
      return method(self, ...)
   end
end

-- ft.tensor(values [, dtype]) is from_table.
return setmetatable(M, {
   __call = function(_, values, dtype) return M.from_table(values, dtype) end,
})

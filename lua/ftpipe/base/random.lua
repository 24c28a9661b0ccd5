--- Random numbers for the sample data: the same on every machine, whatever Lua runs them.
--
-- Two multiplicative congruential generators, combined; every product stays under 2^53, so plain
-- Lua numbers are exact.
-- Source: L'Ecuyer, "Efficient and portable combined random number generators", CACM 31(6), 1988.

local random = {}
random.__index = random

local MODULUS_1, FACTOR_1 = 2147483563, 40014
local MODULUS_2, FACTOR_2 = 2147483399, 40692

--- A new generator.
-- @tparam integer seed 0 or more; equal seeds give equal sequences
-- @tparam[opt=0] integer stream 0 or more; streams of one seed are unrelated
function random.new(seed, stream)
   stream = stream or 0
   local self = setmetatable({
      first = (seed * 7919 + stream * 104729) % (MODULUS_1 - 1) + 1,
      second = (seed * 15485863 + stream * 32452843 + 1) % (MODULUS_2 - 1) + 1,
   }, random)
   for _ = 1, 8 do self:fraction() end
   return self
end

--- A number in (0, 1).
function random:fraction()
   self.first = self.first * FACTOR_1 % MODULUS_1
   self.second = self.second * FACTOR_2 % MODULUS_2
   local mixed = (self.first - self.second) % (MODULUS_1 - 1)
   return (mixed == 0 and MODULUS_1 - 1 or mixed) / MODULUS_1
end

--- An integer in 1..n.
function random:integer(n)
   return math.floor(self:fraction() * n) + 1
end

--- True with the given probability.
function random:chance(probability)
   return self:fraction() < probability
end

--- One element of a list.
function random:pick(list)
   return list[self:integer(#list)]
end

--- Reorders a list in place, every order equally likely, and returns it.
function random:shuffle(list)
   for i = #list, 2, -1 do
      local j = self:integer(i)
      list[i], list[j] = list[j], list[i]
   end
   return list
end

return random

--- Which point a sweep tries next: a row for each method. Pure: the same trials give the same
-- point.
--
-- A method gets the parameters (space.lua), the number of the trial, what was found so far (a list
-- { point =, loss = (nil: it failed) }), and o = { seed =, grid_steps = }.

local column = require("ftpipe.base.column")
local core = require("ftpipe.core")
local random = require("ftpipe.base.random")
local spaces = require("ftpipe.sweep.space")

local M = {}

--- Numbers of a trial, unrelated to those of others.
local function numbers_of(seed, number)
   local digest = core.sys.sha256(("%d %d"):format(seed, number))
   return random.new(tonumber(digest:sub(1, 7), 16), tonumber(digest:sub(8, 14), 16))
end

local function random_point(parameters, number, seed)
   local numbers, point = numbers_of(seed, number), {}
   for k in ipairs(parameters) do point[k] = numbers:fraction() * (1 - 1e-12) end
   return point
end

-- ---------------------------------------------------------------------------------------------
-- Halton's sequence, shifted by the seed (Cranley and Patterson, 1976).

local PRIMES = { 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53 }

--- The digits of i in a base, mirrored at the point.
local function mirrored(i, base)
   local value, digit = 0, 1
   while i > 0 do
      digit = digit / base
      value = value + digit * (i % base)
      i = math.floor(i / base)
   end
   return value
end

local function halton_point(parameters, number, seed)
   local shift, point = random_point(parameters, 0, seed), {}
   for k in ipairs(parameters) do
      local base = PRIMES[(k - 1) % #PRIMES + 1]
      point[k] = (mirrored(number, base) + shift[k]) % 1
   end
   return point
end

-- ---------------------------------------------------------------------------------------------
-- Tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011; with the bandwidths of neighbour
-- distances as in that paper): parameters on their own, a density of the good points over one of
-- the others.

-- As Optuna has them: random points first, candidates for each coordinate, the share of the good.
local STARTUP, CANDIDATES, GOOD = 10, 24, 0.1

local sqrt, exp, abs, max, min = math.sqrt, math.exp, math.abs, math.max, math.min

--- The error function, to 1.5e-7 (Abramowitz and Stegun 7.1.26).
local function erf(x)
   local t = 1 / (1 + 0.3275911 * abs(x))
   local y = 1 - ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t
      + 0.254829592) * t * exp(-x * x)
   return x < 0 and -y or y
end

local function normal_cdf(x) return 0.5 * (1 + erf(x / sqrt(2))) end

--- A density on [0, 1): a bump at each coordinate, as wide as its neighbours are far, and one over
-- all of it.
local function bumps(coordinates)
   local sorted = { unpack(coordinates) }
   table.sort(sorted)
   local list = { { at = 0.5, width = 1 } }
   local narrowest = 1 / min(100, #sorted + 2)
   for i, at in ipairs(sorted) do
      local left = at - (sorted[i - 1] or 0)
      local right = (sorted[i + 1] or 1) - at
      list[#list + 1] = { at = at, width = max(narrowest, min(1, max(left, right))) }
   end
   for _, bump in ipairs(list) do
      bump.mass = normal_cdf((1 - bump.at) / bump.width) - normal_cdf(-bump.at / bump.width)
   end
   return list
end

local function density(list, x)
   local sum = 0
   for _, bump in ipairs(list) do
      local z = (x - bump.at) / bump.width
      sum = sum + exp(-0.5 * z * z) / (bump.width * 2.5066282746310002 * bump.mass)
   end
   return sum / #list
end

--- A number out of the density.
local function draw(list, numbers)
   local bump = numbers:pick(list)
   while true do
      local radius = sqrt(-2 * math.log(numbers:fraction()))
      local x = bump.at + bump.width * radius * math.cos(2 * math.pi * numbers:fraction())
      if x >= 0 and x < 1 then return x end
   end
end

--- How likely each of n values is, by how often it is among the coordinates; each counts once more.
local function shares(coordinates, n)
   local counts, total = {}, n + #coordinates
   for i = 1, n do counts[i] = 1 / total end
   for _, u in ipairs(coordinates) do
      local i = math.floor(u * n) + 1
      counts[i] = counts[i] + 1 / total
   end
   return counts
end

local function draw_share(list, numbers)
   local x = numbers:fraction()
   for i, share in ipairs(list) do
      x = x - share
      if x <= 0 then return i end
   end
   return #list
end

--- The coordinate of one parameter, out of those of the good and of the other points.
local function best_coordinate(parameter, good, other, numbers)
   local n = parameter.values and #parameter.values
   local of_good = n and shares(good, n) or bumps(good)
   local of_other = n and shares(other, n) or bumps(other)
   local best, best_ratio
   for _ = 1, CANDIDATES do
      local u, ratio
      if n then
         local i = draw_share(of_good, numbers)
         u, ratio = (i - 0.5) / n, of_good[i] / of_other[i]
      else
         u = draw(of_good, numbers)
         ratio = density(of_good, u) / density(of_other, u)
      end
      if not best or ratio > best_ratio then best, best_ratio = u, ratio end
   end
   return best
end

--- The coordinates k of entries first..last.
local function coordinates(found, k, first, last)
   local list = {}
   for i = first, last do list[#list + 1] = found[i].point[k] end
   return list
end

local function tpe_point(parameters, number, found, o)
   if #found < STARTUP then return random_point(parameters, number, o.seed) end
   local sorted = { unpack(found) }
   for i, entry in ipairs(sorted) do
      sorted[i] = { point = entry.point, loss = entry.loss, i = i }
   end
   table.sort(sorted, function(a, b)
      local x, y = a.loss or math.huge, b.loss or math.huge
      if x ~= y then return x < y end
      return a.i < b.i
   end)
   local n_good = max(1, min(25, math.ceil(GOOD * #sorted)))
   local numbers, point = numbers_of(o.seed, number), {}
   for k, parameter in ipairs(parameters) do
      point[k] = best_coordinate(parameter, coordinates(sorted, k, 1, n_good),
         coordinates(sorted, k, n_good + 1, #sorted), numbers)
   end
   return point
end

local function grid_size(parameters, o) return spaces.grid_size(parameters, o.grid_steps) end

-- { name =, point = (of a trial), size = (how many points there are; nil: no end) }.
local ROWS = {
   { name = "grid", size = grid_size,
      point = function(parameters, number, _, o)
         if number > grid_size(parameters, o) then return nil end
         return spaces.grid_point(parameters, o.grid_steps, number)
      end },
   { name = "random", size = spaces.size,
      point = function(parameters, number, _, o)
         return random_point(parameters, number, o.seed)
      end },
   { name = "halton", size = spaces.size,
      point = function(parameters, number, _, o)
         return halton_point(parameters, number, o.seed)
      end },
   { name = "tpe", size = spaces.size, point = tpe_point },
}

M.names = column(ROWS, "name")

local by_name = {}
for _, row in ipairs(ROWS) do by_name[row.name] = row end

--- How many points a method has; nil where it does not end by itself.
function M.size(method, parameters, o)
   local row = by_name[method]
   return row.size and row.size(parameters, o)
end

--- The point of a trial; nil where the method has no more.
function M.point(method, parameters, number, found, o)
   return by_name[method].point(parameters, number, found, o)
end

local DRAWS = 20 -- of points that were tried, before what was not is looked for in turn

--- The point of a trial whose values none of the trials so far has (`rows`, by their `flags`): they
-- would come to the same. Nil where there is none.
function M.new_point(method, parameters, number, found, o, rows)
   local tried = {}
   for _, row in ipairs(rows) do tried[spaces.key(row.flags)] = true end
   local function is_new(point)
      return point and not tried[spaces.key(spaces.values(parameters, point))]
   end
   for more = 0, DRAWS do
      local point = M.point(method, parameters, number + more, found, o)
      if is_new(point) then return point end
   end
   for i = 1, spaces.size(parameters) or 0 do
      local point = spaces.grid_point(parameters, math.huge, i)
      if is_new(point) then return point end
   end
   return nil
end

return M

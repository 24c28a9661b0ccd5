--- How far plans may be trusted when the profile that they were made with is off.
--
-- Devices work in the order that the plan says, so a run takes as long as its longest path of work
-- and transfers: of all profiles within 5 %, the one in which everything takes 5 % longer gives the
-- longest time, as long as transfers keep their order on the links that they share. Draws tell
-- whether they do.
--
-- Which of two plans is faster is another question for draws: in each, every block's time is off by
-- up to 5 %, by chance and by itself, and alike in all plans.

local random = require("ftpipe.base.random")

local M = { SHARE = 0.05, DRAWS = 40 }

local SEED = 5

--- What is off together: "encoder/block.3"; nodes of files that have no scope are so by themselves.
local function block_of(node)
   local scope = tostring(node.scope or node.name or node.id)
   return scope:match("^[^/]*/[^/]*") or scope
end

--- The blocks of a subject's graph, numbered in its order: how many, and by stage the time that
-- each of them takes in it, ns.
local function blocks_of(subject)
   local number, n, times = {}, 0, {}
   for s = 1, #subject.stages do times[s] = {} end
   for i, node in ipairs(subject.graph.nodes) do
      local name, of = block_of(node), times[subject.result.stage[i]]
      if not number[name] then n, number[name] = n + 1, n + 1 end
      of[number[name]] = (of[number[name]] or 0) + node.forward_ns + node.backward_ns
   end
   return { n = n, times = times }
end

--- By stage, how many times as long it takes when blocks take `factors` times as long.
local function stage_factors(blocks, factors)
   local result = {}
   for s, of in ipairs(blocks.times) do
      local exact, off = 0, 0
      for b = 1, blocks.n do
         exact, off = exact + (of[b] or 0), off + (of[b] or 0) * factors[b]
      end
      result[s] = exact > 0 and off / exact or 1
   end
   return result
end

--- Factors of n blocks.
local function draw(number, n)
   local generator, factors = random.new(SEED, number), {}
   for b = 1, n do factors[b] = 1 + M.SHARE * (2 * generator:fraction() - 1) end
   return factors
end

local function all(subject, factor)
   local factors = {}
   for s = 1, #subject.stages do factors[s] = factor end
   return factors
end

--- Seconds of a batch when everything takes 5 % longer.
function M.worst_seconds(subject)
   return subject:steady(all(subject, 1 + M.SHARE))
end

--- Seconds of a batch from which on no profile within 5 % makes a plan faster than this one.
function M.out_of_reach(subject)
   return subject.seconds * (1 + M.SHARE) / (1 - M.SHARE)
end

--- Seconds of a batch of each subject in a draw.
-- @tparam {subject,...} subjects plans of one model
-- @tparam int number of the draw
-- @treturn {number,...}
function M.seconds(subjects, number)
   local seconds = {}
   for i, subject in ipairs(subjects) do
      subject.blocks = subject.blocks or blocks_of(subject)
      seconds[i] = subject:steady(
         stage_factors(subject.blocks, draw(number, subject.blocks.n)))
   end
   return seconds
end

--- What draws say of plans of one model.
-- @treturn {table,...} by subject: wins (draws in which it is the fastest; of equals the first),
--   worst_seconds (of a batch: when everything takes 5 % longer, or in a draw that takes longer)
function M.judge(subjects)
   local result = {}
   for i, subject in ipairs(subjects) do
      result[i] = { wins = 0, worst_seconds = M.worst_seconds(subject) }
   end
   for number = 1, #subjects > 0 and M.DRAWS or 0 do
      local best, least = 1, math.huge
      for i, seconds in ipairs(M.seconds(subjects, number)) do
         if seconds < least then best, least = i, seconds end
         result[i].worst_seconds = math.max(result[i].worst_seconds, seconds)
      end
      result[best].wins = result[best].wins + 1
   end
   return result
end

return M

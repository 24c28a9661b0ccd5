--- When a trial is given up while it runs: a row for each rule. Pure: decisions follow from the
-- reports in their order, so that they can be replayed.
--
-- A report is { trial =, step =, loss = (the smaller the better) }.

local keys = require("ftpipe.base.keys")

local M = {}

local RULES = {}

--- Asynchronous successive halving (Li et al., MLSys 2020), in the form that stops trials: at steps
-- min, min * eta, min * eta^2, ... a trial goes on when it is among the best 1/eta of those that
-- have come so far.
function RULES.asha(rule, reports, report)
   local rung = M.rung(rule, report.step)
   if not rung or M.rung_before(rule, reports, report) == rung then return false end
   local better, n = 0, 1
   local seen = {}
   for _, other in ipairs(reports) do
      if other.trial ~= report.trial and not seen[other.trial]
         and (M.rung(rule, other.step) or -1) >= rung
      then
         seen[other.trial] = true -- its first report at this rung or beyond
         n = n + 1
         if other.loss <= report.loss then better = better + 1 end
      end
   end
   return better >= math.max(1, math.floor(n / rule.eta))
end

--- The median rule (Golovin et al., KDD 2017): a trial ends when its best report so far is worse
-- than the median of what others had at that step, once three others have been there.
function RULES.median(rule, reports, report)
   if report.step < rule.min then return false end
   local best, others = report.loss, {}
   for _, other in ipairs(reports) do
      if other.trial == report.trial then
         best = math.min(best, other.loss)
      elseif other.step == report.step then
         others[#others + 1] = other.loss
      end
   end
   if #others < 3 then return false end
   table.sort(others)
   local middle = #others / 2
   local median = #others % 2 == 1 and others[middle + 0.5]
      or (others[middle] + others[middle + 1]) / 2
   return best > median
end

M.names = keys(RULES)

--- The number of the last rung at or before a step, from 0; nil before the first.
function M.rung(rule, step)
   if step < rule.min then return nil end
   local rung, at = 0, rule.min * rule.eta
   while at <= step do
      rung, at = rung + 1, at * rule.eta
   end
   return rung
end

--- The rung that the trial had reached before this report.
function M.rung_before(rule, reports, report)
   local rung
   for _, other in ipairs(reports) do
      if other.trial == report.trial then
         local reached = M.rung(rule, other.step)
         rung = math.max(rung or -1, reached or -1)
      end
   end
   return rung
end

--- Whether a trial is to end.
-- @tparam table rule kind ("asha" or "median"), min (step of the first decision), eta
-- @tparam table reports all before this one, in their order
-- @tparam table report of this trial
function M.ends(rule, reports, report)
   if report.loss ~= report.loss then return true end -- not a number
   return RULES[rule.kind](rule, reports, report)
end

return M

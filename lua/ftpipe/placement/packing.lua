--- What --packs and --forward-micro-batches ask for, refused where it cannot be.

local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local divisor = require("ftpipe.base.divisor")
local named = require("ftpipe.base.named")
local packs = require("ftpipe.schedule.packs")
local placement = require("ftpipe.placement")
local replicas = require("ftpipe.placement.replicas")
local schedules = require("ftpipe.schedule")
local usage = require("ftpipe.base.usage")

local M = {}

--- Refuses what is for orders that group, of stages in the order of the model, elsewhere.
local function check_order(o, key)
   local said = named.value(o, key, o[key])
   if not schedules.groups(o.rule or o.schedule) then
      usage("%s is for orders that take all micro-batches through some stages, then the next: "
         .. "expected %s or %s", said, named.value(o, "schedule", "harmony-pp"),
         named.value(o, "schedule", "harmony-dp"))
   elseif type(o.partition) == "string" and placement.is(o.partition)
      and not placement.is_in_order(o.partition)
   then
      usage("%s is for stages in the order of the model: expected %s", said,
         named.value(o, "partition", "seq"))
   end
end

--- Refuses --packs where there are none, and gives every device a turn. A partition that is there
-- has its own stages.
function M.check(o)
   if not o.packs or o.given then return end
   check_order(o, "packs")
   local run = packs.run(o)
   if schedules.replicates(o.rule or o.schedule) then return end
   if not o.stages and not placement.is(o.partition) then return end
   local turns = o.replicas and #replicas.of(o) or #core.engine.devices(o.devices)
   o.stages = o.stages or turns * run
   if o.stages < (turns - 1) * run + 1 then
      usage("%s gives a device %s at a time, and there are %s: expected %s, got %d",
         named.value(o, "packs", o.packs), counted(run, "stage"), counted(turns, "device"),
         named.value(o, "stages", turns * run), o.stages)
   end
end

--- Refuses forwards of several micro-batches where there are none.
function M.check_joint(o)
   local n = o.forward_micro_batches
   if not n or o.given then return end
   check_order(o, "forward_micro_batches")
   local said = named.value(o, "forward_micro_batches", n)
   if o.eval_only then
      usage("%s is for training: leave it out", said)
   elseif o.micro_batches % n ~= 0 then
      usage("%s: a forward takes several whole ones of %s: expected %s", said,
         named.value(o, "micro_batches", o.micro_batches),
         named.value(o, "forward_micro_batches", divisor(o.micro_batches, n)))
   end
   local all = replicas.dealt(o)
   if n % all ~= 0 then
      local fits = all * divisor(o.micro_batches / all, math.max(1, math.floor(n / all)))
      usage("%s: a forward is of one replica, and each has its share of %s: expected %s", said,
         named.value(o, "micro_batches", o.micro_batches),
         named.value(o, "forward_micro_batches", fits))
   end
   o.packs = o.packs or "1/1" -- what goes forward and back at once does so by itself
end

--- Refuses packs that the model is too small for.
function M.check_stages(o, graph)
   local nodes = graph:counts().forward
   if not o.packs or o.given or not o.stages or o.stages <= nodes then return end
   usage("%s: packs of %d stages on each device are %d stages; expected smaller ones: the model is "
      .. "cut between %d operators", named.value(o, "packs", o.packs), packs.run(o), o.stages,
      nodes)
end

return M

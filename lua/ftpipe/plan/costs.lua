--- What the work of a plan costs where it was measured.

local clusters = require("ftpipe.placement.cluster")
local core = require("ftpipe.core")
local evaluation = require("ftpipe.plan.evaluation")
local named = require("ftpipe.base.named")
local profiles = require("ftpipe.profile")
local shares = require("ftpipe.profile.shares")
local usage = require("ftpipe.base.usage")

local M = {}

--- Says what takes so long.
local function say_slow(o)
   return function(seconds)
      local slow = profiles.slow_words(o.batch / o.micro_batches, seconds)
      if not slow then return end
      io.stderr:write(named.words(o, slow .. "; {profile=modelled} does not measure\n"))
   end
end

--- A profile of the graph, measured here; nil where there is no memory for it: what does not fit
-- here is modelled, and the plan says whether a run would.
local function measured(o, graph, recompute)
   local ok, profile = pcall(profiles, graph, o.devices, {
      measure = true, fresh = o.profile == "fresh", recompute = recompute,
      accumulate = o.micro_batches > 1, optimizer = o.optimizer, hypers = o.hypers,
      dtype = o.precision, before = say_slow(o),
   })
   if ok then return profile end
   if profile.status ~= "out of memory" then error(profile, 0) end
   return nil
end

-- What --profile may say besides a file: whether work is measured.
local MEASURED = { measured = true, fresh = true }

--- The profile that --profile asks for, nil when costs are modelled. Where o.calibration says how
-- much longer operators took than modelled, it is the model corrected by that.
function M.profile(o, graph, devices)
   local how = o.profile or "modelled"
   if how == "modelled" then
      return o.calibration and profiles(graph, o.devices, {
         calibrate = o.calibration, optimizer = o.optimizer, dtype = o.precision,
      })
   end
   if not MEASURED[how] then
      if core.sys.exists(how) ~= "file" then
         usage("%s is neither measured, fresh, modelled nor a profile's file",
            named.value(o, "profile", how))
      end
      return profiles.load(how)
   end
   if not devices[1].measures then
      usage("%s: devices %s are not here to be measured", named.value(o, "profile", how),
         clusters.name_of(o.devices))
   end
   return measured(o, graph, o.recompute == "always")
end

--- Costs of evaluation by a profile of training without dropout. What training does not have is
-- modelled. Batches of evaluation are sorted by length: each is about as long as its examples.
function M.evaluation(profile, o, graphs)
   local graph, modelled = graphs.evaluation[#graphs], {}
   for n, ns in ipairs(graph:times(o.devices)) do
      if evaluation.is_added(graph:node(n).op) then modelled[n] = ns end
   end
   local part = o.shares or o.evaluated and shares.of(o.evaluated, o.buckets, 1)
   return shares.blend(profile:costs(graph, modelled), graphs.evaluation, part, o.devices)
end

--- Costs of a profile, averaged over the length buckets that batches fall into; with those of joint
-- forwards, where work is measured here and there are some.
function M.average(profile, o, graphs)
   local part = o.shares or o.train and shares.of(o.train, o.buckets, o.batch)
   local costs = shares.blend(profile:costs(graphs[#graphs]), graphs, part, o.devices)
   local joint = graphs.joint
   local large = joint and MEASURED[o.profile] and measured(o, joint[#joint], false)
   if large then
      local all = shares.blend(large:costs(joint[#joint]), joint, part, o.devices)
      costs.joint_ns = {}
      for n = 1, joint[1]:counts().forward do costs.joint_ns[n] = all.node_ns[n] end
   end
   return costs
end

return M

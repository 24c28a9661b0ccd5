-- A schedule in twenty lines. Run: ftpipe examples/schedule.lua
--
-- A schedule is a rule that every stage follows by itself: it sees how many forwards and backwards
-- the stage has done and how far it is from the loss (depth), and says which comes next. Plans made
-- of it are proven to complete before anything runs; ft.fine_tune { schedule = rule } trains by it.
local ft = require("ftpipe")

-- 1f1b begins with as many forwards as there are stages behind it; this with twice as many, so that
-- there is work to do while activations and gradients are under way.
local eager = ft.schedule {
   name = "eager-1f1b",
   synchronous = true,
   next = function(stage)
      local ahead = stage.forwards - stage.backwards
      local drains = ahead > 0 and stage.forwards % stage.micro_batches == 0 -- the batch is all in
      return not drains and ahead <= 2 * stage.depth and "F" or "B"
   end,
}

-- Four equal stages, on devices whose links take as long as a forward does.
local stages, links = {}, {}
for s = 1, 4 do
   stages[s] = { device = s, forward_ns = 1e6, backward_ns = 2e6 }
   if s > 1 then
      links[#links + 1] = { from = s - 1, to = s, bytes_per_s = 10e9, latency_ns = 0 }
      links[#links + 1] = { from = s, to = s - 1, bytes_per_s = 10e9, latency_ns = 0 }
   end
end

local function play(schedule)
   local plan = ft.schedule.play {
      stages = stages, micro_batches = 16, batches = 1, schedule = schedule, bytes = 10e6,
      slots = 8,
   }
   return plan:simulate { machine = { links = links } }.end_ns / 1e6, plan
end

local usual, plan = play("1f1b")
print(plan:letters(3), plan:describe().stages[1].in_flight .. " in flight")
                                --> FFBFBFBFBFBFBFBFBFBFBFBFBFBFBFBB	4 in flight
local own
own, plan = play(eager)
print(plan:letters(3), plan:describe().stages[1].in_flight .. " in flight")
                                --> FFFBFBFBFBFBFBFBFBFBFBFBFBFBFBBB	7 in flight
print(("%.0f ms, %.0f ms"):format(usual, own))   --> 85 ms, 63 ms

-- What can never go on is refused before it runs.
local _, problem = pcall(play, ft.schedule { next = function() return "B" end })
print((tostring(problem):match("the next action is.*")))
                                --> the next action is a backward without its forward

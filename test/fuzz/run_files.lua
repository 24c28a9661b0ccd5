--- What is done with any text as a file of a run directory: the commands that show a run refuse it in
-- one line, or show what is left of it.

local core = require("ftpipe.core")
local profiles = require("ftpipe.profile.text")
local report = require("ftpipe.report.run")
local runs = require("ftpipe.command.runs")
local states = require("ftpipe.store.state")
local top = require("ftpipe.command.top")
local trace = require("ftpipe.command.trace")

local check_refusal = dofile("test/fuzz/refusal.lua")

-- A run of two steps, as far as it is shown.
local WHOLE = {
   ["run.json"] = '{"format":1,"flags":{"steps":2,"lr":0.1},"origins":{"lr":"recipe"},'
      .. '"stages":["a .. b"],"task":{"name":"rte","settings":{}}}',
   ["metrics.jsonl"] = '{"step":1,"time":1,"loss":2,"loss_mean":2,"lr":0.1,"samples_per_second":1,'
      .. '"tokens_per_second":9,"idle_percent":[5],"memory_bytes":[9],"step_s":1}\n'
      .. '{"step":1,"time":2,"leg_s":1,"shares_percent":[{"computed":9,"edges":{"F0>F1":'
      .. '{"data":3}}}]}\n{"step":2,"time":2,"eval_loss":1,"metric":"em","value":5,"unit":"%"}\n',
   ["summary.json"] = '{"metric":"em","value":5,"steps":2,"seconds":3,"devices":"cpu:1",'
      .. '"copies":{"batches":1,"devices":[{"weights":{"bytes_in":1,"bytes_out":1,"ns":1,'
      .. '"exposed_ns":1}}]},"shares_percent":[{"computed":9,"data":1,"edges":{}}]}',
   ["timeline.json"] = '{"traceEvents":[{"ph":"M","pid":0,"name":"process_name","args":{}},'
      .. '{"ph":"X","pid":0,"tid":0,"ts":1,"dur":2,"cat":"forward","name":"F stage 0 mb 0",'
      .. '"args":{"batch":0,"micro":0,"lag":1,"version":0}},{"ph":"X","pid":0,"tid":9,"ts":1,'
      .. '"dur":1,"cat":"wait","name":"data","args":{}},{"ph":"C","pid":0,"ts":1,"name":"memory",'
      .. '"args":{"bytes":5}}]}',
   ["plan.txt"] = "ftpipe-plan 1\nstage 0 device 0\nmemory 0 weights 5\nedge F0>F1 slots 2\n"
      .. "node-stage 0*3\n",
   ["checkpoints/step-2/state/state.json"] = '{"format":2,"step":2,"batch":2,"seconds":1,'
      .. '"tokens":3}',
   profile = "ftpipe profile 2\ndevice cpu\ncopy_bytes_per_s 1\nhandoff_ns 1\nforward 1 2 3 4 5 6 7 "
      .. "8 9  linear\n",
}

local FILES = { r = "run.json", m = "metrics.jsonl", u = "summary.json", t = "timeline.json",
   p = "plan.txt", s = "checkpoints/step-2/state/state.json", f = "profile" }

local home = dofile("test/fuzz/directory.lua")
local directory = home.path

local function write(name, text)
   local file = assert(io.open(directory .. "/" .. name, "w"))
   file:write(text)
   file:close()
end

local function show_trace()
   for _, last in ipairs { 0, 9 } do
      trace.text(directory, 0, last, true)
      trace.text(directory, 0, last)
   end
end

local function show_page() report.page(directory) end

local function show_screen() top.screen(directory) end

local function show_lines() runs.lines(directory) end

-- What reads which file.
local READERS = {
   f = { function(text) profiles.read(text, "profile") end },
   s = { function() states.mend(directory) end },
   m = { show_screen, show_page },
   r = { show_lines, show_screen, show_page },
   u = { show_lines, show_page },
   t = { show_trace, show_page },
   p = { show_trace, show_page },
}

core.sys.mkdir(directory .. "/checkpoints/step-2/state")
core.sys.mkdir(directory .. "/checkpoints/step-2/hf")
core.io.link(directory .. "/checkpoints/latest", "step-2")
for name, text in pairs(WHOLE) do write(name, text) end

--- Takes a text; raises for what may not be.
return function(text)
   local letter = text:sub(1, 1)
   local name = FILES[letter]
   if not name or not home then return end
   write(name, text:sub(2))
   for _, read in ipairs(READERS[letter]) do
      local ok, problem = pcall(read, text:sub(2))
      if not ok then check_refusal(problem, "malformed data", "not found") end
   end
   write(name, WHOLE[name])
end

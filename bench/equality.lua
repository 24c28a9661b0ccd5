--- Every synchronous run computes what one device computes: the whole table of
-- spec/support/equality.lua, of which spec/equality_spec.lua runs some.
--
--    ftpipe bench/equality.lua
--
-- Bits do not depend on how busy a machine is.

local equality = require("spec.support.equality")

io.stdout:setvbuf("line")
local check, groups, names = equality.checker(), {}, {}
local ran, refused, differ = 0, 0, 0
for _, case in ipairs(equality.cases()) do
   local name = case.family .. " " .. case.schedule
   if not groups[name] then
      names[#names + 1] = name
      groups[name] = { ran = 0, refused = 0, recomputed = 0 }
   end
   local group = groups[name]
   local found, why, recomputed, stages = check(case)
   if found then
      differ = differ + 1
      print("differs: " .. equality.name(case) .. ": " .. found)
   elseif why then
      refused, group.refused = refused + 1, group.refused + 1
      group.why = why
   end
   if not why then ran, group.ran = ran + 1, group.ran + 1 end
   if recomputed and case.recompute == "auto" and recomputed > 0 and recomputed < stages then
      group.recomputed = group.recomputed + 1
   end
   collectgarbage()
end
for _, name in ipairs(names) do
   local group = groups[name]
   print(("%-18s %3d ran, in %2d of them some stages recompute; %2d refused%s"):format(name,
      group.ran, group.recomputed, group.refused, group.why and ", as: " .. group.why or ""))
end
print(("%d runs of 10 steps computed what one device computes, to the bit; %d differ; %d were "
   .. "refused before they ran"):format(ran - differ, differ, refused))
print(("gate equality-differ %d"):format(differ))
os.exit(differ == 0 and ran > 0 and 0 or 1, true)

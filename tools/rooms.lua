--- Files and lines of each room, in commits side by side. ftpipe tools/rooms.lua COMMIT...
--
-- A room is a directory of src/ or of lua/ftpipe/; modules beside those directories are in none.

local argvs = require("ftpipe.base.argv")
local core = require("ftpipe.core")

--- Lines and files by room of a commit.
local function count(commit)
   local rooms = {}
   local pipe = assert(io.popen(("git diff --numstat $(git hash-object -t tree /dev/null) %s -- "
      .. "src lua/ftpipe; echo \"git ended: $?\""):format(argvs.quoted(commit))))
   for line in pipe:lines() do
      local code = line:match("^git ended: (%d+)$")
      if code and code ~= "0" then core.fail("not found", commit .. " is no commit here") end
      local lines, path = line:match("^(%d+)\t%d+\t(.+)$")
      if lines then
         local room = path:match("^src/[^/]+") or path:match("^lua/ftpipe/[^/]+/")
            or "lua/ftpipe/*.lua"
         room = room:gsub("/$", "")
         rooms[room] = rooms[room] or { files = 0, lines = 0 }
         rooms[room].files = rooms[room].files + 1
         rooms[room].lines = rooms[room].lines + tonumber(lines)
      end
   end
   pipe:close()
   return rooms
end

local counts, names, seen = {}, {}, {}
for i, commit in ipairs(arg) do
   counts[i] = count(commit)
   for room in pairs(counts[i]) do
      if not seen[room] then names[#names + 1] = room end
      seen[room] = true
   end
end
table.sort(names)

local function cell(room)
   return ("%18s"):format(room and ("%d files %5d"):format(room.files, room.lines) or "-")
end

local head, all, totals = ("%-20s"):format("room"), ("%-20s"):format("all"), {}
for i, commit in ipairs(arg) do
   head = head .. ("%18s"):format(commit:sub(1, 12))
   totals[i] = { files = 0, lines = 0 }
end
print(head)
for _, name in ipairs(names) do
   local row = ("%-20s"):format(name)
   for i, total in ipairs(totals) do
      local room = counts[i][name]
      row = row .. cell(room)
      total.files = total.files + (room and room.files or 0)
      total.lines = total.lines + (room and room.lines or 0)
   end
   print(row)
end
for _, total in ipairs(totals) do all = all .. cell(total) end
print(all)

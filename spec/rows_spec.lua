--- Timelines in characters.

local rows = require("ftpipe.schedule.rows")

local function slice(pid, cat, ts, dur)
   return { ph = "X", pid = pid, tid = pid, cat = cat, ts = ts, dur = dur, name = cat, args = {} }
end

local EVENTS = {
   { ph = "M", pid = 0, name = "process_name", args = {} },
   slice(0, "forward", 100, 200), slice(0, "wait", 300, 400), slice(0, "backward", 700, 300),
   slice(1, "forward", 300, 200), slice(1, "backward", 500, 200), slice(1, "update", 700, 100),
   slice(2, "transfer", 100, 900), -- a link, beneath the devices
}

describe("a timeline in characters", function()
   it("has a column for each equal part, what took most of it, and what was idle", function()
      assert.equal("a    |FF....BBB|  44 %\nlong |..FFBB#..|  44 %\n"
         .. "F forward  B backward  # other  . nothing; 0.900 ms; behind each row: idle",
         rows.text(EVENTS, { "a", "long" }, { columns = 9, ascii = true }))
   end)

   it("is of as many characters in any alphabet", function()
      local text = rows.text(EVENTS, { "a", "b" }, { columns = 12, ascii = false })
      local row = text:match("^a |(.-)|")
      assert.equal(12, select(2, row:gsub("[^\128-\191]", "")))
      assert.is_nil(row:gsub("▓", ""):gsub("░", ""):gsub("·", ""):find("."))
   end)

   it("says when there is nothing", function()
      assert.equal("nothing was computed", rows.text({}, { "a" }))
   end)
end)

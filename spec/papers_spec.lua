local files = require("spec.support.files")
local process = require("spec.support.process")

--- Runs a script of examples/papers; gives its output and the counts of its last line.
local function run(arguments)
   arguments[1] = "examples/papers/" .. arguments[1]
   local out, err, code = process.ftpipe(arguments)
   assert.equal("", err)
   assert.equal(0, code)
   local all, near, left, fitted = out:match(
      "(%d+) figures: (%d+) within [^\n]*, (%d+) residuals?; (%d+) fitted")
   local counts = {
      all = tonumber(all), near = tonumber(near), left = tonumber(left), fitted = tonumber(fitted),
   }
   -- each row is what the closing line says, none is explained away
   assert.equal(counts.all, counts.near + counts.left)
   assert.equal(counts.left, select(2, out:gsub("%%  residual", "")))
   assert.equal(counts.fitted, select(2, out:gsub("%%  fitted", "")))
   return out, counts
end

--- The two figures of a row.
local function row(out, name)
   local line = out:match("\n   " .. name:gsub("%p", "%%%0") .. " +([^\n]+)")
   local published, ours = line:match("^(%S+) +(%S+)")
   return tonumber(published), tonumber(ours)
end

describe("examples/papers/harmony.lua", function()
   it("counts what differs by more than 10 %, and says what is probably missing", function()
      local out, counts = run { "harmony.lua" }
      assert.equal(83, counts.all)
      assert.equal(8, counts.left)
      assert.equal(0, counts.fitted)
      assert.matches("\n   %(2%) their FLOP are those of one stack", out)
      local published, ours = row(out, "pipeline x2, searched packs")
      assert.equal(published, ours)
   end)

   it("does not count what a switch was worked back from", function()
      local _, counts = run { "harmony.lua", "--parameters", "paper", "--fragmentation", "0.297" }
      assert.equal(0, counts.left)
      assert.equal(24 + 2, counts.fitted)
      assert.equal(83 - 26, counts.all)
   end)

   it("says what it lacks where it is installed", function()
      files.in_directory(function(dir)
         process.shell(("mkdir -p %s/examples && cp -r examples/papers %s/examples"):format(dir,
            dir))
         process.refused(2, "%-%-run takes times with %S+/bench/peer.lua, which is not there",
            { dir .. "/examples/papers/harmony.lua", "--run" })
      end)
   end)

   it("counts a virtual memory that tracks pages", function()
      local out = run { "harmony.lua", "--write-back", "dirty" }
      local published, ours = row(out, "data par., swapping, W")
      assert.equal(4 * 16 + 2 * 4, published)
      assert.equal(2 * 16 + 2 * 4, ours)
   end)
end)

describe("examples/papers/pipedream.lua", function()
   it("says which models it skips", function()
      local out, counts = run { "pipedream.lua" }
      assert.equal(0, counts.all)
      assert.matches("VGG%-16, 4x4 A +skipped: no %-%-profiles", out)
   end)

   it("gives what PipeDream's optimizer gives, and closes gaps", function()
      local dir = files.shared("data/graphs/pipedream", pending)
      if not dir then return end
      local out, counts = run { "pipedream.lua", "--profiles", dir }
      assert.equal(36, counts.all)
      assert.equal(9, counts.left)
      for _, name in ipairs { "vgg16, 16 GPUs, ms", "gnmt_large, 16 GPUs, ms" } do
         local published, ours = row(out, name)
         assert.is_true(math.abs(published - ours) < .011)
      end
      assert.matches("AWD LM, 1x4 A +skipped: no awd_lm.txt", out)
      -- no one speed of GPUs gives table 1; each that gives a row loses others
      for _, faster in ipairs { "0.5", "2" } do
         local _, other = run { "pipedream.lua", "--profiles", dir, "--only", "GNMT-8", "--faster",
            faster, "--overlap" }
         assert.is_true(other.left > 0)
      end
   end)
end)

describe("examples/papers/ftpipe.lua", function()
   it("has plans near theirs, and counts the rest", function()
      local out, counts = run { "ftpipe.lua" }
      assert.equal(44, counts.all)
      assert.equal(1, counts.fitted) -- the block that times are scaled by
      assert.is_true(counts.left > 0)
      -- a time of every block, however small it is, gives a row and not the table
      assert.is_true(select(2, run { "ftpipe.lua", "--small-batch", "2.7" }).left > 0)
      for name, least in pairs { ["mixed 4x512/4"] = .985, ["mixed 8x320/8"] = .985 } do
         local _, balance = row(out, name .. ", balance")
         assert.is_true(balance >= least)
         local _, most = row(out, name .. ", fullest card")
         assert.is_true(most <= 420)
      end
      local _, async = row(out, "BoolQ, async mixed")
      assert.is_true(async > 1.5)
      -- their GPipe makes nothing again for the first backward of a batch
      local published, ours = row(out, "WikiText-2, async seq")
      assert.is_true(math.abs(ours / published - 1) < .05)
   end)
end)

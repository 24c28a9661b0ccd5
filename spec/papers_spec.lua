local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

-- A script takes some ten seconds of one processor; thread sanitizers multiply that.
local SECONDS = core.sanitized and 900 or 240

--- Runs a script of examples/papers; gives its output and the counts of its last line.
local function run(arguments)
   arguments[1] = "examples/papers/" .. arguments[1]
   local out, err, code = process.ftpipe(arguments, nil, SECONDS)
   assert.equal("", err)
   assert.equal(0, code)
   local all, near, left = out:match("(%d+) figures: (%d+) within .- named, (%d+) residual")
   return out, { all = tonumber(all), near = tonumber(near), left = tonumber(left) }
end

--- The two figures of a row.
local function row(out, name)
   local line = out:match("\n   " .. name:gsub("%p", "%%%0") .. " +([^\n]+)")
   local published, ours = line:match("^(%S+) +(%S+)")
   return tonumber(published), tonumber(ours)
end

describe("examples/papers/harmony.lua", function()
   it("has every figure within 10 %, or the assumption named", function()
      local out, counts = run { "harmony.lua" }
      assert.equal(83, counts.all)
      assert.equal(0, counts.left)
      local published, ours = row(out, "pipeline x2, searched packs")
      assert.equal(published, ours)
   end)

   it("closes all gaps with the switches it names", function()
      local _, counts = run { "harmony.lua", "--parameters", "paper", "--fragmentation", "0.297" }
      assert.equal(counts.all, counts.near)
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
      assert.equal(0, counts.left)
      for _, name in ipairs { "vgg16, 16 GPUs, ms", "gnmt_large, 16 GPUs, ms" } do
         local published, ours = row(out, name)
         assert.is_true(math.abs(published - ours) < .011)
      end
      assert.matches("AWD LM, 1x4 A +skipped: no awd_lm.txt", out)
      for _, name in ipairs { "VGG-16", "GNMT-8" } do
         local words = { "pipedream.lua", "--profiles", dir, "--only", name }
         local switches = out:match(name:gsub("%p", "%%%0") .. ", 2x8 B[^\n]+(%-%-faster [^\n]+)")
         for word in switches:gmatch("%S+") do words[#words + 1] = word end
         local published, ours = row((run(words)), name .. ", 2x8 B, speed-up")
         assert.is_true(math.abs(ours / published - 1) < .105, name)
      end
   end)
end)

describe("examples/papers/ftpipe.lua", function()
   it("has plans near theirs, and names what the rest assumes", function()
      local out, counts = run { "ftpipe.lua" }
      assert.equal(45, counts.all)
      assert.equal(0, counts.left)
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

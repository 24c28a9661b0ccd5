--- Event files, read again by their format.

local core = require("ftpipe.core")
local events = require("ftpipe.store.events")
local ffi = require("ffi")
local files = require("spec.support.files")
local process = require("spec.support.process")

--- A number of little-endian bytes.
local function number(text)
   local value = 0
   for i = #text, 1, -1 do value = value * 256 + text:byte(i) end
   return value
end

--- The CRC that a masked one stands for, by the rule of the format.
local function unmasked(text)
   local turned = (number(text) - 0xa282ead8) % 2 ^ 32
   return (turned % 2 ^ 17) * 2 ^ 15 + math.floor(turned / 2 ^ 17)
end

--- CRC-32C bit by bit, on numbers.
local function crc(text)
   local value = 2 ^ 32 - 1
   for i = 1, #text do
      value = bit.bxor(value, text:byte(i)) % 2 ^ 32
      for _ = 1, 8 do
         local odd = value % 2 == 1
         value = math.floor(value / 2)
         if odd then value = bit.bxor(value, 0x82f63b78) % 2 ^ 32 end
      end
   end
   return 2 ^ 32 - 1 - value
end

--- Fields of a message: { number =, value = (a number or a text) }.
local function fields(text)
   local list, at = {}, 1
   local function varint()
      local value, factor = 0, 1
      while true do
         local byte = text:byte(at)
         at, value, factor = at + 1, value + byte % 128 * factor, factor * 128
         if byte < 128 then return value end
      end
   end
   while at <= #text do
      local tag = varint()
      local kind = tag % 8
      local value
      if kind == 0 then
         value = varint()
      else
         local n = kind == 1 and 8 or kind == 5 and 4 or varint()
         value, at = text:sub(at, at + n - 1), at + n
      end
      list[#list + 1] = { number = math.floor(tag / 8), value = value }
   end
   return list
end

--- The bytes of its records, checked.
local function records_of(text)
   local at, list = 1, {}
   while at <= #text do
      local length = number(text:sub(at, at + 7))
      assert.equal(crc(text:sub(at, at + 7)), unmasked(text:sub(at + 8, at + 11)))
      local data = text:sub(at + 12, at + 11 + length)
      assert.equal(crc(data), unmasked(text:sub(at + 12 + length, at + 15 + length)))
      at = at + 16 + length
      list[#list + 1] = data
   end
   return list
end

describe("an event file", function()
   it("has the checksums of CRC-32C", function()
      assert.equal(0xe3069283, events.crc("123456789"))
      assert.equal(0, events.crc(""))
      for _, text in ipairs { "a", ("\255"):rep(33), "\0\0\0\0" } do
         assert.equal(crc(text), events.crc(text))
      end
   end)

   it("of a run has every number of its metrics", function()
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/run.json", "{}")
         local rows = { { v = 1, step = 1, time = 1.5e9, loss = 0.75, idle_percent = { 10, 20 } },
            { v = 1, step = 300, time = 1.5e9 + 1, eval_loss = 0.5, metric = "accuracy",
               value = 91 } }
         core.sys.write_file(dir .. "/metrics.jsonl", core.json.encode(rows[1]) .. "\n"
            .. core.json.encode(rows[2]) .. '\n{"v":1,"ste')
         local out, err, code = process.ftpipe { "runs", "events", dir }
         assert.equal(0, code, err)
         assert.matches("/events.out.tfevents.ftpipe: 2 rows\n$", out)
         local text, found = core.sys.read_file(dir .. "/events.out.tfevents.ftpipe"), {}
         for _, data in ipairs(records_of(text)) do
            local event = {}
            for _, field in ipairs(fields(data)) do event[field.number] = field.value end
            event[1] = tonumber(ffi.cast("double *", ffi.new("char[9]", event[1]))[0])
            found[#found + 1] = event
         end
         assert.equal("brain.Event:2", found[1][3])
         local scalars = {}
         for i = 2, 3 do
            assert.equal(rows[i - 1].time, found[i][1])
            for _, value in ipairs(fields(found[i][5])) do
               local row = fields(value.value)
               scalars[("%d %s"):format(found[i][2], row[1].value)] =
                  tonumber(ffi.cast("float *", ffi.new("char[5]", row[2].value))[0])
            end
         end
         assert.same({ ["1 loss"] = 0.75, ["1 idle_percent/0"] = 10, ["1 idle_percent/1"] = 20,
            ["300 eval_loss"] = 0.5, ["300 eval/accuracy"] = 91 }, scalars)
         process.refused(6, "metrics.jsonl: there is none", { "runs", "events", (function()
            os.remove(dir .. "/metrics.jsonl")
            return dir
         end)() })
      end)
   end)

   it("is written as a run goes on, when that is asked for", function()
      files.in_directory(function(dir)
         local function train(...)
            local _, err, code = process.ftpipe { "recipes/t5_rte.lua", "--events", "--out",
               dir .. "/run", "--eval-limit", "4", "--profile", "modelled", ... }
            assert.equal(0, code, err)
            return core.sys.read_file(dir .. "/run/events.out.tfevents.ftpipe")
         end
         local function behind_head(text) return { unpack(records_of(text), 2) } end
         local rows = behind_head(train("--steps", "2"))
         process.ftpipe { "runs", "events", dir .. "/run" } -- all that metrics.jsonl has
         assert.same(behind_head(core.sys.read_file(dir .. "/run/events.out.tfevents.ftpipe")),
            rows)
         assert.is_true(#rows > 2)
         local more = behind_head(train("--steps", "3", "--change-rate", "--resume"))
         assert.equal(rows[1], more[1])
         assert.is_true(#more > #rows)
         process.refused(2, "%-%-events is a file of the run directory, give %-%-out too",
            { "recipes/t5_rte.lua", "--events" })
      end)
   end)
end)

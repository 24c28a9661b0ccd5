local units = require("ftpipe.base.units")

describe("units", function()
   it("reads sizes: GB is 10^9, GiB 2^30", function()
      assert.equal(11e9, units.bytes("11GB"))
      assert.equal(10 * 2 ^ 30, units.bytes("10 GiB"))
      assert.equal(1500, units.bytes("1.5kB"))
      assert.equal(2e9, units.bytes("2e9"))
      assert.equal(512, units.bytes(512))
   end)

   it("reads times and rates", function()
      assert.equal(30, units.seconds("30 s"))
      assert.equal(300, units.seconds("5min"))
      assert.near(0.01, units.seconds("10ms"), 1e-12)
      assert.equal(12e9, units.bytes_per_second("12 GB/s"))
      assert.equal(12e9, units.bytes_per_second(12e9))
   end)

   it("reads numbers", function()
      assert.equal(3e-4, units.number("3e-4"))
      assert.equal(-0.5, units.number("-0.5"))
      assert.equal(7, units.number(7))
   end)

   it("says what was expected of anything else", function()
      for _, wrong in ipairs { "11 gb", "GB", "", "-1GB", "1e999", "0x10", "1GB/s", "11GBs" } do
         local value, problem = units.bytes(wrong)
         assert.is_nil(value)
         assert.matches("expected a size", problem)
      end
      assert.equal("expected whole bytes, got '1.5'", select(2, units.bytes("1.5")))
      for _, wrong in ipairs { "", "x", "0x10", "inf", "nan", "1e999", "1 2", "--1" } do
         assert.is_nil((units.number(wrong)))
      end
      assert.is_nil((units.bytes_per_second("12GB")))
      assert.is_nil((units.seconds({})))
      assert.is_nil((units.number(0 / 0)))
   end)

   it("writes sizes and times", function()
      assert.equal("11.8 GB", units.format_bytes(11811160064))
      assert.equal("999 B", units.format_bytes(999))
      assert.equal("4.2 s", units.format_seconds(4.2))
      assert.equal("1:35", units.format_seconds(95))
      assert.equal("1:01:40", units.format_seconds(3700))
      assert.equal("12 ms", units.format_seconds(0.012))
      assert.same({ "1.0 MB", "999.9 kB", "inf B" }, { units.format_bytes(999960),
         units.format_bytes(999940), units.format_bytes(1 / 0) })
      for seconds, text in pairs { [0] = "0 s", [-3] = "-3.0 s", [59.96] = "1:00",
         [59.94] = "59.9 s", [0.9996] = "1.0 s", [9.996e-4] = "1 ms", [1 / 0] = "inf s" } do
         assert.equal(text, units.format_seconds(seconds))
      end
      assert.equal("23.4", units.format_rate(23.42))
      assert.equal("0.0353", units.format_rate(0.03531))
      assert.equal("0", units.format_rate(0))
   end)
end)

describe("sizes", function()
   it("are not negative", function()
      assert.is_nil((units.bytes(-5)))
      assert.is_nil((units.seconds(-0.5)))
      assert.equal(2 ^ 30, units.bytes("1GiB"))
   end)
end)

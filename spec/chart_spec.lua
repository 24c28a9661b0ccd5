--- Curves as SVG.

local chart = require("ftpipe.page.chart")

describe("a chart", function()
   it("has the least and the most of points that are drawn as one", function()
      local points = {}
      for i = 1, 100 do points[i] = { i, i == 17 and -5 or i == 13 and 9 or 0 } end
      local thin = chart.thinned(points, 10)
      assert.same({ { 13, 9 }, { 17, -5 } }, { thin[2], thin[3] })
      assert.equal(11, #thin) -- one of each other bucket
      assert.equal(points, chart.thinned(points, 50))
   end)

   it("has no word upon another one beside an axis, but that of the best row", function()
      local rows = {}
      for i, place in ipairs { 0.5, 0.51, 0.9 } do
         rows[i] = { places = { place }, words = { "w" .. i }, best = i == 2 }
      end
      local page, seen = chart.parallel({ "lr" }, rows), {}
      for word in page:gmatch('stroke="#fff"[^>]*>(w%d)</text>') do seen[#seen + 1] = word end
      table.sort(seen)
      assert.same({ "w2", "w3" }, seen)
   end)
end)

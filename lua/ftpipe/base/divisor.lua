--- The largest divisor of a whole number that is not above another one.
-- @tparam int n from 1 on
-- @tparam int most from 1 on
-- @treturn int
return function(n, most)
   for divisor = math.min(n, most), 2, -1 do
      if n % divisor == 0 then return divisor end
   end
   return 1
end

--- A number in the fewest digits that are it and no other: 0.001, 0.30000000000000004.
-- @tparam number value
-- @treturn string what `tonumber` reads as the same number
return function(value)
   for digits = 15, 16 do -- fifteen are enough for whatever was written with no more
      local text = ("%." .. digits .. "g"):format(value)
      if tonumber(text) == value then return text end
   end
   return ("%.17g"):format(value)
end

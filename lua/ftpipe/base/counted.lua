--- How many of something there are, in words.

--- "1 stage", "2 stages".
-- @tparam int n
-- @tparam string one what one of them is called
-- @tparam[opt] string many what several are, where that is not `one` with an s
-- @treturn string
return function(n, one, many)
   return ("%d %s"):format(n, n == 1 and one or many or one .. "s")
end

-- Tensors: create, index, compute. Run: ftpipe examples/tensor.lua
local ft = require("ftpipe")

local t = ft.tensor { { 1, 2 }, { 3, 4 } }
print(t)                        --> tensor f32 (2, 2)
                                --> [[1, 2],
                                -->  [3, 4]]
print(t[1][2], #t)              --> 2	2
print(t:sum(), t:mean(), t:max())   --> 10	2.5	4
print(t:sum(1))                 --> tensor f32 (2)
                                --> [4, 6]
print(t:matmul(t:transpose())[2][1])   --> 11
print(t * 2 + 1 == ft.tensor { { 3, 5 }, { 7, 9 } })   --> true

t[1] = 0                        -- a row
print(t:reshape { 4 })          --> tensor f32 (4)
                                --> [0, 0, 3, 4]

local p = t:pointer()           -- float *, counted from 0
print(p[2])                     --> 3

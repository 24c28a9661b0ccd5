--- Options of the build say what they do, or end it with what is missing.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

--- What CMake says of a new build folder with this FTPIPE_CUDA, in one line, and its exit code.
local function configured(cuda)
   local out, err, code
   files.in_directory(function(dir)
      local command = "cmake -S . -B '%s/build' -DFTPIPE_CUDA=%s"
      out, err, code = process.shell(command:format(dir, cuda))
   end)
   return (out .. err):gsub("%s+", " "), code
end

describe("the build", function()
   it("says what becomes of CUDA, and refuses ON when there is nothing to build", function()
      if core.sanitized then return pending("nothing of the program runs in it") end
      if os.execute("command -v cmake >/dev/null") ~= 0 then return pending("there is no cmake") end
      local said, code = configured("OFF")
      assert.matches("CUDA: off %(FTPIPE_CUDA=OFF%)", said)
      assert.equal(0, code)
      said, code = configured("AUTO")
      local lacks = said:match("CUDA: off %(FTPIPE_CUDA=AUTO, and (.-)%)")
      assert.is_true(lacks ~= nil or said:find("CUDA: on, with ", 1, true) ~= nil, said)
      assert.equal(0, code)
      said, code = configured("ON")
      local refusal = lacks and ("FTPIPE_CUDA=ON, but %s; AUTO builds without"):format(lacks)
      assert.equal(lacks and 1 or 0, code)
      assert.is_true(not lacks or said:find(refusal, 1, true) ~= nil, said)
      said, code = configured("YES")
      assert.matches("FTPIPE_CUDA=YES, expected AUTO, ON or OFF", said)
      assert.equal(1, code)
   end)
end)

--- Signals: they change no number, and the second one ends the program.

local core = require("ftpipe.core")
local ffi = require("ffi")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")
local stopped = require("spec.support.stopped")

ffi.cdef [[
   typedef struct { long every_s, every_us, first_s, first_us; } spec_timer;
   int setitimer(int which, const spec_timer *new, void *old);
   void (*signal(int number, int (*handler)(int)))(int);
   int abs(int x);
]]

local SIGALRM = 14

--- Calls body while SIGALRM comes 2000 times a second, to a handler that does nothing.
local function under_timer(body)
   local before = ffi.C.signal(SIGALRM, ffi.C.abs)
   ffi.C.setitimer(0, ffi.new("spec_timer", 0, 500, 0, 500), nil)
   local ok, result = pcall(body)
   ffi.C.setitimer(0, ffi.new("spec_timer"), nil)
   ffi.C.signal(SIGALRM, ffi.cast("int (*)(int)", before))
   return assert(ok and result, result)
end

--- A script that does not see its first signal, as the loop is compiled, and then gets `signals`.
local function ended_by(signals)
   local script = ([[local sys = require("ftpipe.core").sys
      print("begun") io.stdout:flush()
      io.popen("sh spec/support/send.sh " .. sys.getpid() .. " busy %s")
      local i = 0
      while true do i = i + 1 end]]):format(signals)
   -- a background job is given SIGINT ignored, and a shell tells signals by codes of its own
   return process.shell(("timeout 900 env --default-signal=INT '%s' -e '%s' & wait $!"):format(
      core.sys.executable(), script))
end

describe("signals", function()
   it("do not change what is trained on the thread that takes them", function()
      for _, family in ipairs { "t5", "gpt2" } do
         local options = { family = family, d_model = 192, d_ff = 384, d_kv = 64, steps = 3,
            batch = 32, threaded = false }
         local quiet = pipeline.train(options)
         for _ = 1, 3 do
            local disturbed = under_timer(function() return pipeline.train(options) end)
            assert.same(quiet.losses, disturbed.losses)
            assert.same(quiet.params, disturbed.params)
         end
      end
   end)

   it("end a measurement before its time", function()
      assert.equal("false\tcancelled\tprofile: stopped\n", stopped(core.sys.executable(), "cpu:1"))
   end)

   it("that were ignored when the program began stay ignored, as under nohup", function()
      local script = [[local sys = require("ftpipe.core").sys
         for _ = 1, 3 do io.popen("kill -s %s " .. sys.getpid()):close() end
         print("went on")]]
      local codes = { INT = 130, TERM = 143, HUP = 129 } -- of those that are not
      for name, code in pairs(codes) do
         for action, expected in pairs { ignore = { "went on\n", 0 }, default = { "", code } } do
            local command = "timeout 900 env --%s-signal=%s '%s' -e '%s' & wait $!"
            local out, _, got = process.shell(command:format(action, name, core.sys.executable(),
               script:format(name)))
            assert.same(expected, { out, got }, action .. " " .. name)
         end
      end
   end)

   it("end a compiled loop when they come twice", function()
      if core.sanitized then return pending("ThreadSanitizer holds signals back") end
      for signals, code in pairs {
         ["INT INT"] = 130, ["TERM TERM"] = 143, ["INT TERM"] = 143, ["TERM INT"] = 130,
      } do
         local out, _, got = ended_by(signals)
         assert.same({ signals, "begun\n", code }, { signals, out, got })
      end
   end)

   it("stop a line at the prompt, which goes on after Ctrl-C and ends after SIGTERM", function()
      -- the input ends when the signal has come, and after SIGTERM when the program has ended
      local command = [[rm -f '%s'; { printf '%%s\n' \
         'p = io.popen("sh spec/support/send.sh " .. ft.sys.getpid() .. " %s %s; echo "
            .. ft.sys.getpid() .. " >%s")' '%s'
         until [ -s '%s' ]; do sleep 0.05; done
         %s; } |
         timeout 900 env --default-signal=INT '%s' -i & wait $!]]
      local sent = os.tmpname()
      finally(function() os.remove(sent) end)
      local gone = ("while kill -0 $(cat '%s') 2>/dev/null; do sleep 0.05; done"):format(sent)
      local function try(signal, when, line)
         local _, err, code = process.shell(command:format(sent, when, signal, sent, line, sent,
            signal == "TERM" and gone or ":", core.sys.executable()))
         return err, code
      end
      for when, line in pairs { idle = "", busy = "while true do ft.sys.time_ns() end" } do
         local err, code = try("INT", when, line)
         assert.same({ "", 0 }, { (err:gsub("interrupted\n", "")), code })
         assert.same({ "ftpipe: terminated\n", 143 }, { try("TERM", when, line) })
      end
   end)
end)

# Sends signals to a process: sh send.sh PID WHEN SIGNAL...; each when it has computed for 0.3 s
# more (`busy`) or waits for something (`idle`), and the one before it has come.
pid=$1 when=$2
shift 2

# What it has computed, in 1/100 s; 0 when it is gone.
ticks() {
    set -- $(cat /proc/$pid/stat)
    echo $((${14:-0} + ${15:-0}))
}

busy() {
    from=$(ticks)
    while now=$(ticks) && [ $now -gt 0 ] && [ $now -lt $((from + 30)) ]; do sleep 0.02; done
}

idle() {
    while grep -q "^State:.*R" /proc/$pid/status; do sleep 0.02; done
}

for signal in "$@"; do
    $when
    kill -$signal $pid
    while grep -q "^ShdPnd:.*[1-9a-f]" /proc/$pid/status; do sleep 0.02; done
done 2>/dev/null

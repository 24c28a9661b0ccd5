#!/bin/bash
# Several machines on one, for tests of runs over a network: namespaces with an address and a name
# of their own, joined by a bridge, which mpirun reaches as it reaches machines. As root; SET is a
# number from 1 to 250, whatever is free: the addresses are 10.77.SET.1, ...
#
#   tools/netns.sh up SET N               makes N of them
#   tools/netns.sh up SET N RATE DELAY    with links of RATE bits/s and DELAY ms one way
#   tools/netns.sh lose SET PERCENT       has such links lose packets
#   tools/netns.sh run SET N COMMAND...   starts N processes with mpirun, one in each
#   tools/netns.sh cut SET I              takes the link of the I-th, from 0, down
#   tools/netns.sh slurm SET N DIRECTORY  makes them nodes of a cluster of Slurm, whose settings
#                                         (SLURM_CONF=DIRECTORY/slurm.conf) and logs are there;
#                                         DIRECTORY/own is another one on each node
#   tools/netns.sh down SET N             removes them, with all that runs there
#
# Kernels that have no netem hold no packet back, so links with a rate are those of tools/relay.lua,
# which the program runs: FTPIPE, or the one in build/release.
set -eu

fail() {
    echo "netns.sh: $1" >&2
    exit 2
}

up() {
    if [[ $# -eq 4 ]]; then up_relayed "$@"; else up_bridged "$@"; fi
}

up_bridged() {
    local set=$1 n=$2 bridge=ftb$1 i
    ip link add "$bridge" type bridge
    ip addr add "10.77.$set.254/24" dev "$bridge"
    ip link set "$bridge" up
    for ((i = 0; i < n; i++)); do
        ip netns add "ft$set-$i"
        ip link add "ftv$set-$i" type veth peer name eth0 netns "ft$set-$i"
        ip link set "ftv$set-$i" master "$bridge" up
        ip -n "ft$set-$i" addr add "10.77.$set.$((i + 1))/24" dev eth0
        ip -n "ft$set-$i" link set eth0 up
        ip -n "ft$set-$i" link set lo up
    done
}

state_of() {
    echo "${TMPDIR:-/tmp}/ftnet-$1"
}

up_relayed() {
    local set=$1 n=$2 state i
    state=$(state_of "$set")
    mkdir "$state"
    echo 0 >"$state/loss"
    ip tuntap add dev "ftt$set" mode tun
    ip addr add "10.77.$set.254/24" dev "ftt$set"
    ip link set "ftt$set" mtu 9000 up
    for ((i = 0; i < n; i++)); do
        ip netns add "ft$set-$i"
        ip -n "ft$set-$i" tuntap add dev eth0 mode tun
        ip -n "ft$set-$i" addr add "10.77.$set.$((i + 1))/24" dev eth0
        ip -n "ft$set-$i" link set eth0 mtu 9000 up
        ip -n "ft$set-$i" link set lo up
    done
    "${FTPIPE:-build/release/ftpipe}" tools/relay.lua "$set" "$n" "$3" "$4" "$state/loss" \
        >"$state/said" 2>&1 </dev/null &
    until grep -q ready "$state/said" || ! kill -0 $! 2>/dev/null; do sleep 0.05; done
    grep -q ready "$state/said" || fail "$(cat "$state/said")"
}

lose() {
    local state
    state=$(state_of "$1")
    echo "$2" >"$state/next"
    mv "$state/next" "$state/loss"
}

run() {
    local set=$1 n=$2 hosts='' i
    shift 2
    for ((i = 1; i <= n; i++)); do hosts+=${hosts:+,}10.77.$set.$i:1; done
    exec mpirun --allow-run-as-root --bind-to none -n "$n" --host "$hosts" \
        --mca plm_rsh_agent "$(realpath "$0")" --mca btl tcp,self \
        --mca oob_tcp_if_include "10.77.$set.0/24" --mca btl_tcp_if_include "10.77.$set.0/24" "$@"
}

# The cluster has a munged and ports of its own.
slurm() {
    local set=$1 n=$2 dir=$3 i
    mkdir -p "$dir/state" "$dir/own"
    echo "$dir" >"$(state_of "$set").slurm"
    head -c 128 /dev/urandom >"$dir/munge.key"
    chmod 400 "$dir/munge.key"
    munged --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" \
        --pid-file="$dir/munged.pid" --log-file="$dir/munged.log" --seed-file="$dir/munge.seed"
    cat >"$dir/slurm.conf" <<CONF
ClusterName=ft$set
SlurmctldHost=control(10.77.$set.254)
SlurmctldPort=$((20000 + set))
SlurmUser=root
SlurmdUser=root
AuthInfo=socket=$dir/munge.socket
StateSaveLocation=$dir/state
SlurmctldPidFile=$dir/slurmctld.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdSpoolDir=$dir/%n/spool
SlurmdPidFile=$dir/%n/slurmd.pid
TmpFS=$dir/%n
SlurmdLogFile=$dir/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
CONF
    for ((i = 0; i < n; i++)); do
        echo "NodeName=node$i NodeAddr=10.77.$set.$((i + 1)) CPUs=$(nproc)" >>"$dir/slurm.conf"
    done
    echo "PartitionName=all Nodes=ALL Default=YES State=UP" >>"$dir/slurm.conf"
    export SLURM_CONF=$dir/slurm.conf
    setsid unshare --uts sh -c "hostname control; exec slurmctld -D" >"$dir/control.said" 2>&1 \
        </dev/null &
    for ((i = 0; i < n; i++)); do
        mkdir -p "$dir/node$i/spool"
        # not `ip netns exec`, which hides the control groups that slurmd looks for
        setsid nsenter --net="/run/netns/ft$set-$i" unshare --mount --uts sh -c "
            hostname node$i; mount -t tmpfs tmpfs '$dir/own'
            exec slurmd -D -N node$i" >"$dir/node$i.said" 2>&1 </dev/null &
    done
    for ((i = 0; i < 100; i++)); do
        [[ $(sinfo -h -o %D -t idle 2>/dev/null) != "$n" ]] || return 0
        sleep 0.2
    done
    fail "the nodes of Slurm are not idle: $(tail -qn 1 "$dir"/*.said)"
}

slurm_down() {
    local dir name
    dir=$(cat "$(state_of "$1").slurm" 2>/dev/null) || return 0
    for name in slurmctld munged; do
        xargs -r kill -9 <"$dir/$name.pid" 2>/dev/null || true
    done
    rm -f "$(state_of "$1").slurm"
}

down() {
    local i
    slurm_down "$1"
    for ((i = 0; i < $2; i++)); do
        ip netns pids "ft$1-$i" 2>/dev/null | xargs -r kill -9 || true
        ip netns del "ft$1-$i" 2>/dev/null || true
    done
    ip link del "ftb$1" 2>/dev/null || true
    ip link del "ftt$1" 2>/dev/null || true
    rm -rf "$(state_of "$1")"
}

# As mpirun calls it in place of ssh: an address, and what to run there.
agent() {
    local set=${1#10.77.} i
    i=$((${set#*.} - 1))
    set=${set%.*}
    shift
    exec ip netns exec "ft$set-$i" unshare --uts sh -c "hostname node$i; $*"
}

case ${1-} in
up | run | slurm | down)
    [[ $# -ge 3 ]] || fail "$1 takes SET and N"
    "$@"
    ;;
cut) ip -n "ft$2-$3" link set eth0 down ;;
lose) lose "$2" "$3" ;;
10.77.*) agent "$@" ;;
*) fail "expected up, run, cut, lose, slurm or down, found '${1-}'" ;;
esac

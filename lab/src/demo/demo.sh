# Runs in the guest. Prints `phase POLICY TICKETS...` and `sample UPTIME_S NS...` for phase.rs, one figure for each user.
# Six programs that users might run: hashes, a compressor, and plain loops.

users='alice bob carol'

wait_for() { # STATE
    until grep -qx "$1" /sys/kernel/sched_ext/state; do sleep 0.2; done
}

run_as() { # USER COMMAND
    setpriv --reuid "$1" --regid "$1" --clear-groups sh -c "exec $2" >/dev/null &
    eval "pids_$1=\"\${pids_$1} $!\""
}

begin() {
    for user in $users; do eval "pids_$user="; done
    run_as alice 'burn'
    run_as alice 'sha256sum /dev/zero'
    run_as bob 'burn'
    run_as bob 'sha512sum /dev/zero'
    run_as carol 'burn'
    run_as carol 'gzip -c /dev/zero'
    sleep 1
}

end() {
    kill -9 $pids_alice $pids_bob $pids_carol
    wait $pids_alice $pids_bob $pids_carol 2>/dev/null
}

used_ns() { # PID...
    total=0
    for pid in "$@"; do
        read -r ns _ <"/proc/$pid/schedstat"
        total=$((total + ns))
    done
    echo $total
}

sample() {
    read -r now _ </proc/uptime
    echo "sample $now $(used_ns $pids_alice) $(used_ns $pids_bob) $(used_ns $pids_carol)"
}

phase() { # POLICY SAMPLES TICKETS...
    policy=$1 samples=$2
    shift 2
    lsetbase -u alice "$1" && lsetbase -u bob "$2" && lsetbase -u carol "$3" || exit 1
    echo "phase $policy $*"
    sample
    while [ $samples -gt 0 ]; do
        sleep 0.25
        sample
        samples=$((samples - 1))
    done
}

# Above the measured programs, so that samples come in time. What it starts does not inherit the priority.
chrt --reset-on-fork --fifo --pid 10 $$

tombola start --policy stride >/dev/null &
wait_for enabled
begin
phase stride 24 3000 2000 1000
phase stride 16 1000 2000 3000
end
tombola stop >/dev/null
wait_for disabled

tombola start --policy lottery >/dev/null &
wait_for enabled
begin
phase lottery 40 3000 2000 1000
end
tombola stop >/dev/null

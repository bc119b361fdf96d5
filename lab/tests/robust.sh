# Runs in the guest; robust.rs judges. robust.sh races SECONDS | restarts CYCLES

# What the kernel says of each thread and CPU when it ejects a scheduler
echo 1 >/sys/kernel/tracing/events/sched_ext/sched_ext_dump/enable
echo 8000 >/sys/kernel/tracing/buffer_size_kb

# Kernels before 6.18 tell a scheduler of a death when the last reference to the thread is given back, at leisure.
settled_status() {
    for _ in $(seq 60); do
        sleep 1
        tombola status --json --all --interval 1s >/tmp/status
        grep -q '"name": ""' /tmp/status || break
    done
    echo "STATUS $(tr -d '\n' </tmp/status)"
}

races() { # SECONDS
    tombola start >/dev/null &
    until grep -qx enabled /sys/kernel/sched_ext/state; do sleep 0.2; done
    # Who yields is drawn again at once, now and then by a CPU other than its own, which is still switching away from it.
    for _ in $(seq 7); do
        setpriv --reuid alice --regid alice --clear-groups burn --yielding >/dev/null &
    done
    sleep 20
    setpriv --reuid alice --regid alice --clear-groups kill -9 -1
    robust-probe turmoil --seconds "$1" || return
    settled_status
    tombola stop >/dev/null && wait
}

restarts() { # CYCLES
    robust-probe restarts --cycles "$1"
}

"$@"
status=$?
[ $status -eq 0 ] || sed -n 's/.*sched_ext_dump: //p' /sys/kernel/tracing/trace
exit $status

# Runs in the guest; robust.rs judges. robust.sh races SECONDS | economy STEPS | restarts CYCLES

# What the kernel says of each thread and CPU when it ejects a scheduler
echo 1 >/sys/kernel/tracing/events/sched_ext/sched_ext_dump/enable
echo 8000 >/sys/kernel/tracing/buffer_size_kb

races() { # SECONDS
    schedule
    # Who yields is drawn again at once, now and then by a CPU other than its own, which is still switching away from it.
    for _ in $(seq 7); do
        as alice 'burn --yielding'
    done
    sleep 20
    all_end alice
    robust-probe turmoil --seconds "$1" || return
    echo "STATUS $(settled_status)"
    tombola stop >/dev/null && wait
}

economy() { # STEPS
    schedule
    economist --steps "$1" || return
    echo "STATUS $(settled_status)"
    tombola stop >/dev/null && wait
}

restarts() { # CYCLES
    robust-probe restarts --cycles "$1"
}

"$@"
status=$?
[ $status -eq 0 ] || sed -n 's/.*sched_ext_dump: //p' /sys/kernel/tracing/trace
exit $status

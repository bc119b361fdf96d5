# Runs in the guest; robust.rs judges. robust.sh races SECONDS | currencies SECONDS | economy STEPS | restarts CYCLES, and then
# the options of `tombola start`

# The kernel's dump of each thread and CPU when it ejects a scheduler
echo 1 >/sys/kernel/tracing/events/sched_ext/sched_ext_dump/enable
echo 8000 >/sys/kernel/tracing/buffer_size_kb

races() { # SECONDS OPTIONS
    schedule "$2"
    # A thread that yields is drawn again at once, now and then by another CPU, while its own still switches away from it.
    for _ in $(seq 7); do
        as alice 'burn --yielding'
    done
    sleep 20
    all_end alice
    robust-probe stress --seconds "$1" || return
    echo "STATUS $(settled_status)"
    tombola stop >/dev/null && wait
}

# Does none of a user's processes run any more? A killed one still ends the call that it is in.
are_gone() { # USER
    cat /proc/[0-9]*/status 2>/dev/null | awk -v uid="$(id -u "$1")" '
        $1 == "State:" { gone = $2 == "Z" || $2 == "X" }
        $1 == "Uid:" && $2 == uid && !gone { left = 1 }
        END { exit left }'
}

# Alice's processes change the same currencies at once, while bob forks. His children do not come into her currencies.
currencies() { # SECONDS OPTIONS
    schedule "$2"
    as alice "attacker races"
    as bob 'sh -c "while :; do sleep 1000 & usleep 20000; done"'
    forker=$!
    sleep "$1"
    grep -qx enabled /sys/kernel/sched_ext/state || return
    kill $forker
    all_end alice
    until are_gone alice; do sleep 0.1; done
    for currency in $(tombola currency list -u alice --json | sed -n 's/.*"name": "\(.*\)".*/\1/p'); do
        tombola tree | awk -v name="$currency" '
            { match($0, /^ */) }
            $1 == "currency" && $2 == name { depth = RLENGTH; inside = 1; next }
            RLENGTH <= depth { inside = 0 }
            inside && $1 == "sleep" { found = 1; print "in a currency of another user: " $0 }
            END { exit found }' || return
        tombola currency retire "alice:$currency"
    done
    all_end bob
    echo "STATUS $(settled_status)"
    tombola stop >/dev/null && wait
}

economy() { # STEPS OPTIONS
    schedule "$2"
    economy-fuzz --steps "$1" || return
    echo "STATUS $(settled_status)"
    tombola stop >/dev/null && wait
}

# While the loader is real-time for a minute, the kernel's own scheduler hardly runs khugepaged (nice 19) beside the others. If it
# is preempted in an RCU read section, the kernel complains of a stall.
restarts() { # CYCLES OPTIONS
    echo never >/sys/kernel/mm/transparent_hugepage/enabled
    robust-probe restarts --cycles "$1" -- $2
}

"$@"
status=$?
[ $status -eq 0 ] || sed -n 's/.*sched_ext_dump: //p' /sys/kernel/tracing/trace
exit $status

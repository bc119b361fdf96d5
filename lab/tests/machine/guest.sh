# Functions for the scripts that run in the guest; put before each of them.

as() { # USER COMMAND
    setpriv --reuid "$1" --regid "$1" --clear-groups sh -c "exec $2" >/dev/null &
}

several() { # N COMMAND...
    n=$1
    shift
    while [ $n -gt 0 ]; do
        "$@"
        n=$((n - 1))
    done
}

all_end() { # USER
    setpriv --reuid "$1" --regid "$1" --clear-groups kill -9 -1
}

schedule() { # OPTIONS
    tombola start $1 >/tmp/started &
    until grep -qx enabled /sys/kernel/sched_ext/state; do
        kill -0 $! || exit 1
        sleep 0.2
    done
}

# VERIFIED, the name of a program of the scheduler's, and its count, for each that `schedule --verbose` has written.
verified() {
    sed -n 's/ instructions verified$//; T; s/^/VERIFIED /p' /tmp/started
}

# The status, on one line, when all exits have been reported: kernels before 6.18 report an exit only when the last reference to
# the thread is dropped, so no process may end just before the status. A user without clients is removed some seconds later, and
# the status also shows what was removed while it looked; hence the second look.
settled_status() {
    [ -p /tmp/nothing ] || mkfifo /tmp/nothing
    settled=0
    for _ in $(seq 30); do
        # This shell itself waits for 5 s: a process `sleep` would end just before the status.
        busybox ash -c 'read -t 5 _ <>/tmp/nothing; exec tombola status --json --all --interval 1s' >/tmp/status
        settled=$((settled + 1))
        ! grep -q '"name": ""' /tmp/status || settled=0
        [ $settled -lt 2 ] || break
    done
    tr -d '\n' </tmp/status
    echo
}

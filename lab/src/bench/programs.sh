# Read by the guest's shell before it runs programs; bench/programs.rs says which.
cd /tmp

exec_as() {
    user=$1
    shift
    exec setpriv --reuid="$user" --regid="$user" --clear-groups "$@"
}
as() { (exec_as "$@"); }

# cyclictest needs the right to be a real-time task, even if it is not to be one. Prints what is not zero of its histogram.
wake_each_millisecond() (
    ulimit -r 1
    as alice cyclictest --policy=other -q -i 1000 -D $((4 * DURATION)) -h 200000 | grep -v ' 000000$'
)

# beside_hogs USER COMMAND...: the command, while two busy processes of USER run for each CPU.
beside_hogs() {
    hogs=
    for _ in $(seq $((2 * CPUS))); do
        exec_as "$1" sh -c 'while :; do :; done' &
        hogs="$hogs $!"
    done
    shift
    "$@"
    kill $hogs
    wait $hogs
    true
}

# with_nginx COMMAND...: the command, while nginx serves a page of 1 KiB.
with_nginx() {
    mkdir -p /tmp/nginx
    printf '%1024s' >/tmp/nginx/index.html
    chown -R alice /tmp/nginx
    exec_as alice nginx -p /tmp/nginx -c /etc/nginx.conf -g "worker_processes $CPUS; daemon off;" &
    nginx=$!
    until [ -e /tmp/nginx/pid ]; do sleep 0.1; done
    "$@"
    kill $nginx
    wait $nginx
    true
}

context_switches() { awk '/^ctxt/ { print $2 }' /proc/stat; }

# counting COMMAND...: the command, and how often the CPUs switched meanwhile.
counting() {
    before=$(context_switches)
    "$@" 2>&1 || return
    echo "context switches: $(($(context_switches) - before))"
}

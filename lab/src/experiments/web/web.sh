# Read by the guest's shell before the experiment; web/mod.rs says what it does.
cd /tmp

# as USER TICKETS NICE COMMAND...: the command as that user's, who has so many base tickets; or at that nice value, or in a group
# with a weight of TICKETS.
as() {
    user=$1 tickets=$2 nice=$3
    shift 3
    case $BY in
    tickets) lsetbase -u "$user" "$tickets" && nice=0 ;;
    nice) ;;
    weight)
        nice=0
        mkdir -p "/sys/fs/cgroup/$user"
        echo "$tickets" >"/sys/fs/cgroup/$user/cpu.weight"
        ;;
    esac
    (
        [ "$BY" != weight ] || sh -c 'echo $PPID' >"/sys/fs/cgroup/$user/cgroup.procs"
        exec nice -n "$nice" setpriv --reuid="$user" --regid="$user" --clear-groups "$@"
    )
}

# serve USER ADDRESS TICKETS NICE: a web server with a file of 44 bytes, as in the thesis. Connections are never closed.
serve() {
    mkdir -p "/tmp/$1"
    printf '%44s' >"/tmp/$1/index.html"
    sed "s|/tmp/nginx|/tmp/$1|; s|127.0.0.1|$2|; s|access_log off;|& keepalive_requests 1000000;|" \
        /lab/nginx.conf >"/tmp/$1/nginx.conf"
    chown -R "$1" "/tmp/$1"
    as "$1" "$3" "$4" nginx -p "/tmp/$1" -c "/tmp/$1/nginx.conf" -g 'worker_processes 1; daemon off;' &
    for _ in $(seq 100); do
        [ ! -e "/tmp/$1/pid" ] || return 0
        sleep 0.1
    done
    return 1
}

serve_all() {
    [ "$BY" != weight ] || echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
    serve alice 127.0.0.1 400 0 && serve bob 127.0.0.2 200 7 && serve carol 127.0.0.3 200 7
}

# load SECONDS CONNECTIONS: asks all three servers, each over so many connections. What asks has other users, and more tickets
# than it can use: the published generators had computers of their own.
load() {
    loads=
    for server in 1 2 3; do
        as "200$server" 10000 -20 \
            wrk -t 1 -c "$2" -d "$1s" "http://127.0.0.$server:8080/" >"/tmp/load-$server" 2>&1 &
        loads="$loads $!"
    done
    for load in $loads; do wait "$load" || return 1; done
    for server in 1 2 3; do sed "s/^ */server $server: /" "/tmp/load-$server"; done
}

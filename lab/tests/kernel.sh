# Runs in the guest; kernel.rs judges. For each case: CASE NAME, then the JSON of `tombola status` on one line.
#
# kernel.sh POLICY

policy=$1

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

end() {
    for user in alice bob; do
        setpriv --reuid $user --regid $user --clear-groups kill -9 -1
    done
}

measure() { # NAME
    sleep 1
    echo "CASE $1"
    tombola status --json --interval 5s | tr -d '\n'
    echo
    end
    sleep 0.5
}

chrt --reset-on-fork --fifo --pid 10 $$
tombola start --policy "$policy" >/dev/null &
until grep -qx enabled /sys/kernel/sched_ext/state; do sleep 0.2; done

as alice burn
several 10 as bob burn
measure users-1-10

as alice burn
as bob 'burn --threads 8'
measure threads

as alice burn
as bob 'forker chain'
measure chain

as alice burn
as bob 'forker batches --children 4'
measure batches

as alice burn
several 3 as bob 'burn --yielding'
measure yielders

as alice burn
as bob napper
measure napper

lsetbase -u alice 10000
lsetbase -u bob 500
as alice burn
as bob burn
measure ratio-20-1
lsetbase -u alice 1000
lsetbase -u bob 1000

as alice 'lnice -p 400 burn'
as alice 'lnice -p 100 burn'
measure processes-4-1

as alice burn
as alice 'forker chain'
measure chain-inside

as alice burn
as alice 'forker batches'
measure wait-inside

as alice burn
as alice 'forker batches --children 4'
measure batches-inside

# Nothing is left over: no client but those of who lives, no thread waiting, no thread without a client.
sleep 1
echo "CASE idle"
tombola status --json --interval 1s | tr -d '\n'
echo
tombola stop >/dev/null
cat /sys/kernel/sched_ext/state

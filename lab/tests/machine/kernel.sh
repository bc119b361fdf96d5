# Runs in the guest; kernel.rs judges. For each case: CASE NAME, then for each window of time the JSON of `tombola status` on
# one line, or LATE and how many microseconds after its time a sleeper began to work, each time it woke; or TOOK, a number of
# operations, and the times of their beginning and end, in seconds; or USED, the CPU time that a thread had used at the
# beginning and at the end, in ns, and the seconds between. At the end, for each program of the scheduler's: VERIFIED, its
# name, and how many instructions of it the kernel's verifier has walked.
#
# kernel.sh OPTIONS WINDOWS SECONDS SET...: so many windows of so many seconds in each case of these sets, with the scheduler
# started with OPTIONS

options=$1 windows=$2 seconds=$3 cpus=$(nproc)
shift 3

# A hog for each of N users
crowd() { # N
    for n in $(seq "$1"); do
        as "u$n" burn
        crowd="$crowd u$n"
    done
}

end() {
    for user in alice bob carol 900 $crowd; do
        all_end "$user"
    done
    crowd=
}

observe() { # WINDOWS SECONDS
    for _ in $(seq "$1"); do
        tombola status --json --all --interval "$2s" | tr -d '\n'
        echo
    done
}

measure() { # NAME [WINDOWS SECONDS]
    sleep 1
    echo "CASE $1"
    observe "${2:-$windows}" "${3:-$seconds}"
    end
    sleep 0.5
}

# Two users of equal base tickets: whatever bob does, alice has her half.
two_users() {
    as alice burn
    several 10 as bob burn
    measure users-1-10
}

users() {
    two_users

    as alice burn
    as bob 'burn --threads 8'
    measure threads

    as alice burn
    several 3 as bob 'burn --yielding'
    measure yielders 2 "$seconds"

    several 3 as alice burn
    as bob messages
    measure messages

    as alice burn
    as bob 'forker chain'
    measure chain

    as alice burn
    as bob 'forker batches --children 4'
    measure batches

    as alice burn
    as bob napper
    measure napper

    # The sleeper is due ten times as much as the hog.
    lsetbase -u alice 5000
    lsetbase -u bob 500
    as alice napper
    as bob burn
    measure napper-10-1
    lsetbase -u alice 1000
    lsetbase -u bob 1000
}

# 64000 messages; the status before and after.
sent() {
    echo "CASE sent"
    observe 1 1
    setpriv --reuid bob --regid bob --clear-groups messages --each 40 --rounds 40
    observe 1 1
}

crowds() {
    as alice burn
    several 2 as bob burn
    measure users-1-2

    as alice burn
    as bob 'burn --processes 60'
    measure users-1-60

    as alice burn
    as bob 'forker batches'
    measure fork-and-wait

    as alice burn
    as bob 'napper --tick-us 4000'
    measure tick-napper
}

driver_inside() {
    as alice burn
    as alice 'forker driver'
    measure driver-inside
}

# Inside one user
insides() {
    as alice burn
    as alice 'forker chain'
    measure chain-inside

    as alice burn
    as alice 'forker batches'
    measure wait-inside

    as alice burn
    as alice 'forker batches --children 4'
    measure batches-inside

    driver_inside

    as alice burn
    as alice 'forker second-thread'
    measure second-thread-inside
}

interrupted() { # NAME
    chrt --fifo 50 napper --work-us 300 --nap-us 2000 --jitter-us 2000 >/dev/null &
    interrupter=$!
    measure "$1"
    kill -9 $interrupter
}

# What goes wrong in schedulers of this kind (docs/architecture.md, Pitfalls)
pitfalls() {
    # A real-time thread interrupts both: they are put back without being enqueued, and run without having been drawn.
    as alice burn
    as bob burn
    interrupted interrupted

    # A thread that was interrupted while alone goes on beside others.
    as alice burn
    as bob napper
    interrupted interrupted-alone

    # A second thread executes a program: it takes over the number of the first.
    as alice burn
    as bob 'burn --succeed'
    measure succession

    # A thread that comes back from another class begins where the others are.
    as alice burn
    hog=$!
    as bob burn
    sleep 1
    chrt --fifo --pid 1 $hog
    sleep 3
    chrt --other --pid 0 $hog
    measure class-change

    # A lag stays the same in service when tickets change. alice is due 1/3 half of the time, and 2/3 the other half.
    as alice burn
    as bob burn
    chrt --fifo 20 sh -c '
        while :; do
            lsetbase -u alice 500
            sleep 0.05
            lsetbase -u alice 2000
            sleep 0.05
        done' &
    changer=$!
    measure ticket-changes
    kill -9 $changer
    lsetbase -u alice 1000
}

# For each CPU a busy process of alice's, which are due half of all CPUs, whatever bob does
for_each_cpu() { # NAME N COMMAND: N for each CPU, of bob's
    several "$cpus" as alice burn
    several $(($2 * cpus)) as bob "$3"
    measure "$1"
}

queues_users() {
    for_each_cpu queues-1-4 4 burn
}

queues() {
    queues_users
    for_each_cpu queues-threads 1 'burn --threads 8'
    for_each_cpu queues-yielders 3 'burn --yielding'
    for_each_cpu queues-batches 1 'forker batches --children 4'
    for_each_cpu queues-napper 1 napper
    lsetbase -u alice 3000
    for_each_cpu queues-3-1 2 burn
    lsetbase -u alice 1000
}

# Tickets that cannot be used: alice and bob have 18 of 19 parts of them and can use one CPU each; of the third CPU nine tenths
# are due to u1.
unusable() {
    lsetbase -u alice 9000
    lsetbase -u bob 9000
    lsetbase -u u1 900
    lsetbase -u u2 100
    as alice burn
    as bob burn
    crowd 2
    measure unusable
    for user in alice bob u1 u2; do lsetbase -u $user 1000; done
}

# On two queues of two CPUs: a CPU is due to alice, and one of the others' four hogs goes to her queue again and again, where two
# have been alone on a CPU each.
unusable_on_queues() {
    lsetbase -u alice 10000
    as alice burn
    several 2 as bob burn
    several 2 as u1 burn
    crowd=u1
    measure unusable-on-queues
    lsetbase -u alice 1000
}

# A real-time thread takes the CPU that alice's hog is on, and another CPU is free.
displaced() {
    as alice 'taskset -c 0 burn'
    hog=$!
    sleep 0.5
    taskset -p 3 $hog >/dev/null
    chrt --fifo 50 taskset -c 0 napper --work-us 100000 --nap-us 100000 >/dev/null &
    displacer=$!
    measure displaced 1 5
    kill -9 $displacer
}

ratio() { # ALICE'S BASE TICKETS FOR 500 OF BOB'S
    lsetbase -u alice "$1"
    as alice burn
    as bob burn
    measure "ratio-$(($1 / 500))" 1 "$seconds"
}

ratios_of() { # ALICE'S BASE TICKETS...
    lsetbase -u bob 500
    for tickets in "$@"; do ratio "$tickets"; done
    lsetbase -u alice 1000
    lsetbase -u bob 1000
}

ratio_20() {
    ratios_of 10000
}

ratios() {
    ratios_of 500 1000 1500 2500 5000 10000
}

processes() {
    as alice 'lnice -t 400 burn'
    as alice 'lnice -t 100 burn'
    measure processes-4-1 1 "$seconds"
}

# alice's client with 800 tickets waits for her server with 1, beside her hog with 100, in the ways in which programs wait
requests() {
    for way in pipe stream datagram tcp eventfd mutex inheriting-mutex; do
        as alice "requests --through $way"
        as alice burn
        measure "requests-$way"
    done
    as alice "requests --through connections --server 10"
    as alice burn
    measure requests-connections

    echo "CASE producers"
    observe 1 1
    setpriv --reuid alice --regid alice --clear-groups sh -c '
        produce() { for _ in $(seq 100); do echo; usleep 20000; done; }
        { produce & usleep 10000; produce; wait; } | cat >/dev/null'
    observe 1 1
}

# alice has a process with 40 tickets and one with 60, bob two with 100. `lender` and `borrower` are a process of each.
four() {
    as alice 'lnice -t 40 burn'
    lender=$!
    as alice 'lnice -t 60 burn'
    as bob burn
    borrower=$!
    as bob burn
    sleep 0.5
    tombola lend 20 --from $lender --to $borrower "$@"
}

of_user() { # USER COMMAND...
    user=$1
    shift
    setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
}

# Loans by commands: how they share, and how they end
loans() {
    four
    measure lent 1 4 &
    sleep 1.5
    before=$(cut -d ' ' -f 1 /proc/$borrower/schedstat)
    sleep 3
    echo "USED $before $(cut -d ' ' -f 1 /proc/$borrower/schedstat) 3"
    wait $!

    four
    tombola reclaim --from $lender
    measure reclaimed 1 "$seconds"

    four --for 300ms
    measure lent-for-a-time 1 "$seconds"

    four
    kill -9 $borrower
    measure borrower-killed 1 "$seconds"

    four
    kill -9 $lender
    measure lender-killed 1 "$seconds"

    # bob refuses.
    four
    of_user bob tombola reclaim --from $lender --to $borrower
    measure refused 1 "$seconds"

    # Its tickets are its own again before it gets others.
    four
    lrenice $lender 140
    measure lender-changed 1 "$seconds"

    # Who sleeps lends all that it has: 800 tickets, to a server with 1 beside a hog with 100.
    as alice 'lnice -t 1 burn'
    borrower=$!
    as alice burn
    sleep 0.5
    as alice "lnice -t 800 sh -c 'tombola lend all --from \$\$ --to $borrower; exec sleep 1000'"
    measure all-lent 1 "$seconds"

    echo "CASE rights"
    as alice burn
    lender=$!
    as bob burn
    borrower=$!
    sleep 0.5
    for command in "lend 1 --from $lender --to $borrower" "lend all --from $lender --to $borrower" \
        "lend 1 --from $borrower --to $lender" "reclaim --from $borrower" "lend 100 --from $lender --to $lender" \
        "lend 1 --from $lender --to 2" "lend 1 --from $lender --to 4000000" "reclaim --from $lender"; do
        of_user alice tombola $command 2>/dev/null
        echo "STATUS $?"
    done
    of_user alice tombola lend 100 --from $lender --to $borrower 2>&1 | head -1
    end
}

# alice's client with 800 tickets waits for a server with 1, beside a hog of alice's and one of bob's
server_of() { # USER
    rm -f /tmp/query.socket
    as "$1" 'lnice -t 1 query serve --clients 1'
    server=$!
    until [ -S /tmp/query.socket ]; do sleep 0.1; done
    chmod 777 /tmp/query.socket
    as alice 'lnice -t 800 query ask'
    as alice burn
    as bob burn
}

# A system user's server, which the rules name; bob's, who executes the same program; and bob's in a unit that they name. Then
# ten of alice's clients before one of bob's; and the first server, when the rules name it no longer. The daemon looks each
# second.
servers() {
    server_of 900
    sleep 2
    measure server-of-the-system 1 "$seconds"
    server_of bob
    sleep 2
    measure server-of-a-user 1 "$seconds"
    mkdir -p /sys/fs/cgroup/query.service
    server_of bob
    echo $server >/sys/fs/cgroup/query.service/cgroup.procs
    sleep 2
    measure server-in-a-unit 1 "$seconds"

    as 900 'attacker lend serve'
    until [ -S /tmp/attacker.socket ]; do sleep 0.1; done
    sleep 2
    as alice 'attacker lend ask --clients 10'
    sleep 1
    as bob 'attacker lend ask --clients 1'
    as carol burn
    measure server-of-many 1 "$seconds"
    all_end 900

    server_of 900
    sleep 2
    echo 'servers = []' >/tmp/servers.toml
    tombola reload >/dev/null
    sleep 2
    measure server-no-longer 1 "$seconds"
}

late() { # NAME FILE
    echo "LATE $(tr '\n' ' ' <"$2")"
}

# A process that works and sleeps, among hogs of equal tickets: how late it begins, and what it gets.
sleeper() { # NAME WORK_US
    as alice "napper --work-us $2 --nap-us 20000 --jitter-us 4000 --naps 700 >/tmp/late"
    napper=$!
    sleep 1
    echo "CASE $1"
    observe 1 10
    # A sleeper that asks for more than its share takes longer, and is not waited for.
    [ "$2" -gt 500 ] || { wait $napper && late "$1" /tmp/late; }
    end
    sleep 0.5
}

sleepers() {
    crowd 20
    sleeper sleeper-among-users 500
    crowd 20
    sleeper asks-too-much-among-users 2000
    several 20 as alice burn
    sleeper sleeper-inside 500
    several 20 as alice burn
    sleeper asks-too-much-inside 2000
}

# No thread delays real-time threads or the kernel's own.
others() {
    crowd 20
    sleep 1
    echo "CASE real-time"
    chrt --fifo 50 napper --work-us 100 --nap-us 5000 --jitter-us 4000 --naps 300 >/tmp/late
    late real-time /tmp/late
    # Each read makes a kernel thread run on each CPU, and waits for it.
    echo "CASE kernel-threads"
    chrt --fifo 50 sh -c '
        from=$(cut -d" " -f1 /proc/uptime)
        for _ in $(seq 200); do read -r _ </proc/sys/vm/stat_refresh; done
        echo "TOOK 200 $from $(cut -d" " -f1 /proc/uptime)"'
    end
    sleep 0.5
}

# Root is busy, and so are sixty users of equal base tickets.
administrator() {
    for n in $(seq 60); do
        as $((3000 + n)) burn
        crowd="$crowd $((3000 + n))"
    done
    burn >/dev/null &
    of_root=$!
    measure administrator 1 10
    kill -9 $of_root
}

# A thousand processes, and tickets as unequal as possible
extremes() {
    as alice 'burn --processes 500'
    as bob 'burn --processes 500'
    # Forking among so many takes long. Then all lags settle: a round takes a second.
    while [ "$(pidof burn | wc -w)" -lt 1000 ]; do sleep 1; done
    sleep 10
    measure thousand 1 60

    as alice 'lnice -t 10000 burn'
    as alice 'lnice -t 1 burn'
    measure ten-thousand-to-one 1 60

    lsetbase -u alice 10000
    lsetbase -u bob 100
    as alice 'lnice -t 10000 burn'
    as alice 'lnice -t 1 burn'
    as bob 'lnice -t 10000 burn'
    as bob 'lnice -t 1 burn'
    measure million-to-one 1 60
    lsetbase -u alice 1000
    lsetbase -u bob 1000
}

folder_of() { # NAME: of a kernel thread
    for folder in /proc/[0-9]*; do
        [ "$(cat "$folder/comm")" != "$1" ] || echo "$folder"
    done
}

# A kernel thread that computes all the time, khugepaged, and nobody else; then a second one, ksmd, and a user
kernel_thread() {
    huge=/sys/kernel/mm/transparent_hugepage/khugepaged
    same=/sys/kernel/mm/ksm
    thread=$(folder_of khugepaged)
    # It only works while a process has large memory.
    dd if=/dev/zero bs=60M count=1 2>/dev/null | sleep 1000 &
    sleeper=$!
    echo 0 >$huge/scan_sleep_millisecs
    echo 100000 >$huge/pages_to_scan
    sleep 1
    echo 'CASE kernel-thread'
    before=$(cut -d ' ' -f 1 "$thread/schedstat")
    sleep 3
    echo "USED $before $(cut -d ' ' -f 1 "$thread/schedstat") 3"

    echo 0 >$same/sleep_millisecs
    echo 100000 >$same/pages_to_scan
    attacker merge-memory >/dev/null &
    merged=$!
    echo 1 >$same/run
    as bob burn
    sleep 1
    measure two-kernel-threads 1 3
    kill $sleeper $merged
    echo 2 >$same/run
    echo 10000 >$huge/scan_sleep_millisecs
    echo 4096 >$huge/pages_to_scan
}

chrt --reset-on-fork --fifo --pid 10 $$
path() {
    readlink -f "$(command -v "$1")"
}

echo "servers = [\"$(path query)\", \"$(path attacker)\", \"query.service\"]" >/tmp/servers.toml
schedule "--verbose $options"

for set in "$@"; do "$set"; done

# Now that they are all written, which is after the scheduler is enabled
verified

# No other clients may be left.
echo "CASE idle"
settled_status
tombola stop >/dev/null
cat /sys/kernel/sched_ext/state

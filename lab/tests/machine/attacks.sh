# Runs in the guest; attacks.rs judges. Prints for each attack: CASE NAME, then the JSON of `tombola status` on one line, of a
# window of time during the attack; or HAS NAME USER USED ELAPSED, in ns; or LATE NAME and a long wait, in us. WRONG NAME:
# WORDS, where a call that must be refused succeeded, or the other way round.
#
# attacks.sh OPTIONS SET...: the attacks of these sets on `tombola start OPTIONS`

options=$1
shift

rich=10000 # tickets, the most possible
as_alice='setpriv --reuid alice --regid alice --clear-groups'
as_bob='setpriv --reuid bob --regid bob --clear-groups'

attack() { # USER ATTACK...: starts it; it is set up when this returns
    user=$1
    shift
    : >/tmp/attacker.out
    case $user in
    root) attacker "$@" >/tmp/attacker.out 2>&1 & ;;
    *) setpriv --reuid "$user" --regid "$user" --clear-groups attacker "$@" >/tmp/attacker.out 2>&1 & ;;
    esac
    attacker=$!
    of_root="$of_root $attacker"
    set_up "$1"
}

set_up() { # NAME
    until grep -q READY /tmp/attacker.out; do
        kill -0 $attacker 2>/dev/null || break
        sleep 0.1
    done
    grep -q READY /tmp/attacker.out || wrong "$1" "$(head -n 1 /tmp/attacker.out)"
}

wrong() { # NAME WORDS
    echo "WRONG $1: $2"
}

may() { # NAME USER COMMAND...
    name=$1 user=$2
    shift 2
    setpriv --reuid "$user" --regid "$user" --clear-groups "$@" >/tmp/answer 2>&1 ||
        wrong "$name" "$user: $* fails: $(head -n 1 /tmp/answer)"
}

may_not() { # NAME USER COMMAND...
    name=$1 user=$2
    shift 2
    if setpriv --reuid "$user" --regid "$user" --clear-groups "$@" >/tmp/answer 2>&1; then
        wrong "$name" "$user: $* is not refused"
    else
        grep -q 'not permitted' /tmp/answer || wrong "$name" "$user: $*: $(head -n 1 /tmp/answer)"
    fi
}

has() { # NAME NUMBER LTIX-OPTIONS...
    name=$1 wanted=$2
    shift 2
    found=$(ltix -n "$@" 2>&1 | head -n 1)
    [ "$found" = "$wanted" ] || wrong "$name" "ltix $* says $found, not $wanted"
}

end() {
    for user in alice bob carol; do
        all_end "$user"
    done
    [ -z "$of_root" ] || kill -9 $of_root 2>/dev/null
    of_root=
    sleep 0.5
}

window() { # NAME [SECONDS]: the attack goes on
    echo "CASE $1"
    tombola status --json --interval "${2:-10}s" | tr -d '\n'
    echo
}

# To look at thousands of clients, as the status does, takes a tenth of the CPU. The kernel's own account of a process costs
# nothing.
account() { # NAME USER PID...
    name=$1
    shift
    accounts "$@" >/tmp/before
    from=$(now_us)
    sleep 10
    elapsed=$((($(now_us) - from) * 1000))
    accounts "$@" | paste -d ' ' /tmp/before - | while read -r user before _ after; do
        echo "HAS $name $user $((after - before)) $elapsed"
    done
}

accounts() { # USER PID...
    while [ $# -gt 0 ]; do
        read -r used _ <"/proc/$2/schedstat"
        echo "$1 $used"
        shift 2
    done
}

now_us() {
    echo "$(sed 's/\.//; s/ .*//' /proc/uptime)0000"
}

each_cpu() { # COMMAND...
    for _ in $(seq "$(nproc)"); do
        "$@"
    done
}

measure() { # NAME [SECONDS]: beside bob's hogs, one for each CPU
    each_cpu as bob burn
    sleep 0.5
    window "$@"
    end
}

# CPU time is charged where it was used, also if the process moves before the charge.
payment() {
    for way in freeze-unpaid enter-frozen change-currency timed-funding timed-base; do
        each_cpu attack alice $way
        measure $way
        lsetbase -u alice 1000
    done
}

# Processes that take another user's uid, for a while or for good
identities() {
    $as_alice tombola currency make trap
    attack root act-as --uid "$(id -u alice)"
    may_not act-as alice tombola currency enter trap $attacker
    may_not act-as alice lrenice $attacker 1
    may_not act-as alice lrenice $attacker 0
    $as_alice tombola currency fund trap 0
    measure act-as 5
    $as_alice tombola currency fund trap 100

    # Alice's own process becomes bob's, as a set-user-ID program may; it is his only process here.
    cp "$(command -v attacker)" /tmp/of-bob
    chown bob /tmp/of-bob
    chmod 4755 /tmp/of-bob
    : >/tmp/attacker.out
    $as_alice tombola run --currency trap /tmp/of-bob become-owner >/tmp/attacker.out 2>&1 &
    attacker=$!
    set_up become-owner
    $as_alice tombola currency fund trap 0
    as carol burn
    sleep 0.5
    window become-owner 5
    end

    # Her many tickets must not count beside root's processes.
    cp "$(command -v attacker)" /tmp/of-root
    chmod 4755 /tmp/of-root
    : >/tmp/attacker.out
    $as_alice lnice -t $rich /tmp/of-root become-owner >/tmp/attacker.out 2>&1 &
    attacker=$!
    of_root="$of_root $attacker"
    set_up become-root
    as root burn
    of_root="$of_root $!"
    sleep 0.5
    window become-root 5
    end

    # If it enters a currency of his before the scheduler has seen that it is his, it stays there.
    $as_bob tombola currency make own
    : >/tmp/attacker.out
    $as_alice /tmp/of-bob become-owner --enter own >/tmp/attacker.out 2>&1 &
    attacker=$!
    set_up enter-own
    $as_bob tombola currency fund own 0
    window enter-own 5
    $as_bob tombola currency retire own
    end
}

# What an administrator has set, only an administrator raises.
limits() {
    attack alice raise-base 1000
    lsetbase -u alice 0
    each_cpu as bob burn
    sleep 0.5
    window thaw 20
    has thaw 0 -u alice
    lsetbase -u alice 200 # or the command that ends her processes, as alice, would be frozen, too
    end
    attack alice raise-base 1000
    measure lowered
    has lowered 200 -u alice
    may lowered alice lsetbase -u alice 150
    lsetbase -u alice 1000
}

limited() { # [COMMAND]: starts it as alice and limits it to 10 tickets as root, beside a process that has 100; its pid: $limited
    cp "$(command -v burn)" /tmp/limited
    as alice "${1:-/tmp/limited}"
    limited=$!
    as alice burn
    sleep 0.2
    lrenice $limited 10
}

processes() {
    limited
    may_not limited alice lrenice $limited 100
    has limited 10 -p $limited
    may limited alice lrenice $limited 5
    lrenice $limited 0
    may_not frozen-by-root alice lrenice $limited 100
    $as_alice tombola currency make rich --tickets $rich
    $as_alice tombola currency enter rich $limited >/dev/null 2>&1
    measure frozen-by-root 5

    limited
    $as_alice tombola currency enter rich $limited >/dev/null 2>&1
    measure limited-enters 5
    $as_alice tombola currency retire rich

    # A child of a limited process has the same limit.
    limited 'sh -c "sleep 1; /tmp/limited; true"'
    sleep 2
    child=$(pidof limited)
    has limited-child 10 -p $child
    may_not limited-child alice lrenice $child 100
    end

    for way in fund retire move; do
        $as_alice tombola currency make low
        limited "tombola run --currency low --tickets 100 /tmp/limited"
        lrenice $limited 100
        tombola currency fund alice:low 10
        case $way in
        fund) may_not limited-currency alice tombola currency fund low 100 ;;
        retire) $as_alice tombola currency retire low >/dev/null 2>&1 ;;
        move)
            $as_alice tombola currency make rich --tickets $rich
            $as_alice tombola currency move low --in rich >/dev/null 2>&1
            ;;
        esac
        measure limited-currency-$way 5
        tombola currency retire alice:low >/dev/null 2>&1
        tombola currency retire alice:rich >/dev/null 2>&1
    done
}

# The uids of a user namespace count for its owner.
namespaces() {
    alice=$(id -u alice)
    attack root namespace --owner "$alice" --first 100000 --uids 9
    measure subordinate
    for n in 1 2 3 4 5 6 7 8 9; do
        cp "$(command -v attacker)" /tmp/of-$n
        chown $((100000 + n)) /tmp/of-$n
        chmod 4755 /tmp/of-$n
        as alice "/tmp/of-$n become-owner"
        of_root="$of_root $!"
    done
    measure outside 5
    attack root namespace --owner 0 --first 200000 --uids 9
    measure container
    attack root namespace --owner "$alice" --first 300000 --uids 9 --own-currency # a range that /etc/subuid does not have
    measure own-currency 5
}

# More uids than there ever were slots for users; then a new user starts a process. Twice, as the slots are freed.
many_uids() {
    for newcomer in u1 u2; do
        attack root namespace --owner "$(id -u alice)" --first 100000 --uids 4200 --asleep
        as $newcomer burn
        of_newcomer=$!
        as bob burn
        sleep 0.5
        account many-uids-$newcomer bob $! $newcomer $of_newcomer
        end
        all_end $newcomer
    done
    echo "CASE many-uids-gone"
    settled_status
}

names() {
    attack alice named "$(printf '\033]0;title\007')"
    named="$attacker"
    attack alice named "$(printf 'x\nforged 1')"
    named="$named $attacker"
    {
        tombola status --all
        tombola tree
        for pid in $named; do
            ltix -p "$pid"
            $as_bob lrenice "$pid" 1
        done
        tombola trace -n 50
        tombola status --all --json
    } >/tmp/shown 2>&1
    ! grep -q "$(printf '\033')" /tmp/shown || wrong named 'an escape sequence is shown'
    ! grep -q '^forged' /tmp/shown || wrong named 'a name goes on in a line of its own'
    grep -q title /tmp/shown || wrong named 'the name is not shown'
    end
}

# Frozen threads have turns, and killed ones exit; other users must not pay for that.
frozen() {
    attack alice freeze-threads --threads 4000
    as carol burn
    of_carol=$!
    as bob burn
    sleep 0.5
    account freeze-threads bob $! carol $of_carol
    end
    # Longer than the kernel's watchdog waits for a thread
    attack alice enqueue-again
    as bob burn
    of_bob=$!
    sleep 25
    account enqueue-again bob $of_bob
    [ -e /run/tombola/pid ] || wrong enqueue-again 'the scheduler has ended'
    end

    attack alice die-frozen --processes 300
    as alice burn
    as bob burn
    of_bob=$!
    sleep 0.5
    (sleep 2 && kill -USR1 $attacker) &
    account die-frozen bob $of_bob
    end

    # It is frozen twice: by itself, and with its currency. It uses the CPU in short turns, which its user pays for.
    may freeze-twice alice tombola currency make twice
    as alice 'tombola run -c twice napper --work-us 200 --nap-us 10'
    napper=$!
    sleep 0.5
    may freeze-twice alice lrenice $napper 0
    may freeze-twice alice tombola currency fund twice 0
    as alice burn
    of_alice=$!
    as bob burn
    account freeze-twice bob $! alice $of_alice
    end
    may freeze-twice alice tombola currency retire twice

    # It is frozen in a currency of root's, which is then retired: not a way into root's own currency.
    tombola currency make theirs
    as alice burn
    of_alice=$!
    sleep 0.2
    tombola currency enter theirs $of_alice
    may leave-by-retiring alice lrenice $of_alice 0
    tombola currency retire theirs
    may leave-by-retiring alice lrenice $of_alice 10000
    as alice burn
    measure leave-by-retiring
}

# From now on there are thousands of client slots, used or not, that a call looks at.
many_clients() {
    attack alice take-places --most 4000
    end
}

# How late bob's sleeper is beside processes that compute, and beside processes whose calls look at all clients. One wait in some
# thousands meets the kernel's own work, softirqs for example, which may have 2 ms; hence the third longest of 300 waits.
latency() { # NAME
    $as_bob napper --work-us 100 --nap-us 5000 --jitter-us 4000 --naps 300 >/tmp/late
    echo "LATE $1 $(sort -n /tmp/late | tail -n 3 | head -n 1)"
}

calls() {
    many_clients
    several 6 as alice burn
    sleep 0.5
    latency beside-hogs
    end
    for what in move retire tree; do
        several 6 attack alice call $what
        latency beside-calls-of-$what
        as bob burn
        of_bob=$!
        sleep 0.5
        account calls-of-$what bob $of_bob
        end
    done

    # Alice changes her currencies again and again; that is no reason to refuse bob.
    for name in outer inner; do
        may move-beside bob tombola currency make $name
    done
    several 6 attack alice call retire
    for _ in $(seq 10); do
        may move-beside bob tombola currency move inner --in outer
        may move-beside bob tombola currency move inner
    done
    end
    for name in inner outer; do
        may move-beside bob tombola currency retire $name
    done
}

hold_directory() { # NAME SECONDS OPTIONS: after so many seconds, while others want the CPUs
    each_cpu as carol burn
    hold_directory_alone "$@"
}

hold_directory_alone() { # NAME SECONDS OPTIONS
    name=$1
    seconds=$2
    shift 2
    attack alice hold-directory /tmp/shared "$@"
    sleep "$seconds"
    $as_bob attacker make-files --seconds 5 /tmp/shared >/tmp/late &
    for _ in $(seq 100); do
        grep -q . /tmp/late && break
        sleep 1
    done
    # Bob's process may still wait, until alice's is killed.
    echo "LATE $name $(grep . /tmp/late || echo 100000000)"
    end
    wait $!
}

# Long work in the kernel for alice
kernel() {
    attack alice seccomp
    measure seccomp
    # At the kernel's default limit of descriptors their exits would be short.
    ulimit -n 100000
    attack alice exit-slowly
    measure exit-slowly
    mkdir -m 1777 /tmp/shared
    seq 2000 | (cd /tmp/shared && xargs touch)
    hold_directory hold-directory 0
    hold_directory hold-directory-beside-threads 0 --threads 20
    hold_directory hold-directory-for-long 45
    hold_directory_alone hold-directory-alone 2
    rm -r /tmp/shared

    # Calls that look at all clients, frozen; more of them than get urgent turns
    many_clients
    callers=
    for _ in $(seq 40); do
        attack alice call move
        callers="$callers $attacker"
    done
    for caller in $callers; do
        may freeze-callers alice lrenice "$caller" 0
    done
    unmount freeze-callers
    end
}

# umount waits for all RCU read sections.
unmount() { # NAME
    mkdir -p /mnt
    mount -t tmpfs none /mnt
    : >/tmp/late
    (
        from=$(now_us)
        umount /mnt
        echo $(($(now_us) - from)) >/tmp/late
    ) &
    for _ in $(seq 100); do
        grep -q . /tmp/late && break
        sleep 0.1
    done
    echo "LATE $1 $(grep . /tmp/late || echo 10000000)"
}

# The kernel ends the scheduler if a read section lasts for 21 s.
lookups() {
    attack alice long-lookups --threads 1 --tickets 0
    unmount lookup-frozen-alone
    end
    for tickets in 0 1; do
        attack alice long-lookups --threads 100 --tickets $tickets
        as bob burn
        of_bob=$!
        [ $tickets = 0 ] || { sleep 10 && account lookups bob $of_bob; }
        # Again and again: few meet a thread that has left its section and not reported it yet.
        for n in $(seq $((tickets ? 1 : 40))); do
            sleep 0.$((n * 7 % 10))
            unmount lookups-with-$tickets-tickets
        done
        end
        # Killed threads finish their system calls.
        while pidof attacker >/dev/null; do sleep 0.5; done
    done
    [ -e /run/tombola/pid ] || wrong lookups 'the scheduler has ended'
}

# Two threads that wake each other on CPUs where bob's hogs run
wakes() {
    attack alice wake-elsewhere
    measure wake-elsewhere
}

# Loans to processes that abuse them
loans() {
    ulimit -n 100000
    for way in never-answers many-sockets ring ring-of-calls forks killed; do
        window lend-$way-before 0.1
        attack alice lend $way
        measure lend-$way
    done

    as alice burn
    of_alice=$!
    as bob burn
    of_bob=$!
    sleep 0.2
    may_not lend-to-bob alice tombola lend 50 --from $of_alice --to $of_bob
    may_not lend-from-bob alice tombola lend 50 --from $of_bob --to $of_alice
    $as_alice tombola lend 50 --from $of_alice --to 2 2>/tmp/answer && wrong lend-to-kernel 'kthreadd borrows'
    chrt --fifo --pid 1 $$
    as alice 'sleep 1000'
    real_time=$!
    chrt --reset-on-fork --fifo --pid 10 $$
    sleep 0.2
    may lend-to-real-time alice tombola lend 50 --from $of_alice --to $real_time
    window lend-to-real-time 5
    may lend-to-real-time alice tombola reclaim --from $of_alice

    # By root, to another user's process that is frozen, or has a reservation
    tombola lend 50 --from $of_alice --to $of_bob
    lrenice $of_bob 0
    as carol burn
    sleep 0.5
    window lend-to-frozen
    lrenice $of_bob 100
    tombola reserve 20% --pid $of_bob
    sleep 0.5
    window lend-to-reserved
    end
}

# A server that the rules name, with next to no tickets of its own. bob asks it, beside hogs of his and of carol's; alice asks it
# in ways that might make others pay, or keep bob from lending.
servers() {
    printf 'servers = ["%s"]\n' "$(readlink -f "$(command -v attacker)")" >/etc/tombola.toml
    tombola reload >/dev/null
    for way in ask ask-impatiently ask-with-loans; do
        rm -f /tmp/attacker.socket
        as 900 'attacker lend serve'
        until [ -S /tmp/attacker.socket ]; do sleep 0.1; done
        sleep 2
        lsetbase -u 900 100
        attack alice lend $way
        as bob 'attacker lend ask --clients 1'
        each_cpu as carol burn
        measure server-$way 10
        all_end 900
    done
}

held() { # NAME PERCENT: so much is reserved for processes
    found=$(tombola reserve | sed -n 's/^held  *//p')
    [ "$found" = "$2" ] || wrong "$1" "$found is reserved, not $2"
}

# A program of alice's at another program's path, in a mount namespace; and pids in a pid namespace of hers
places_of_names() {
    path=$(command -v burn)
    cp "$path" /tmp/limited
    printf '[[reserve]]\nprogram = "%s"\nshare = "20%%"\n' "$path" >/etc/tombola.toml
    tombola reload >/dev/null
    as alice "unshare -U -r -m sh -c 'mount --bind /tmp/limited $path && exec $path'"
    sleep 3
    held program-path 0%
    end
    as bob "$path"
    sleep 3
    held program-path-of-its-own 20%

    # Alice runs the program, too, with many tickets.
    for _ in 1 2 3; do
        as alice "$path"
        may shared-reservation alice lrenice $! $rich
    done
    sleep 3
    window shared-reservation
    end
    rm /etc/tombola.toml
    tombola reload >/dev/null

    # Inside, pid 1 is her shell, and bob's process has no pid.
    as bob 'sleep 1000'
    of_bob=$!
    sleep 0.2
    before=$(ltix -n -p 1)
    cat >/tmp/inside.sh <<-END
	lrenice $of_bob 7 2>/dev/null
	lrenice 1 7
	ltix -n -p 1 >/tmp/inside
	sleep 1000
	END
    as alice 'unshare -U -r -p -f --mount-proc sh /tmp/inside.sh'
    sleep 1
    has pid-namespace "$before" -p 1
    has pid-namespace 100 -p $of_bob
    [ "$(cat /tmp/inside)" = 7 ] || wrong pid-namespace "its own first process has $(cat /tmp/inside) tickets, not 7"
    end

    # A pid of alice's process is used again for bob's.
    as alice 'lnice -t 7 sleep 1000'
    number=$!
    sleep 0.2
    has number-again 7 -p $number
    end
    echo $((number - 1)) >/proc/sys/kernel/ns_last_pid
    as bob 'sleep 1000'
    [ $! = $number ] || wrong number-again 'the number is not used again'
    sleep 0.2
    has number-again 100 -p $number
    may_not number-again alice lrenice $number 9
    end
}

# A limit still holds after the scheduler was started again. A process that was there before counts once.
restart() {
    lsetbase -u alice 200
    tombola stop >/dev/null
    attack bob first-exits --threads 3
    as bob burn
    of_bob=$!
    schedule "$options"
    account first-exits bob $of_bob
    end
    has restart 200 -u alice
    may_not restart alice lsetbase -u alice 1000
    lsetbase -u alice 1000
}

allow_many_threads() {
    sysctl -qw kernel.threads-max=200000 kernel.pid_max=200000 vm.max_map_count=200000
    prlimit --pid $$ --nproc=100000
    # khugepaged would have half a percent of the CPU for their stacks.
    echo never >/sys/kernel/mm/transparent_hugepage/enabled
}

# As many threads of one user as possible, more than there are slots: other users' processes still start, and get their shares.
threads() {
    allow_many_threads
    attack alice take-places --most 33500
    head -n 1 /tmp/attacker.out
    for other in bob root; do
        setpriv --reuid $other --regid $other --clear-groups true || wrong take-places "$other cannot start a process"
    done
    as bob burn
    of_bob=$!
    as carol burn
    sleep 0.5
    account take-places bob $of_bob carol $!
    end

    # Ten thousand clients of a server, and one
    ulimit -n 100000
    attack alice lend crowd
    as bob burn
    of_bob=$!
    sleep 0.5
    account lend-crowd bob $of_bob
    latency lend-crowd
    kill -0 $attacker || wrong lend-crowd 'it has ended'
    end
    attack alice lend many-sockets
    as bob burn
    latency lend-many-sockets
    end
}

# More frozen threads than can have a turn within the 30 s of the kernel's watchdog, beside slices as long as they may be
patience() {
    tombola stop >/dev/null
    schedule "$options --quantum 10ms"
    allow_many_threads
    attack alice freeze-threads --threads 14000
    as bob burn
    sleep 40
    account freeze-many-threads bob $!
    end

    # With slices as usual. Threads that wait for 20 s must run all the same; here each of their turns could last 70 ms.
    tombola stop >/dev/null
    schedule "$options"
    attack alice long-sections
    as bob burn
    of_bob=$!
    for part in $(seq 8); do account long-sections-$part bob $of_bob; done
    end
    [ -e /run/tombola/pid ] || wrong long-sections 'the scheduler has ended'
    [ -e /run/tombola/pid ] || wrong freeze-many-threads 'the scheduler has ended'
}

chrt --reset-on-fork --fifo --pid 10 $$
echo 'alice:100000:65536' >/etc/subuid
schedule "$options"

for set in "$@"; do "$set"; done

for currency in $(tombola currency list -u alice --json | sed -n 's/.*"name": "\(.*\)".*/\1/p'); do
    tombola currency retire "alice:$currency"
done
echo "CASE idle"
settled_status
tombola stop >/dev/null
cat /sys/kernel/sched_ext/state

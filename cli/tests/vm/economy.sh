#!/bin/sh
# What currencies, reservations, freezing and rules must do, tried on a real kernel with sched_ext and two CPUs, as root, with the
# users alice (1000) and bob (1001).

. checks.sh

done_() { # COMMAND...: must succeed
	"$@" >answer 2>&1
	status=$?
	check "$* (status $status)" test $status -eq 0
}

says() { # WORDS COMMAND...: must succeed, and say that
	words=$1
	shift
	done_ "$@"
	check "$* does not say: $words" grep -q -- "$words" answer
}

keeps_quiet() { # WORDS COMMAND...: must succeed, and not say that
	words=$1
	shift
	done_ "$@"
	if grep -q -- "$words" answer; then check "$* says: $words" false; fi
}

now() { # in seconds
	cut -d. -f1 /proc/uptime
}

within() { # SECONDS CONDITION...: becomes true in that time
	deadline=$(($(now) + $1))
	shift
	until "$@" >answer 2>&1; do
		test "$(now)" -lt $deadline || return 1
		sleep 0.1
	done
}

cpu_ns() { # PID: CPU time of its threads
	cat /proc/"$1"/task/*/schedstat | awk '{ sum += $1 } END { print sum }'
}

overdue() {
	tombola status --json --interval 1ms | jq .tombola.counters.overdue
}

node() { # FILTER NAME-OR-PID: of a currency or a process in the tree of who is active
	# Not in a pipe: jq would begin, as root, in the second that is looked at.
	tombola tree --active --json >tree.json
	jq -e --arg node "$2" "
		first(.. | objects | select(.kind == \"currency\" and .name == \$node or \"\\(.pid)\" == \$node)) | $1" tree.json
}

worth() { # NAME-OR-PID
	node .worth "$1"
}

received() { # NAME-OR-PID: percent of the two CPUs
	node '.received_cpus * 50' "$1"
}

burns() { # PID: it has become what it executes, and wants to run
	node 'select(.name == "burn")' "$1"
}

is_gone() { # PID
	! kill -0 "$1" 2>/dev/null || grep -q '^State:.Z' /proc/"$1"/status
}

as_root_first() { # busy, as bob once there is a file `become-bob`
	exec sh -c 'until [ -e become-bob ]; do :; done
		exec setpriv --reuid bob --regid bob --clear-groups sh -c "while :; do :; done"'
}

in_currency() { # NAME PID: directly
	tombola tree --interval 100ms --json | jq -e --arg name "$1" --argjson pid "$2" '
		any(.. | objects | select(.kind == "currency" and .name == $name) | .nodes[]; .pid == $pid)'
}

at_least() { # FOUND WANTED
	awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a >= b) }'
}

near() { # FOUND WANTED TOLERANCE
	echo "found: $1" >answer
	awk -v a="$1" -v b="$2" -v t="$3" 'BEGIN { exit !(a != "" && a - b <= t && b - a <= t) }'
}

cd /tmp || exit
rm -rf /var/lib/tombola
start

echo "# currencies, as a user without privileges"
done_ as alice tombola currency make build --tickets 300
done_ as alice tombola currency make sub --in build
done_ as alice tombola currency make -- _x.y-z
says '^build  *-  *300 ' as alice tombola currency list
says '^sub  *build  *100 ' as alice tombola currency list
says '"name": "sub"' tombola currency list -u alice --json
keeps_quiet build as bob tombola currency list
(as_exec alice tombola run --currency build --tickets 50 burn >/dev/null) &
in_build=$!
(as_exec alice tombola run -c sub burn >/dev/null) &
in_sub=$!
(as_exec alice burn >/dev/null) &
plain=$!
(as_exec bob burn >/dev/null) &
of_bob=$!
has_50() { test "$(ltix -n -p $in_build)" = 50; }
check "run sets the tickets" within 60 has_50
check "run enters the currency" within 60 in_currency build $in_build
check "run enters the inner currency" within 60 in_currency sub $in_sub
check "the one beside starts" within 60 burns $plain
check "bob's starts" within 60 burns $of_bob
check "worth of build" near "$(worth build)" 750 0.05
check "worth of sub" near "$(worth sub)" 500 0.05
check "worth of the process in build" near "$(worth $in_build)" 250 0.05
check "worth of the one beside" near "$(worth $plain)" 250 0.05
check "what build is entitled to" near "$(node '.entitled_cpus * 50' build)" 37.5 1
check "what build receives" near "$(received build)" 37.5 3
keeps_quiet build as bob tombola tree
says 'user alice' as bob tombola tree --active
says "burn *$in_sub" as alice tombola tree
tombola status --json >answer
check "status tells the processes in currencies" grep -q "\"pid\": $in_sub," answer

echo "# funding, moving"
done_ as alice tombola currency fund build 100
check "funding changes what it is worth" near "$(worth build)" 500 0.05
done_ as alice tombola currency move sub
says '^sub  *-  *100 ' as alice tombola currency list
done_ as alice tombola currency move sub --in build
says '^sub  *build  *100 ' as alice tombola currency list
done_ as alice tombola currency enter sub $plain $in_build
check "enter takes several" in_currency sub $in_build
done_ as alice tombola currency leave $plain
check "leave" near "$(worth $plain)" 500 0.05
(as_exec alice sh -c 'tombola currency enter sub $$; sleep 1000; true') &
parent=$!
child() { awk -v p=$parent '$4 == p && $2 == "(sleep)" { print $1 }' /proc/[0-9]*/stat 2>/dev/null | grep .; }
check "the child" within 60 child
child=$(cat answer)
check "children are where their parent is" within 60 in_currency sub "$child"
kill $parent $child

echo "# retiring: what is in it falls to the one around"
done_ as alice tombola currency retire sub
check "to the currency around it" in_currency build $in_sub
done_ as alice tombola currency retire build
keeps_quiet build as alice tombola currency list
check "and to the user" near "$(worth $in_sub)" 400 0.05
done_ as alice tombola currency retire _x.y-z

echo "# eight inside one another"
inside=
for n in 1 2 3 4 5 6 7 8; do
	done_ as alice tombola currency make n$n $inside
	inside="--in n$n"
done
(as_exec alice tombola run -c n8 burn >/dev/null) &
deep=$!
# It starts with the default tickets of somebody poor, so on a busy host it needs seconds to become what it executes.
check "one in eight currencies starts" within 60 burns $deep
# Of the 350 tickets of those in alice's half: its 100, two others' 100 each, and the 50 of who ran in build.
check "one in eight currencies runs" near "$(received $deep)" 14.3 2
kill $deep
for n in 1 2 3 4 5 6 7 8; do done_ as alice tombola currency retire n$n; done

echo "# freezing"
done_ as alice lrenice $plain 0
holds 0 -p $plain
says frozen ltix -p $plain
sleep 0.1
before=$(cpu_ns $plain) turns=$(overdue)
kill $in_build $in_sub $of_bob
sleep 40 # longer than the kernel's watchdog waits, on a machine that is idle otherwise
after=$(cpu_ns $plain)
echo "frozen for 40 s: $(((after - before) / 1000)) us of CPU time, with what a busy host adds"
check "the watchdog ends the scheduler" kill -0 $daemon
check "the frozen has had more than a turn each 5 s" test $(($(overdue) - turns)) -le 9
tombola tree >answer
check "the tree says who is frozen" grep -A 1 '^frozen' answer | grep -q "burn *$plain *frozen"
done_ as alice lrenice $plain 100
sleep 1
check "the thawed runs" test $(($(cpu_ns $plain) - after)) -gt 500000000
done_ as alice lrenice $plain 0
sleep 0.2
kill -KILL $plain
check "a frozen process is killed" within 4 is_gone $plain
(as_exec alice burn >/dev/null) &
plain=$!
sleep 0.2
lrenice $plain 0
sleep 0.2
kill $plain
check "a frozen process is terminated" within 4 is_gone $plain
(as_exec alice burn >/dev/null) &
plain=$!
done_ lsetbase -u alice 0
holds 0 -u alice
sleep 0.2
before=$(cpu_ns $plain)
sleep 2
check "all of a frozen user's stand still" test $(($(cpu_ns $plain) - before)) -le 20000000
done_ lsetbase -u alice 700
holds 700 -u alice
sleep 1
check "and run again" test $(($(cpu_ns $plain) - before)) -gt 300000000
done_ as alice tombola currency make cold
done_ as alice tombola currency enter cold $plain
done_ as alice tombola currency fund cold 0
says '^cold .*frozen' as alice tombola currency list
sleep 0.2
before=$(cpu_ns $plain)
sleep 1
check "all in a frozen currency stands still" test $(($(cpu_ns $plain) - before)) -le 20000000
done_ as alice tombola currency retire cold
sleep 1
check "until it is retired" test $(($(cpu_ns $plain) - before)) -gt 300000000

echo "# reservations"
for _ in 1 2 3 4; do
	(as_exec bob burn >/dev/null) &
	bobs="$bobs $!"
done
tombola reserve 60% -- burn >/dev/null &
reserved=$!
sleep 0.5
says "process $reserved (burn)  *60%" tombola reserve
says '^left  *90%' tombola reserve
check "received what is reserved" at_least "$(received $reserved)" 28
kill $reserved
wait $reserved 2>/dev/null
says '^left  *150%' tombola reserve
done_ tombola reserve 80% --pid $plain
check "a running process receives it" at_least "$(received $plain)" 37
done_ tombola reserve 150% --pid $plain
says '^left  *0%' tombola reserve
done_ tombola release --pid $plain
says '^left  *150%' tombola reserve
done_ as alice tombola currency make hers
done_ as alice tombola currency enter hers $plain
done_ tombola reserve 50% --currency alice:hers
says 'currency alice:hers  *50%' tombola reserve
says 'reserved 50%' as alice tombola currency list
check "a currency receives it" at_least "$(received hers)" 23
done_ as alice tombola currency retire hers
says '^held  *0%' tombola reserve
lrenice $plain 0
tombola release --pid $plain >/dev/null 2>&1
holds 0 -p $plain # who has no reservation is not thawed by its release
kill $plain $bobs

echo "# base tickets survive a restart, in order or not"
done_ lsetbase -u alice 700
done_ lsetbase -u bob 0
done_ tombola stop
check "they are saved" test "$(cat /var/lib/tombola/base-tickets)" = "1000 700 700
1001 0 0"
start
holds 700 -u alice
holds 0 -u bob
done_ lsetbase -u bob 1000
sleep 1.5
kill -KILL $daemon
wait $daemon 2>/dev/null
(as_exec alice flock /run/tombola/pid sleep 1000) &
locks=$!
start
kill $locks
holds 700 -u alice
holds 1000 -u bob
tombola stop >/dev/null
echo "1000 7OO" >/var/lib/tombola/base-tickets
start
check "a damaged file is reported" grep -q 'line 1 does not end with base tickets' daemon.log
check "and kept" test "$(cat /var/lib/tombola/base-tickets.damaged)" = "1000 7OO"
holds 1000 -u alice

echo "# rules"
cat >rules.toml <<-END
	floor = "40%"
	root = "10%"
	default = 500
	[users]
	alice = 3000
	4000 = 0
	[[reserve]]
	program = "burn"
	share = "30%"
	[[reserve]]
	unit = "web.service"
	share = "50%"
END
lsetbase -u bob 600
tombola stop >/dev/null
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/capped
echo 50000 100000 >/sys/fs/cgroup/capped/cpu.max
start --rules rules.toml
check "the start names limits that are not kept" grep -q '/capped: cpu.max 50000 100000' daemon.log
says '^no effect  */capped: cpu.max 50000 100000' tombola status
rmdir /sys/fs/cgroup/capped
check "the start warns of a program's bare name" grep -q "holds for any user's file of that name" daemon.log
holds 3000 -u alice
holds 600 -u bob # what lsetbase said
holds 500 -u 0
holds 500 -u 5000
holds 0 -u 4000
says '^floor  *80%' tombola reserve
says '^held  *0%' tombola reserve
(as_exec alice burn >/dev/null) &
first=$!
(as_exec bob burn >/dev/null) &
second=$!
mkdir -p /sys/fs/cgroup/system.slice/web.service/worker
(as_exec bob sh -c 'while :; do :; done') &
web=$!
echo $web >/sys/fs/cgroup/system.slice/web.service/worker/cgroup.procs
check "a program's processes share a reservation" within 60 in_currency 1001.prog.burn $second
check "whoever's they are" within 60 in_currency 1000.prog.burn $first
check "a unit has its reservation" within 60 in_currency 1001.unit.web.service $web
(as_root_first) &
served=$!
echo $served >/sys/fs/cgroup/system.slice/web.service/cgroup.procs
check "a service of it runs as root" within 60 in_currency 0.unit.web.service $served
touch become-bob
check "and when it has become bob, in bob's part" within 60 in_currency 1001.unit.web.service $served
kill $served
says '^held  *80%' tombola reserve
check "the reservation is received" at_least "$(received prog.burn)" 14
lsetbase -u alice 2000
sed -i 's/alice = 3000/alice = 1500/; s/30%/20%/; s/default = 500/default = 800/' rules.toml
done_ tombola reload
holds 1500 -u alice
holds 600 -u bob
holds 800 -u 0
holds 800 -u 5000
says '^held  *70%' tombola reserve
echo "floor = 30" >rules.toml
tombola reload >answer 2>&1
check "wrong rules are refused by reload" grep -q 'rules.toml:1:9: floor is a whole number' answer
holds 1500 -u alice
kill -HUP $daemon
check "and by the daemon, which goes on" within 60 grep -q 'rules.toml:1:9: floor is a whole number' daemon.log
says '^held  *70%' tombola reserve
cat >rules.toml <<-END
	[[reserve]]
	program = "burn"
	share = "20%"
END
kill -HUP $daemon
check "SIGHUP has them read" within 60 grep -q 'tombola applies' daemon.log
holds 1000 -u alice
check "the unit's reservation has ended" within 60 sh -c "! tombola currency list | grep -q unit"
check "and its process is bob's again" within 60 sh -c "tombola tree --active | grep -q 'sh  *$web'"
kill $first $second $web
check "a reservation ends with the last process" within 60 sh -c "tombola reserve | grep -q '^held  *0%'"
check "and the currency" within 60 sh -c "! tombola currency list | grep -q prog"
printf '[[reserve]]\nprogram = "burn"\nshare = "160%%"\n' >rules.toml
done_ tombola reload
burn >/dev/null &
first=$!
sleep 3
check "a refused admission is said once" test "$(grep -c 'program burn has no reservation: 160% cannot' daemon.log)" -eq 1
check "nothing is left of it" sh -c "! tombola currency list | grep -q prog"
kill $first
tombola status >answer
check "the daemon has not failed" kill -0 $daemon
done_ tombola stop
check "nothing is left" test -z "$(ls -A /run/tombola)"

conclude

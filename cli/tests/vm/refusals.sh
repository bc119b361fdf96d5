#!/bin/sh
# Everything that the commands must refuse, tried on a real kernel with sched_ext, as root, with the users alice (1000) and bob
# (1001). Each attempt must end with the status and the words expected, and change nothing. Ends with "N passed, N failed".

passed=0 failed=0

check() { # NAME CONDITION...
	name=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $name; the last answer was:"
		cat answer
	fi
}

as_exec() { # USER COMMAND...: in place of this shell
	uid=$(id -u "$1")
	shift
	exec setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"
}

as() { # USER COMMAND...
	(as_exec "$@")
}

refused() { # STATUS WORDS COMMAND...: both must be met
	wanted=$1 words=$2
	shift 2
	"$@" >answer 2>&1
	status=$?
	check "$* (status $status, wanted $wanted)" test $status -eq "$wanted"
	check "$* does not say: $words" grep -q -- "$words" answer
}

holds() { # NUMBER LTIX-OPTIONS...
	wanted=$1
	shift
	ltix -n "$@" >answer 2>&1
	check "ltix $* is not $wanted" test "$(cat answer)" = "$wanted"
}

start() { # waits until it schedules
	: >daemon.log # before the first look, which may come before the shell opens it below
	tombola start "$@" >>daemon.log 2>&1 &
	daemon=$!
	until grep -q 'tombola schedules' daemon.log || ! kill -0 $daemon 2>/dev/null; do sleep 0.1; done
}

cd /tmp || exit

echo "# Tombola is not running"
for command in "tombola status" "tombola stop" "tombola trace" "ltix -u alice" "lrenice 1 100" "lsetbase -u alice 500" \
	"lnice -p 10 true"; do
	refused 1 "not running" $command
done
refused 1 "needs root, and you are alice" as alice tombola start
refused 2 "a time is a whole number and a unit" tombola start --quantum 5
refused 1 "range is 100000 to 100000000" tombola start --quantum 1s

start
check "the scheduler starts" grep -q 'tombola schedules' daemon.log
(as_exec alice sleep 1000) &
of_alice=$!
(as_exec bob sleep 1000) &
of_bob=$!
sleep 0.2
lrenice $of_alice 150
lrenice $of_bob 250
lsetbase -u alice 700

echo "# root where root is needed"
refused 1 "is running already, as process $daemon" tombola start
refused 1 "stopping the scheduler needs root, and you are alice" as alice tombola stop
refused 1 "following the draws needs root, and you are alice" as alice tombola trace

echo "# numbers"
for number in 0 -1 10001 abc "" 1.5 4294967297 "1 "; do
	refused 2 "from 1 to 10000" lrenice $of_alice "$number"
	refused 2 "from 1 to 10000" lnice -p "$number" true
	refused 2 "from 100 to 10000" lsetbase -u alice "$number"
done
refused 2 "from 100 to 10000" lsetbase -u alice 99
refused 2 "from 1 up" lrenice 0 100
refused 2 "from 1 up" lrenice -1 100
refused 2 "from 1 up" ltix -p init

echo "# processes and users"
refused 1 "no process 4000000" lrenice 4000000 100
refused 1 "no process 4000000" ltix -p 4000000
refused 1 "process 2 (kthreadd) has no tickets" ltix -p 2
refused 1 "process $of_bob (sleep) is bob's, and you are alice" as alice lrenice $of_bob 1
refused 1 "is root's, and you are alice" as alice lrenice 1 1
refused 2 "no user has this name" lsetbase -u nobody-of-this-name 500
refused 2 "no user has this name" ltix -u nobody-of-this-name
refused 1 "base tickets for bob, and you are alice" as alice lsetbase -u bob 500
refused 1 "at most the default of 1000" as alice lsetbase -u alice 1001
refused 127 "no-such-command" lnice no-such-command
refused 126 "cannot run" lnice /tmp

echo "# and nothing was changed"
holds 150 -p $of_alice
holds 250 -p $of_bob
holds 700 -u alice
holds 1000 -u bob
holds 1000 -u root

echo "# calls that no command makes"
as bob calls >answer 2>&1
check "misused calls" test $? -eq 0

echo "# what is allowed"
as alice lrenice $of_alice 10000
holds 10000 -p $of_alice
as alice lsetbase -u alice 100
holds 100 -u alice
as alice lnice -p 42 sh -c 'ltix -n -p $$' >answer 2>&1
check "lnice gives its command the tickets" test "$(cat answer)" = 42
as alice lnice -p 42 sh -c 'lnice ltix -n -p $PPID; sh -c "ltix -n -p \$\$"; true' >answer 2>&1
check "a child begins with its parent's tickets" test "$(tail -n 1 answer)" = 42
tombola trace -n 3 >answer 2>&1
check "three draws and a heading" test "$(wc -l <answer)" -eq 4

echo "# a reader of the trace that goes, and one that is too slow"
tombola trace 2>answer | head -n 2 >/dev/null
before=$(tombola status --json | grep '"untraced"')
burn --yielding >/dev/null &
yielder=$!
sleep 8
kill $yielder
check "nothing is traced when nobody reads" test "$(tombola status --json | grep '"untraced"')" = "$before"
tombola trace >/dev/null 2>answer &
tracer=$!
burn --yielding >/dev/null &
yielder=$!
sleep 1
kill -STOP $tracer
for _ in $(seq 100); do
	tombola status --json | grep -q '"untraced": [1-9]' && break
done
kill $yielder
kill -CONT $tracer
kill $tracer
wait $tracer
check "the trace says that runs are missing (status $?)" grep -q 'runs are missing' answer

echo "# a daemon that is killed"
kill -KILL $daemon
wait $daemon 2>/dev/null
refused 1 "not running" ltix -u alice
refused 1 "not running" lnice true
start --policy lottery
check "it is replaced" grep -q 'tombola schedules: lottery' daemon.log
holds 1000 -u alice

echo "# the kernel ejects it"
echo S >/proc/sysrq-trigger
wait $daemon
check "ejected (status $?)" grep -q 'the kernel has ended the scheduler: .*sysrq' daemon.log
refused 1 "not running" ltix -u alice

echo "# the end in order"
start
tombola stop >answer 2>&1
check "stop" test $? -eq 0
check "stop tells the state before and after" test "$(grep -c '^schedules' answer)" -eq 2
wait $daemon
check "start ends well (status $?)" test "$(cat /sys/kernel/sched_ext/state)" = disabled
check "nothing is left" test -z "$(ls -A /run/tombola)"

kill $of_alice $of_bob
echo "$passed passed, $failed failed"
test $failed -eq 0

#!/bin/sh
# What an administrator is told when it goes wrong, tried on a real kernel with sched_ext, as root, with the user alice (1000):
# the kernel's dump shows the economy, at SysRq-D and when a thread is not run; `tombola status` tells the last ejection.

. checks.sh

TRACING=/sys/kernel/tracing

# The lines of a dump that tell of a thread: from the one with its name and number to the next one's.
of_thread() { # PID DUMP
	awk -v thread="burn[$1]" '/\[-?[0-9]+\] .*[+-][0-9]+ms/ { found = 0 } index($0, " " thread " ") { found = 1 } found' "$2"
}

shown() { # PID DUMP: a client with 123 tickets in alice's currency build
	of_thread "$1" "$2" >answer
	check "the dump shows the thread's client" grep -q 'client [1-9][0-9]*, waiting for' answer
	check "the dump shows its tickets" grep -q "thread $1: 123 of 123 tickets, lag -\{0,1\}[0-9]* ns, runnable" answer
	check "the dump shows its currency" grep -q 'currency 1000:build: 77 of 77 tickets' answer
	check "the dump shows its user" grep -q 'user 1000: 700 of [0-9]* tickets' answer
	check "the dump shows the way up to base" grep -q ' base$' answer
	cp "$2" answer
	check "the dump shows the queue" grep -q "Tombola's queue 0: clients [1-9][0-9]* of 32768, waiting [0-9]*, behind" answer
}

start_burner() { # PREFIX...
	(as_exec alice "$@" tombola run -c build -t 123 burn >/dev/null) &
	burner=$!
	until test "$(cat /proc/$burner/comm)" = burn; do sleep 0.1; done
}

start_as_alice_has_it() {
	start
	lsetbase -u alice 700
	as alice tombola currency make build --tickets 77
}

status_says() { # STATUS WORDS
	tombola status --interval 100ms >answer 2>&1
	check "status (wanted $1)" test $? -eq "$1"
	check "status does not say: $2" grep -q "^ejected  *20[-0-9]*T[0-9:]*Z: $2" answer
}

cd /tmp || exit
start_as_alice_has_it
tombola status --interval 100ms >answer
check "status tells of no ejection when there was none" sh -c '! grep -q ejected answer'

echo "# SysRq-D"
start_burner
echo 1 >$TRACING/events/sched_ext/sched_ext_dump/enable
echo D >/proc/sysrq-trigger
echo 0 >$TRACING/events/sched_ext/sched_ext_dump/enable
cat $TRACING/trace >dump
shown $burner dump
check "the scheduler goes on after a dump" kill -0 $daemon
kill $burner

echo "# SysRq-S"
echo S >/proc/sysrq-trigger
wait $daemon
check "SysRq-S is no failure" test $? -eq 0
check "the daemon says by what it was ended" grep -q 'tombola has ended (SysRq-S)' daemon.log
status_says 1 'disabled by sysrq-S$'
check "status says the next step" grep -q 'docs/troubleshooting.md' answer
tombola status --json >answer 2>/dev/null
check "status tells it as JSON" grep -q '"kind": "sysrq"' answer
check "nobody else may write it" test "$(stat -c '%U %a' /run/tombola/ejection.json)" = "root 644"
start_as_alice_has_it
status_says 0 'disabled by sysrq-S$'
as alice tombola status --interval 100ms >answer
check "everybody is told" grep -q '^ejected ' answer

echo "# a stall: for 30 s a real-time process keeps the CPU that a thread is bound to"
echo -1 >/proc/sys/kernel/sched_rt_runtime_us
mount -t debugfs debugfs /sys/kernel/debug
if test -d /sys/kernel/debug/sched/ext_server; then # since 7.2 it gives threads of sched_ext a part all the same
	echo 0 >/sys/kernel/debug/sched/ext_server/cpu1/runtime
fi
# While one of RCU's own threads waits for that CPU, the kernel cannot eject anybody.
for comm in $(grep -l '^rcu_' /proc/[0-9]*/comm); do
	thread=${comm#/proc/}
	check "RCU's threads go to the other CPU" sh -c "taskset -p 1 ${thread%/comm} >/dev/null"
done
start_burner taskset 2
# Its loop makes no system calls. While it starts it may be where RCU waits for it, which is as bad.
until test "$(awk '{ print $14 }' /proc/$burner/stat)" -ge 200; do sleep 0.1; done # in hundredths of a second
chrt -f 50 taskset 2 burn >/dev/null &
hog=$!
wait $daemon
check "a stall is a failure" test $? -eq 1
check "a stall ends it" grep -q 'the kernel has ended the scheduler: runnable task stall: ' daemon.log
kill $hog $burner
status_says 1 'runnable task stall: .*failed to run for'
check "status says what a stall is" grep -q 'cause: .* had no CPU for 30 s' answer
tombola status --json >answer 2>/dev/null
check "as JSON, too" grep -q '"kind": "stall"' answer
check "the dump is root's" test "$(stat -c '%U %a' /run/tombola/ejection.dump)" = "root 600"
shown $burner /run/tombola/ejection.dump

conclude

#!/bin/sh
# Everything that the commands must refuse, tried on a real kernel with sched_ext, as root, with the users alice (1000) and bob
# (1001). Each attempt must end with the status and the words expected, and change nothing.

. checks.sh

refused() { # STATUS WORDS COMMAND...: both must be met
	wanted=$1 words=$2
	shift 2
	"$@" >answer 2>&1
	status=$?
	check "$* (status $status, wanted $wanted)" test $status -eq "$wanted"
	check "$* does not say: $words" grep -q -- "$words" answer
}

cd /tmp || exit

echo "# Tombola is not running"
for command in "tombola status" "tombola stop" "tombola trace" "ltix -u alice" "lrenice 1 100" "lsetbase -u alice 500" \
	"lnice -t 10 true" "tombola reload" "tombola tree" "tombola run true" "tombola reserve" "tombola reserve 10% -- true" \
	"tombola release --pid 1" "tombola currency list" "tombola currency make a" "tombola currency fund a 1" \
	"tombola currency move a" "tombola currency retire a" "tombola currency enter a 1" "tombola currency leave 1"; do
	refused 1 "not running" $command
done
refused 1 "needs root, and you are alice" as alice tombola start
# Without the addresses of the kernel's variables it would take each CPU for one that goes offline.
echo 2 >/proc/sys/kernel/kptr_restrict
refused 1 "hides the addresses of its variables" tombola start
echo 1 >/proc/sys/kernel/kptr_restrict
refused 2 "a time is a number and a unit" tombola start --quantum 5
refused 2 "from 100µs to 100ms" tombola start --quantum 1s

echo "# wrong rules"
printf 'floor = 30\n[users]\nnobody-of-this-name = 100\n' >wrong.toml
refused 1 "wrong.toml:1:9: floor is a whole number" tombola start --rules wrong.toml
check "all faults are said" grep -q 'wrong.toml:3:1: no user is called' answer
check "and that nothing was changed" grep -q 'wrong.toml: 2 faults; nothing was changed' answer
refused 1 "there is no such file" tombola start --rules absent.toml
cp wrong.toml /etc/tombola.toml
refused 1 "/etc/tombola.toml:1:9" tombola start
rm /etc/tombola.toml
check "nothing schedules" test "$(cat /sys/kernel/sched_ext/state)" = disabled

start
(as_exec alice sleep 1000) &
of_alice=$!
(as_exec bob sleep 1000) &
of_bob=$!
until grep -q sleep /proc/$of_alice/comm && grep -q sleep /proc/$of_bob/comm; do sleep 0.1; done
sleep 0.2
lrenice --owner-may-exceed $of_alice 150
lrenice $of_bob 250
lsetbase -u alice 700
as alice tombola currency make build --tickets 300
as alice tombola currency make inner --in build
as alice tombola currency enter build $of_alice
as bob tombola currency make bobs --tickets 42
tombola currency make roots

picture() { # all of it, but for who comes and goes, and what depends on who runs at the moment
	tombola tree --interval 1ms | sed 's/^ *//; s/  */ /g' | cut -d ' ' -f 1-3 |
		grep -E '^(currency|reservation|user|frozen|sleep)'
	tombola reserve
}
picture >before

echo "# root where root is needed"
refused 1 "is running already, as process $daemon" tombola start
refused 1 "stopping the scheduler needs root, and you are alice" as alice tombola stop
refused 1 "following the runs needs root, and you are alice" as alice tombola trace
refused 1 "reading the rules again needs root, and you are alice" as alice tombola reload
refused 1 "a reservation for process $of_alice, and you are alice" as alice tombola reserve 10% --pid $of_alice
refused 1 "you are alice" as alice tombola reserve 10% -- echo ran
check "what is not admitted is not run" sh -c '! grep -q ran answer'
refused 1 "you are alice" as alice tombola release --pid $of_alice

echo "# numbers"
for number in -1 10001 abc "" 1.5 4294967297 "1 " 0x0 00x; do
	refused 2 "from 1 to 10000, or 0, which freezes" lrenice $of_alice "$number"
	refused 2 "from 1 to 10000" lnice -t "$number" true
	refused 2 "from 100 to 10000, or 0, which freezes" lsetbase -u alice "$number"
	refused 2 "from 1 to 10000" as alice tombola currency make new --tickets "$number"
	refused 2 "from 1 to 10000, or 0, which freezes" as alice tombola currency fund build "$number"
	refused 2 "from 1 to 10000" as alice tombola run --tickets "$number" true
done
refused 2 "from 100 to 10000" lsetbase -u alice 99
refused 2 "from 1 to 10000;" lnice -t 0 true
refused 2 "from 1 to 10000;" as alice tombola run --tickets 0 true
refused 2 "from 1 to 10000;" as alice tombola currency make new --tickets 0
refused 1 "process 1 cannot be frozen" lrenice 1 0
refused 1 "root cannot be frozen" lsetbase -u root 0
refused 1 "0 base tickets for alice, and you are alice" as alice lsetbase -u alice 0
for share in 0% 0.99% 51201%; do
	refused 2 "a share of one CPU is from 1% to 51200%" tombola reserve "$share" --pid $of_alice
done
for share in 30 -1% abc "" 1.234% "30 %"; do
	refused 2 "a percentage is a number" tombola reserve "$share" --pid $of_alice
done
refused 1 "201% is not a share that can be reserved" tombola reserve 201% --pid $of_alice
check "and the range is said" grep -q 'the range is 0.01% to 200%' answer
refused 2 "Usage" tombola reserve 30%
refused 2 "Usage" tombola reserve --pid $of_alice
refused 2 "Usage" tombola release
refused 2 "from 1 up" lrenice 0 100
refused 2 "from 1 up" lrenice -p 0 100
refused 2 "cannot be used with" lrenice -p 1 1 100
refused 2 "required" lrenice 100
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
refused 1 "at most 700 and not to 0" as alice lsetbase -u alice 701
refused 1 "at most 1000 and not to 0" as bob lsetbase -u bob 1001
refused 1 "an administrator has set the tickets of process $of_bob (sleep)" as bob lrenice $of_bob 251
refused 1 "administrator" as bob lrenice --owner-may-exceed $of_bob 100
refused 127 "no-such-command" lnice no-such-command
refused 126 "cannot run" lnice /tmp

echo "# currencies"
for name in "" -a "a b" a/b "ä" aaaaaaaaaaaaaaaaaaaaaaaa "a
b"; do
	refused 2 "1 to 23 letters" as alice tombola currency make -- "$name"
done
refused 2 "no user has this name" tombola currency make nobody-of-this-name:x
refused 2 "no user has this name" tombola currency list -u nobody-of-this-name
refused 1 "there is a currency build already" as alice tombola currency make build
refused 1 "there is a currency build already" as alice tombola currency make build --in inner
for command in "fund absent 5" "move absent" "move build --in absent" "retire absent" "make x --in absent" \
	"enter absent $of_alice" "fund bobs 5" "retire bobs" "move build --in bobs" "enter bobs $of_alice"; do
	refused 1 "there is no currency" as alice tombola currency $command
done
refused 1 "there is no currency absent" as alice tombola run --currency absent echo ran
check "what cannot enter is not run" sh -c '! grep -q ran answer'
for name in bobs absent; do # whether there is one or not: the answer is the same
	for command in "fund bob:$name 5" "move bob:$name" "retire bob:$name" "make x --in bob:$name" "make bob:$name" \
		"enter bob:$name $of_alice" "move build --in bob:$name"; do
		refused 1 "not permitted: a currency of bob's, and you are alice" as alice tombola currency $command
	done
	refused 1 "not permitted: a currency of bob's, and you are alice" as alice tombola run -c bob:$name true
done
refused 1 "not permitted: a currency of bob's, and you are alice" as alice tombola currency list -u bob
refused 1 "they are different users'" tombola currency move alice:build --in bob:bobs
refused 1 "they are different users'" tombola currency make alice:x --in roots
refused 1 "build cannot be in inner: it would be inside itself" as alice tombola currency move build --in inner
refused 1 "build cannot be in build: it would be inside itself" as alice tombola currency move build --in build
refused 1 "process $of_bob (sleep) is bob's, and you are alice" as alice tombola currency enter build $of_bob
refused 1 "process $of_bob (sleep) is bob's, and you are alice" as alice tombola currency leave $of_bob
refused 1 "no process 4000000" as alice tombola currency enter build 4000000
refused 1 "process 2 (kthreadd) has no tickets" tombola currency enter roots 2
refused 2 "from 1 up" as alice tombola currency enter build 0
refused 2 "Usage" as alice tombola currency enter build
refused 2 "Usage" as alice tombola currency
refused 127 "no-such-command" as alice tombola run -c build no-such-command
refused 126 "cannot run" as alice tombola run -c build /tmp

echo "# nested too deep"
inside=
for n in 1 2 3 4 5 6 7 8; do
	as alice tombola currency make n$n $inside
	inside="--in n$n"
done
refused 1 "currencies are at most 8 inside one another" as alice tombola currency make n9 --in n8
refused 1 "currency build would be nested too deep" as alice tombola currency move build --in n7
for n in 1 2 3 4 5 6 7 8; do as alice tombola currency retire n$n; done
refused 1 "there is no currency n8" as alice tombola currency retire n8

echo "# reservations"
refused 1 "151% cannot be reserved for process $of_alice: 150% is left" tombola reserve 151% --pid $of_alice
check "the sum is said" grep -q 'of 200% for the machine.s CPUs, best effort keeps 50%, and reservations hold 0%' answer
refused 1 "151% cannot be reserved for currency build: 150% is left" tombola reserve 151% --currency alice:build
refused 1 "151% cannot be reserved for process" tombola reserve 151% -- echo ran
check "what is not admitted is not run" sh -c '! grep -q ran answer'
refused 1 "no process 4000000" tombola reserve 10% --pid 4000000
refused 1 "process 2 (kthreadd) has no tickets" tombola reserve 10% --pid 2
refused 1 "there is no currency absent" tombola reserve 10% --currency absent
refused 1 "process $of_alice has no reservation" tombola release --pid $of_alice
refused 1 "currency roots has no reservation" tombola release --currency roots
tombola reserve 100% --pid $of_bob
refused 1 "51% cannot be reserved for process $of_alice: 50% is left" tombola reserve 51% --pid $of_alice
refused 1 "151% cannot be reserved for process $of_bob" tombola reserve 151% --pid $of_bob
tombola release --pid $of_bob
refused 1 "process $of_bob has no reservation" tombola release --pid $of_bob

echo "# rules that are wrong, or cannot be kept, at a reload"
echo 'floor = 30' >/etc/tombola.toml
refused 1 "/etc/tombola.toml:1:9: floor is a whole number" tombola reload
printf 'floor = "51%%"\ndefault = 300\n' >/etc/tombola.toml
tombola reserve 100% --pid $of_bob
refused 1 "best effort cannot keep 51%: reservations hold 50%" tombola reload
check "the former rules hold" grep -q 'the former rules hold' answer
tombola release --pid $of_bob
rm /etc/tombola.toml

echo "# and nothing was changed"
picture >after
diff before after >answer
check "the tree and the reservations are as they were" test $? -eq 0
holds 1000 -u 4000
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
as alice lrenice -p $of_alice 9000
holds 9000 -p $of_alice
as alice lsetbase -u alice 100
holds 100 -u alice
as alice lnice -t 42 sh -c 'ltix -n -p $$' >answer 2>&1
check "lnice gives its command the tickets" test "$(cat answer)" = 42
as alice lnice -t 42 sh -c 'lnice ltix -n -p $PPID; sh -c "ltix -n -p \$\$"; true' >answer 2>&1
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
holds 100 -u alice # it was saved

echo "# SysRq-S"
echo S >/proc/sysrq-trigger
wait $daemon
check "SysRq-S asks it to end, and is no failure" test $? -eq 0
check "the kernel has been asked by SysRq-S" grep -q 'tombola has ended (SysRq-S)' daemon.log
refused 1 "not running" ltix -u alice

echo "# the end in order"
start
tombola stop >answer 2>&1
check "stop" test $? -eq 0
check "stop tells the state before and after" test "$(grep -c '^schedules' answer)" -eq 2
wait $daemon
check "start ends well (status $?)" test "$(cat /sys/kernel/sched_ext/state)" = disabled
check "nothing is left but what is told of the ejection" test "$(ls -A /run/tombola)" = ejection.json

kill $of_alice $of_bob
conclude

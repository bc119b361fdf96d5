#!/bin/sh
# Who is frozen for 40 s on a machine that is idle otherwise: the kernel's watchdog, which waits for 30 s, must not end the
# scheduler, and the process must not have more than 1 ms of CPU time. In a virtual machine that counts time in instructions.

cd /tmp || exit
tombola start >daemon.log 2>&1 &
daemon=$!
until grep -q 'tombola schedules' daemon.log || ! kill -0 $daemon 2>/dev/null; do sleep 0.1; done
burn >/dev/null &
frozen=$!
sleep 0.3
lrenice $frozen 0
sleep 0.1

cpu_ns() {
	cut -d ' ' -f 1 /proc/$frozen/schedstat
}

before=$(cpu_ns)
sleep 40
after=$(cpu_ns)
echo "$(((after - before) / 1000)) us of CPU time in 40 s"
kill -0 $daemon && test $((after - before)) -le 1000000 && kill $frozen && wait $frozen
test $? -eq 143

#!/bin/sh
# The Debian package under systemd, with users' busy processes: installed, started as a service that is hardened, reloaded,
# restarted, killed, ended by SysRq-S, upgraded, removed. In Debian's own system (tombola-lab vm --debian).

cd /tmp || exit
# shellcheck source=cli/tests/vm/checks.sh
. checks.sh

property() { # NAME: of the service
	systemctl show --property "$1" --value tombola
}

schedules() {
	test "$(cat /sys/kernel/sched_ext/state)" = enabled
}

is() { # STATE: of the service, such as active
	test "$(systemctl is-active tombola)" = "$1"
}

until_true() { # CONDITION...; the machine is switched off if it never is
	until "$@"; do sleep 0.2; done
}

is_another() { # PROCESS: that the service was
	now=$(property MainPID) # 0 after it was killed, while the service may still count as active
	test "$now" != "$1" && test "$now" != 0 && is active
}

files() { # without what the system writes as it runs
	find /etc /run /usr /var \( -path '/run/nologin' -o -path '/run/log' -o -path '/run/systemd' \
		-o -path '/var/log' -o -path '/var/lib/dpkg' -o -path '/var/lib/systemd' -o -path '/var/cache' \
		-o -path '/run/credentials' \) -prune -o -print | sort
}

cpu_ns() {
	cut -d ' ' -f 1 "/proc/$1/schedstat"
}

has_run() { # PROCESS SINCE
	test "$(cpu_ns "$1")" != "$2"
}

reserved() {
	tombola reserve >answer 2>&1 && grep -q prog.burn answer
}

# A start takes seconds for the kernel's verifier, and on a busy host, emulated, more than the 90 s after which systemd gives up.
patience=/run/systemd/system/tombola.service.d
mkdir -p $patience
printf '[Service]\nTimeoutStartSec=infinity\n' >$patience/patience.conf

files >before

echo "# installed"
dpkg -i /root/tombola.deb >answer 2>&1
check "it installs" test $? -eq 0
check "and does not schedule yet" is inactive
man_pages=$(find /usr/share/man -name '*.gz' | wc -l)
check "there are $man_pages manual pages" test "$man_pages" -gt 20

echo "# enabled"
systemctl enable --now tombola >answer 2>&1
check "the service starts" test $? -eq 0
check "systemd hears when it is ready, which is not before it schedules" schedules
check "it is active" is active
check "it starts at the next boot" test "$(systemctl is-enabled tombola)" = enabled
systemd-analyze security --no-pager --threshold=30 tombola >answer 2>&1
check "systemd calls it well protected" test $? -eq 0
tail -n 1 answer
as alice ltix >answer 2>&1
check "commands reach it from outside" grep -q '^alice: 1000 base tickets' answer

echo "# rules"
mkdir -p /home/alice/bin
cp /usr/bin/burn /home/alice/bin/burn
chown -R 1000:1000 /home/alice
chmod 700 /home/alice
cat >/etc/tombola.toml <<-END
	[users]
	alice = 3000
	[[reserve]]
	program = "/home/alice/bin/burn"
	share = "30%"
END
systemctl reload tombola >answer 2>&1
check "they are reloaded" test $? -eq 0
holds 3000 -u alice
as_exec alice /home/alice/bin/burn >/dev/null &
of_alice=$!
until_true reserved # a program in a directory that others than alice cannot read
as_exec bob burn >/dev/null &
of_bob=$!
echo nonsense >>/etc/tombola.toml
systemctl reload tombola >answer 2>&1
check "wrong ones are refused" test $? -ne 0
check "and nothing else happens" is active
sed -i '/nonsense/d' /etc/tombola.toml

echo "# restarted under load"
lsetbase -u bob 500
until_true grep -qs '^1001 500' /var/lib/tombola/base-tickets
former=$(property MainPID)
systemctl restart tombola >answer 2>&1
check "it restarts" test $? -eq 0
check "as another process" test "$(property MainPID)" != "$former"
check "it schedules" schedules
holds 3000 -u alice
holds 500 -u bob
until_true reserved

echo "# upgraded under load"
former=$(property MainPID)
dpkg -i /root/newer.deb >answer 2>&1
check "it is upgraded" test $? -eq 0
until_true is_another "$former" # its restart is not waited for
check "it schedules" schedules
check "and is still enabled" test "$(systemctl is-enabled tombola)" = enabled
holds 500 -u bob

echo "# killed"
kill $of_bob
former=$(property MainPID)
kill -KILL "$former"
until_true is_another "$former"
check "it comes back" schedules
holds 500 -u bob

echo "# ended by SysRq-S"
echo S >/proc/sysrq-trigger
until_true is inactive
journalctl -u tombola --no-pager >answer 2>&1
check "it stays away, as it was asked to" test "$(property NRestarts)" -eq 1
check "the kernel schedules" test "$(cat /sys/kernel/sched_ext/state)" = disabled

echo "# removed while it runs"
systemctl start tombola >answer 2>&1
check "it starts again" schedules
rm -r $patience
dpkg --purge tombola >answer 2>&1
check "it is removed" test $? -eq 0
check "the kernel schedules" test "$(cat /sys/kernel/sched_ext/state)" = disabled
ran=$(cpu_ns $of_alice)
until_true has_run $of_alice "$ran"
kill $of_alice
systemctl cat tombola >answer 2>&1
check "systemd knows nothing of it" test $? -ne 0
check "the administrator's rules are left" rm /etc/tombola.toml
files | diff before - >answer
check "and nothing else" test $? -eq 0
conclude

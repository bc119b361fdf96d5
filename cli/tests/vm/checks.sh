#!/bin/sh
# What the scripts here that try many things have in common. They source it.

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
	check "the scheduler starts" grep -q 'tombola schedules' daemon.log
}

conclude() { # the last thing that a script does
	echo "$passed passed, $failed failed"
	test $failed -eq 0
}

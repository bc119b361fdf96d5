# Runs in the guest; load.rs judges. load.sh OPTIONS: start the scheduler with these options and stop it. For each of its
# programs: VERIFIED, its name, and how many instructions of it the kernel's verifier has walked.

schedule "--verbose $1"
tombola stop >/dev/null
wait
verified

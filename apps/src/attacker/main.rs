//! What an ordinary user may try in order to harm other users, one attack for each subcommand. The tests run them beside other
//! users' programs, and check what these receive.
//!
//! An attack prints READY when all its processes and threads are set up, and then goes on until it is killed.

mod calls;
mod crowd;
mod kernel;
mod lending;
mod payment;
mod races;
mod setup;
mod users;

use anyhow::Result;
use clap::Parser;

/// Try to gain CPU time, or to take it from other users
#[derive(Parser)]
#[command(version)]
enum Attack {
    /// Freeze this process while it runs, before the run is charged; a second process thaws it
    FreezeUnpaid(payment::Args),
    /// Enter a frozen currency during a run, before the run is charged; a second process moves this one out
    EnterFrozen(payment::Args),
    /// Change between two currencies many times in a quantum
    ChangeCurrency(payment::Args),
    /// Have few tickets while running and many while waiting, by funding an own currency
    TimedFunding(payment::Args),
    /// The same, by the user's base tickets
    TimedBase(payment::Args),
    /// Set the user's base tickets, again and again
    RaiseBase(calls::RaiseBase),
    /// Make calls that look at all clients, again and again
    Call(calls::Call),
    /// As root: take a user's effective uid, as file servers do, and burn
    ActAs(users::ActAs),
    /// Take the identity of this program's owner for good (the file has the set-user-ID bit), and burn
    BecomeOwner(users::BecomeOwner),
    /// As root: start processes of many uids in a user namespace that a user, or root, owns
    Namespace(users::Namespace),
    /// Burn under a name that is not plain text
    Named(users::Named),
    /// Freeze many threads that want to run
    FreezeThreads(crowd::FreezeThreads),
    /// Freeze a process that burns, and change its class each second, so that the kernel enqueues it again
    EnqueueAgain,
    /// Freeze many processes with memory of their own, and kill them all when told to (SIGUSR1)
    DieFrozen(crowd::DieFrozen),
    /// Start threads until the system refuses, and let them sleep
    TakePlaces(crowd::TakePlaces),
    /// Burn with several threads in a process whose first thread has exited
    FirstExits(crowd::FirstExits),
    /// Make system calls under a filter (seccomp) that takes long
    Seccomp,
    /// Many threads make system calls that cannot be preempted for long
    LongSections(kernel::LongSections),
    /// Threads with few tickets, or frozen ones, look up long paths, each in one RCU read section
    LongLookups(kernel::LongLookups),
    /// Two threads, bound to a CPU each, wake each other
    WakeElsewhere(kernel::WakeElsewhere),
    /// Start processes, one after the other, that take long to exit
    ExitSlowly(kernel::ExitSlowly),
    /// Freeze a process while it reads a directory, for whose lock other processes then wait
    HoldDirectory(kernel::HoldDirectory),
    /// Lend tickets to processes that abuse them
    Lend(lending::Lend),
    /// Make, move, fund and retire the same currencies from several processes, with children that come and go in them
    Races(races::Races),
    /// No attack: have memory in which the kernel looks for equal pages, if root lets it (ksmd)
    MergeMemory,
    /// No attack: make and remove files in a directory, and print the longest time that one took, in microseconds
    MakeFiles(kernel::MakeFiles),
}

fn main() -> Result<()> {
    let never = match Attack::parse() {
        Attack::FreezeUnpaid(args) => payment::freeze_unpaid(&args),
        Attack::EnterFrozen(args) => payment::enter_frozen(&args),
        Attack::ChangeCurrency(args) => payment::change_currency(&args),
        Attack::TimedFunding(args) => payment::timed_funding(&args),
        Attack::TimedBase(args) => payment::timed_base(&args),
        Attack::RaiseBase(args) => calls::raise_base(&args),
        Attack::Call(args) => calls::call(&args),
        Attack::ActAs(args) => users::act_as(&args),
        Attack::BecomeOwner(args) => users::become_owner(&args),
        Attack::Namespace(args) => users::namespace(&args),
        Attack::Named(args) => users::named(&args),
        Attack::FreezeThreads(args) => crowd::freeze_threads(&args),
        Attack::EnqueueAgain => crowd::enqueue_again(),
        Attack::DieFrozen(args) => crowd::die_frozen(&args),
        Attack::TakePlaces(args) => crowd::take_places(&args),
        Attack::FirstExits(args) => crowd::first_exits(&args),
        Attack::Seccomp => kernel::seccomp(),
        Attack::WakeElsewhere(args) => kernel::wake_elsewhere(&args),
        Attack::LongSections(args) => kernel::long_sections(&args),
        Attack::LongLookups(args) => kernel::long_lookups(&args),
        Attack::ExitSlowly(args) => kernel::exit_slowly(&args),
        Attack::HoldDirectory(args) => kernel::hold_directory(&args),
        Attack::Lend(args) => lending::lend(&args),
        Attack::Races(args) => races::races(&args),
        Attack::MergeMemory => kernel::merge_memory(),
        Attack::MakeFiles(args) => return kernel::make_files(&args),
    };
    match never? {}
}

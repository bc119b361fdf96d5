//! Transfers: a task that sleeps until another one frees a lock lends to that one (`loans.h`). On one run queue; with several,
//! nobody lends.

use super::Tombola;
use crate::machine::{Machine, TaskId};

impl Tombola {
    /// Tasks that wait for locks lend to the holders from now on.
    pub fn transfer(&mut self) {
        self.transfers = self.queues.is_none();
    }

    /// A task has slept, and waits for `holder`; or it waited already, and for another one.
    pub(super) fn lend(&mut self, machine: &mut Machine, task: TaskId, holder: TaskId) {
        if !self.transfers {
            return;
        }
        self.reclaim(machine, task);
        let (leaf, of_holder) = (self.leaf(task), self.leaf(holder));
        self.economy.lend(leaf, of_holder, machine.now);
    }

    /// A loan ends. If its accounts pay for a run, that is settled, and another account pays from now on.
    pub(super) fn reclaim(&mut self, machine: &mut Machine, task: TaskId) {
        let leaf = self.leaf(task);
        if self.economy.lends_to(leaf).is_none() {
            return;
        }
        let thread = self.economy.borrower(leaf);
        let borrower = self.task(thread);
        let lent = self.economy.accounts(leaf);
        let run = self.run(machine, borrower, false);
        let pays = machine.cpu_of(borrower).is_some() && lent.contains(&self.payer(borrower));
        if pays {
            self.settle(machine, borrower, 0);
        }
        self.economy.reclaim(leaf);
        if pays {
            self.choose_payer(borrower);
            self.settle(
                machine,
                borrower,
                run.precharge_ns.saturating_sub(run.ran_ns),
            );
        }
    }

    /// All loans to a task that has slept for ever end.
    pub(super) fn end_loans(&mut self, task: TaskId) {
        let leaf = self.leaf(task);
        for account in self.economy.accounts(leaf) {
            if self.economy.lends_to(account) == Some(leaf) {
                self.economy.reclaim(account);
                self.economy.leave_accounts(account);
            }
        }
    }

    /// The account that is charged while a task runs.
    pub(super) fn payer(&self, task: TaskId) -> u32 {
        self.accounts[task].payer
    }

    /// For a settled task that does not wait.
    pub(super) fn choose_payer(&mut self, task: TaskId) {
        let leaf = self.leaf(task);
        self.accounts[task].payer = self.of(task).best_account(leaf);
    }
}

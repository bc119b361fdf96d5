//! Round robin: one queue for all CPUs, first come, first served, a quantum each.

use crate::machine::{Machine, TaskId};
use crate::scheduler::Scheduler;
use std::collections::VecDeque;

/// Round robin.
pub struct RoundRobin {
    quantum_ns: u64,
    waiting: VecDeque<TaskId>,
}

impl RoundRobin {
    /// With slices of this length.
    #[must_use]
    pub fn new(quantum_ns: u64) -> Self {
        Self {
            quantum_ns,
            waiting: VecDeque::new(),
        }
    }
}

impl Scheduler for RoundRobin {
    fn made(&mut self, _machine: &mut Machine, _task: TaskId, _forker: Option<TaskId>) {}

    fn wake(&mut self, machine: &mut Machine, task: TaskId, _waker: Option<usize>) {
        self.waiting.push_back(task);
        if let Some(idle) = machine.idle_cpu(task) {
            machine.reschedule(idle);
        }
    }

    fn pick(&mut self, machine: &mut Machine, cpu: usize) -> Option<TaskId> {
        let held = machine
            .running(cpu)
            .filter(|&held| machine.may_run(held, cpu));
        let first = self
            .waiting
            .iter()
            .position(|&task| machine.may_run(task, cpu));
        machine.set_slice_end(cpu, machine.now + self.quantum_ns);
        first.and_then(|first| self.waiting.remove(first)).or(held)
    }

    fn put_back(&mut self, machine: &mut Machine, task: TaskId, _cpu: usize) {
        self.wake(machine, task, None);
    }

    fn slept(&mut self, machine: &mut Machine, task: TaskId, _cpu: usize) {
        if machine.cpu_of(task).is_none() {
            self.waiting.retain(|&other| other != task);
        }
    }

    fn mask_changed(&mut self, machine: &mut Machine, task: TaskId) {
        if let Some(idle) = machine.idle_cpu(task) {
            machine.reschedule(idle);
        }
    }
}

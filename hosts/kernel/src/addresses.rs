//! Where variables of the kernel's are that the scheduler reads: from /proc/kallsyms (proc_kallsyms(5)).
//!
//! libbpf finds them as well, but reads the more than 100,000 lines with scanf, and takes a hidden address for one.

/// Addresses, for the scheduler's constants (bpf/state.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Of `__cpu_active_mask`.
    pub active_cpus: u64,
    /// Of `rcu_state`; 0 if the kernel has none (a single CPU without preemption).
    pub rcu_state: u64,
    /// Of the operations of files, by which the scheduler knows what a descriptor leads to; 0 if a name is not found.
    pub pipe_files: u64,
    pub fifo_files: u64,
    pub eventfd_files: u64,
    pub socket_files: u64,
}

impl Addresses {
    /// None if the kernel hides addresses.
    pub fn read() -> Option<Self> {
        let symbols = std::fs::read("/proc/kallsyms").ok()?;
        Some(Self::of(&symbols)).filter(|addresses| addresses.active_cpus != 0)
    }

    // Address, kind and name are separated by spaces; the names of modules follow after tabs.
    fn of(symbols: &[u8]) -> Self {
        let mut found = Self::default();
        for line in symbols.split(|byte| *byte == b'\n') {
            let name = line.rsplit(|byte| *byte == b' ').next();
            let place = match name.unwrap_or_default() {
                b"__cpu_active_mask" => &mut found.active_cpus,
                b"rcu_state" => &mut found.rcu_state,
                b"pipeanon_fops" => &mut found.pipe_files,
                b"pipefifo_fops" => &mut found.fifo_files,
                b"eventfd_fops" => &mut found.eventfd_files,
                b"socket_file_ops" => &mut found.socket_files,
                _ => continue,
            };
            *place = address(line);
        }
        found
    }
}

fn address(line: &[u8]) -> u64 {
    let hexadecimal = line.split(|byte| *byte == b' ').next();
    let digits = hexadecimal.and_then(|digits| std::str::from_utf8(digits).ok());
    digits.map_or(0, |digits| u64::from_str_radix(digits, 16).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::Addresses;

    #[test]
    fn variables_are_found_by_their_whole_names() {
        let symbols = "ffffffff82a01000 D __cpu_active_mask\n\
                       ffffffff82a02000 d srcu_state\n\
                       ffffffff82a03000 d rcu_state\n\
                       ffffffffc0001000 d rcu_state\t[rcutorture]\n";
        let expected = Addresses {
            active_cpus: 0xffff_ffff_82a0_1000,
            rcu_state: 0xffff_ffff_82a0_3000,
            ..Addresses::default()
        };
        assert_eq!(Addresses::of(symbols.as_bytes()), expected);
        assert_eq!(
            Addresses::of(b"0000000000000000 D __cpu_active_mask\n"),
            Addresses::default()
        );
    }
}

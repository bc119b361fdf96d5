//! The C headers compile without warnings, and Rust's side of the ABI agrees with them.

use std::fmt::Write;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tombola_kernel::abi::{self, Call, Node, Op, TracedRun, Tree, info, kind, reserved};

const FLAGS: [&str; 5] = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror"];

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn compile(program: &Path, out: &Path, options: &[&str]) -> Output {
    Command::new("gcc")
        .args(FLAGS)
        .args(options)
        .args(["-D_GNU_SOURCE", "-I"])
        .arg(source("include"))
        .arg("-isystem")
        .arg(source("../../core/include"))
        .arg("-o")
        .arg(out)
        .arg(program)
        .output()
        .expect("gcc is needed for this test: make deps")
}

fn assert_compiles(program: &Path, out: &Path, options: &[&str]) {
    let output = compile(program, out, options);
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Expressions of C, and the same in Rust.
fn pairs() -> Vec<(&'static str, usize)> {
    let mut pairs = constants();
    pairs.extend(operations());
    pairs.extend(layouts());
    pairs
}

fn constants() -> Vec<(&'static str, usize)> {
    vec![
        ("TOMBOLA_ABI", abi::ABI as usize),
        ("TOMBOLA_TICKETS_MIN", abi::TICKETS_MIN as usize),
        ("TOMBOLA_TICKETS_MAX", abi::TICKETS_MAX as usize),
        ("TOMBOLA_TICKETS_DEFAULT", abi::TICKETS_DEFAULT as usize),
        ("TOMBOLA_BASE_TICKETS_MIN", abi::BASE_TICKETS_MIN as usize),
        ("TOMBOLA_BASE_TICKETS_MAX", abi::BASE_TICKETS_MAX as usize),
        (
            "TOMBOLA_BASE_TICKETS_DEFAULT",
            abi::BASE_TICKETS_DEFAULT as usize,
        ),
        ("TOMBOLA_QUANTUM_PARTS", abi::QUANTUM_PARTS),
        ("TOMBOLA_LIMIT_SHIFT", abi::LIMIT_SHIFT as usize),
        ("TOMBOLA_NO_LIMIT", abi::NO_LIMIT as usize),
        ("TOMBOLA_NESTED_MAX", abi::NESTED_MAX as usize),
        ("TB_NESTED_MAX", abi::NESTED_MAX as usize),
        ("TOMBOLA_CURRENCIES_MAX", abi::CURRENCIES_MAX as usize),
        ("TOMBOLA_NAME", abi::NAME),
        ("TOMBOLA_SHARE_ONE", abi::SHARE_ONE as usize),
        ("TB_MACHINE_TICKETS", abi::SHARE_ONE as usize),
        ("TOMBOLA_FLOOR_DEFAULT", abi::FLOOR_DEFAULT as usize),
        ("TOMBOLA_ROOT_DEFAULT", abi::ROOT_DEFAULT as usize),
        ("TOMBOLA_ROOT_MAX", abi::ROOT_MAX as usize),
        ("TOMBOLA_TREE_NODES", abi::TREE_NODES),
        ("TOMBOLA_COUNTERS", abi::COUNTERS.len()),
        ("TB_KIND_BASE", kind::BASE as usize),
        ("TB_KIND_BEST_EFFORT", kind::BEST_EFFORT as usize),
        ("TB_KIND_USER", kind::USER as usize),
        ("TB_KIND_PROCESS", kind::PROCESS as usize),
        ("TB_KIND_THREAD", kind::THREAD as usize),
        ("TB_KIND_CURRENCY", kind::CURRENCY as usize),
        ("TB_KIND_RESERVATION", kind::RESERVATION as usize),
        ("TB_KIND_FROZEN", kind::FROZEN as usize),
        ("TOMBOLA_KIND_LOAN", kind::LOAN as usize),
    ]
}

fn operations() -> Vec<(&'static str, usize)> {
    vec![
        ("TOMBOLA_INFO", Op::Info as usize),
        ("TOMBOLA_GET_TICKETS", Op::GetTickets as usize),
        ("TOMBOLA_SET_TICKETS", Op::SetTickets as usize),
        ("TOMBOLA_GET_BASE_TICKETS", Op::GetBaseTickets as usize),
        ("TOMBOLA_SET_BASE_TICKETS", Op::SetBaseTickets as usize),
        ("TOMBOLA_GET_WINS", Op::GetWins as usize),
        ("TOMBOLA_GET_QUANTUM_USE", Op::GetQuantumUse as usize),
        ("TOMBOLA_GET_COUNTER", Op::GetCounter as usize),
        ("TOMBOLA_FIND_CURRENCY", Op::FindCurrency as usize),
        ("TOMBOLA_MAKE_CURRENCY", Op::MakeCurrency as usize),
        ("TOMBOLA_FUND_CURRENCY", Op::FundCurrency as usize),
        ("TOMBOLA_MOVE_CURRENCY", Op::MoveCurrency as usize),
        ("TOMBOLA_RETIRE_CURRENCY", Op::RetireCurrency as usize),
        ("TOMBOLA_MOVE_PROCESS", Op::MoveProcess as usize),
        ("TOMBOLA_RESERVE", Op::Reserve as usize),
        ("TOMBOLA_GET_RESERVED", Op::GetReserved as usize),
        ("TOMBOLA_SET_FLOOR", Op::SetFloor as usize),
        ("TOMBOLA_SET_ROOT", Op::SetRoot as usize),
        ("TOMBOLA_SET_DEFAULT", Op::SetDefault as usize),
        ("TOMBOLA_LEND", Op::Lend as usize),
        ("TOMBOLA_LEND_WAITING", Op::LendWaiting as usize),
        ("TOMBOLA_RECLAIM", Op::Reclaim as usize),
        ("TOMBOLA_SET_SERVER", Op::SetServer as usize),
        ("TOMBOLA_RESERVED_MACHINE", reserved::MACHINE),
        ("TOMBOLA_RESERVED_ALL", reserved::ALL),
        ("TOMBOLA_RESERVED_FLOOR", reserved::FLOOR),
        ("TOMBOLA_RESERVED_ROOT", reserved::ROOT),
        ("TOMBOLA_RESERVED_DEFAULT", reserved::DEFAULT),
        ("TOMBOLA_INFO_ABI", info::ABI),
        ("TOMBOLA_INFO_POLICY", info::POLICY),
        ("TOMBOLA_INFO_QUANTUM_NS", info::QUANTUM_NS),
        ("TOMBOLA_INFO_CPUS", info::CPUS),
        ("TOMBOLA_INFO_CLIENTS", info::CLIENTS),
        ("TOMBOLA_INFO_WAITING", info::WAITING),
        ("TOMBOLA_INFO_PROCESSES", info::PROCESSES),
        ("TOMBOLA_INFO_NOW_NS", info::NOW_NS),
    ]
}

macro_rules! layout {
    ($c:ident, $rust:ident: $($field:ident)*) => {
        vec![
            (concat!("sizeof(struct ", stringify!($c), ")"), size_of::<$rust>()),
            $((concat!("offsetof(struct ", stringify!($c), ", ", stringify!($field), ")"), offset_of!($rust, $field)),)*
        ]
    };
}

fn layouts() -> Vec<(&'static str, usize)> {
    [
        layout!(tombola_call, Call: op id value currency to ms name out),
        layout!(tombola_tree, Tree: from count node),
        layout!(tombola_node, Node: index parent kind id tickets active clients tgid uid limit lends_to lent serves unused
            used_ns lent_ns wins weight number name),
        layout!(tombola_traced_run, TracedRun: at_ns ran_ns cpu tid tgid uid payer tickets draw_tickets base_value_ppm
            compensation_ppm kept preempted),
    ]
    .concat()
}

const PATHS: [(&str, &str); 4] = [
    ("TOMBOLA_RUN_DIR", abi::RUN_DIR),
    ("TOMBOLA_PIN_DIR", abi::PIN_DIR),
    ("TOMBOLA_PIN_CALL", abi::PIN_CALL),
    ("TOMBOLA_PIN_TREE", abi::PIN_TREE),
];

#[test]
fn both_sides_of_the_abi_agree() {
    let mut text =
        String::from("#include <stddef.h>\n#include <tombola/order.h>\n#include \"tombola.h\"\n");
    for (expression, value) in pairs() {
        writeln!(
            text,
            "_Static_assert({expression} == {value}, \"{expression}\");"
        )
        .unwrap();
    }
    for (name, path) in PATHS {
        writeln!(
            text,
            "_Static_assert(!__builtin_strcmp({name}, \"{path}\"), \"{name}\");"
        )
        .unwrap();
    }
    text.push_str("int main(void) { return 0; }\n");
    let program = scratch("abi.c");
    std::fs::write(&program, text).unwrap();
    assert_compiles(&program, &scratch("abi"), &[]);
}

#[test]
fn counters_are_shown_by_the_names_that_the_header_gives_them() {
    let header = std::fs::read_to_string(source("include/tombola_abi.h")).unwrap();
    let names: Vec<String> = header
        .lines()
        .filter_map(|line| line.trim().strip_prefix("TOMBOLA_COUNT_"))
        .filter_map(|line| Some(line.split_once(',')?.0.to_lowercase()))
        .collect();
    assert_eq!(names, abi::COUNTERS);
}

/// The path is redefined, so that the program does not find Tombola even if it runs on this machine. The tests in the virtual
/// machine run the program with Tombola.
#[test]
fn a_c_program_uses_the_calls_and_is_told_when_tombola_is_not_running() {
    let elsewhere = scratch("elsewhere.h");
    let redefined = "#include <linux/types.h>\n#include \"tombola_abi.h\"\n\
                     #undef TOMBOLA_PIN_CALL\n#define TOMBOLA_PIN_CALL \"/no/such/call\"\n";
    std::fs::write(&elsewhere, redefined).unwrap();
    let out = scratch("calls");
    let options = ["-include", elsewhere.to_str().unwrap()];
    assert_compiles(&source("tests/c/calls.c"), &out, &options);
    let output = Command::new(out).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not running"));
}

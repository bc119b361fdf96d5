//! The benchmarks on a real kernel, each once and small: they run, and their results are plausible.

use tombola_lab::bench::boot::own_programs;
use tombola_lab::bench::cases::CASES;
use tombola_lab::bench::cost::{self, Contestant, Crowd};
use tombola_lab::bench::scheduler::{EEVDF, STRIDE};
use tombola_lab::bench::shares::{self, Point};

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_three_equal_processes_on_one_cpu() {
    let point = Point {
        scheduler: EEVDF,
        kernel: EEVDF.kernel,
        cpus: 1,
        caches: 1,
        case: CASES.iter().find(|case| case.name == "eq3").unwrap(),
        seed: 0,
    };
    let measured = shares::measure(&[point], &own_programs().unwrap()).unwrap();
    let shares = &measured[0].shares;
    let second = shares.windows[2].expect("30 s hold many windows of a second");
    assert!(
        second.mean < 0.01 && second.mean <= second.max,
        "{shares:?}"
    );
    assert!(shares.utilisation > 0.95, "{shares:?}");
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn a_switch_costs_some_thousand_instructions() {
    let contestant = Contestant {
        scheduler: STRIDE,
        kernel: STRIDE.kernel,
        seed: 0,
    };
    let crowd = Crowd {
        tasks: 2,
        users: 2,
        currencies: 0,
    };
    let all = cost::measure(&[contestant], &[crowd], &own_programs().unwrap()).unwrap();
    let cost = &all[0].costs[0];
    let plausible = 1_000.0..100_000.0;
    assert!(plausible.contains(&cost.slice_end), "{cost:?}");
    assert!(plausible.contains(&cost.wake), "{cost:?}");
    // A quantum is a millisecond.
    assert!(
        (800.0..1200.0).contains(&cost.switches_per_second),
        "{cost:?}"
    );
}

//! The order of chunks, without threads: workers take and settle chunks on the test's own clock.

use std::collections::BTreeMap;
use std::ops::Range;
use tombola_pool::queue::{Chunk, Currency, JobId, Refused, Request, RunQueue, Settled};
use tombola_pool::{Order, TICKETS_DEFAULT, Width};

const QUANTUM_NS: u64 = 1_000_000;

fn queue(order: Order, width: Width) -> RunQueue {
    RunQueue::new(order, width, QUANTUM_NS, 1)
}

fn request(units: u64, tickets: u32) -> Request {
    Request {
        units,
        chunk: 1,
        tickets,
        currency: Currency::BASE,
    }
}

fn submit(queue: &mut RunQueue, units: u64, tickets: u32) -> JobId {
    queue.submit(&request(units, tickets)).unwrap().0
}

/// One worker does everything. Returns the job of each chunk, in order.
fn turns(queue: &mut RunQueue) -> Vec<JobId> {
    let mut turns = Vec::new();
    while let Some(chunk) = queue.pick() {
        queue.settle(&chunk, QUANTUM_NS, false);
        turns.push(chunk.job);
    }
    assert!(queue.is_empty(), "all jobs have ended");
    turns
}

#[test]
fn fifo_goes_by_submission() {
    let mut queue = queue(Order::Fifo, Width::All);
    let first = submit(&mut queue, 2, 1);
    let second = submit(&mut queue, 2, 10_000);
    assert_eq!(turns(&mut queue), [first, first, second, second]);
}

#[test]
fn priority_goes_by_tickets_and_then_by_submission() {
    let mut queue = queue(Order::Priority, Width::All);
    let least = submit(&mut queue, 1, 1);
    let most = submit(&mut queue, 2, 3);
    let middle = submit(&mut queue, 1, 2);
    let other = submit(&mut queue, 1, 2);
    assert_eq!(turns(&mut queue), [most, most, middle, other, least]);
}

#[test]
fn a_higher_priority_preempts_between_two_chunks() {
    let mut queue = queue(Order::Priority, Width::All);
    let low = submit(&mut queue, 2, 1);
    let chunk = queue.pick().unwrap();
    assert_eq!(chunk.job, low);
    let high = submit(&mut queue, 1, 2);
    queue.settle(&chunk, QUANTUM_NS, false);
    assert_eq!(turns(&mut queue), [high, low]);
}

#[test]
fn smith_goes_by_tickets_per_unit() {
    let mut queue = queue(Order::Smith, Width::All);
    let long = submit(&mut queue, 6, 2);
    let chunk = queue.pick().unwrap();
    queue.settle(&chunk, QUANTUM_NS, false);
    let short = submit(&mut queue, 4, 2);
    // 2/6, however much is done, against 2/4.
    assert_eq!(turns(&mut queue), [vec![short; 4], vec![long; 5]].concat());
}

#[test]
fn gittins_goes_by_tickets_per_unit_left() {
    let mut queue = queue(Order::Gittins, Width::All);
    let begun = submit(&mut queue, 10, 1);
    for _ in 0..6 {
        let chunk = queue.pick().unwrap();
        queue.settle(&chunk, QUANTUM_NS, false);
    }
    // 1/4 against 2/10.
    let fresh = submit(&mut queue, 10, 2);
    let expected = [vec![begun; 4], vec![fresh; 10]].concat();
    assert_eq!(turns(&mut queue), expected);
}

#[test]
fn joining_adds_tickets() {
    for order in [Order::Priority, Order::Smith, Order::Gittins] {
        let mut queue = queue(order, Width::All);
        let joined = submit(&mut queue, 3, 2);
        let other = submit(&mut queue, 3, 3);
        let waiter = queue.join(joined, 2, Currency::BASE).unwrap();
        let chunk = queue.pick().unwrap();
        assert_eq!(chunk.job, joined, "{order:?}: 4 against 3");
        queue.settle(&chunk, QUANTUM_NS, false);
        assert!(!queue.leave(waiter));
        let expected = match order {
            Order::Gittins => joined, // 2/2 against 3/3, and submitted first
            _ => other,
        };
        assert_eq!(queue.pick().unwrap().job, expected, "{order:?}");
    }
}

#[test]
fn a_job_that_ends_returns_its_clients_without_those_that_left() {
    for order in Order::ALL {
        let mut queue = queue(order, Width::All);
        let (job, first) = queue.submit(&request(5, 1)).unwrap();
        let second = queue.join(job, 1, Currency::BASE).unwrap();
        let third = queue.join(job, 1, Currency::BASE).unwrap();
        assert!(!queue.leave(second));
        let chunk = queue.pick().unwrap();
        assert_eq!(
            queue.settle(&chunk, QUANTUM_NS, true),
            Settled::Ended(vec![first, third])
        );
        assert!(queue.is_empty() && queue.pick().is_none(), "{order:?}");
        assert!(!queue.leave(first), "it has left already");
    }
}

#[test]
fn a_job_ends_with_its_last_client() {
    for (order, width) in all() {
        let mut queue = queue(order, width);
        let (job, waiter) = queue.submit(&request(5, 1)).unwrap();
        let chunk = queue.pick().unwrap();
        assert!(queue.leave(waiter));
        assert!(!queue.contains(job));
        assert_eq!(queue.pick(), None);
        assert_eq!(
            queue.settle(&chunk, QUANTUM_NS, false),
            Settled::EndedBefore
        );
    }
}

fn all() -> impl Iterator<Item = (Order, Width)> {
    let widths = [Width::One, Width::All];
    Order::ALL
        .into_iter()
        .flat_map(move |order| widths.map(|width| (order, width)))
}

/// Several workers: chunks end in the order in which they began.
fn work(queue: &mut RunQueue, workers: usize, mut each: impl FnMut(&Chunk, &[Chunk])) {
    let mut busy: Vec<Chunk> = Vec::new();
    loop {
        while busy.len() < workers
            && let Some(chunk) = queue.pick()
        {
            each(&chunk, &busy);
            busy.push(chunk);
        }
        if busy.is_empty() {
            return;
        }
        let chunk = busy.remove(0);
        queue.settle(&chunk, QUANTUM_NS, false);
    }
}

#[test]
fn every_unit_is_done_once() {
    for (order, width) in all() {
        let mut queue = queue(order, width);
        let mut wanted: BTreeMap<JobId, u64> = BTreeMap::new();
        for n in 1..=20 {
            let request = Request {
                chunk: n % 4 + 1,
                ..request(n * 3, n as u32)
            };
            wanted.insert(queue.submit(&request).unwrap().0, n * 3);
        }
        let mut done: BTreeMap<JobId, Vec<Range<u64>>> = BTreeMap::new();
        work(&mut queue, 3, |chunk, _| {
            done.entry(chunk.job).or_default().push(chunk.units.clone());
        });
        for (job, units) in wanted {
            let ranges = &done[&job];
            let follows = ranges.windows(2).all(|two| two[0].end == two[1].start);
            assert!(follows, "{order:?} {width:?}: {ranges:?}");
            assert_eq!((ranges[0].start, ranges[ranges.len() - 1].end), (0, units));
        }
        assert!(queue.is_empty());
    }
}

#[test]
fn width_says_whether_workers_share_a_job() {
    for (order, width) in all() {
        let mut queue = queue(order, width);
        for _ in 0..2 {
            submit(&mut queue, 10, 1);
        }
        let mut shared = 0;
        work(&mut queue, 3, |chunk, busy| {
            shared += usize::from(busy.iter().any(|other| other.job == chunk.job));
        });
        match width {
            Width::One => assert_eq!(shared, 0, "{order:?}"),
            Width::All => assert!(shared > 0, "{order:?}"),
        }
    }
}

/// Users that always have two jobs each, in a currency of their own with so many tickets. Returns the units done for each.
fn always_asking(order: Order, tickets: &[u32], workers: usize, chunks: u64) -> Vec<u64> {
    const UNITS: u64 = 7;
    let mut queue = queue(order, Width::All);
    let mut client_of = BTreeMap::new();
    let currencies: Vec<Currency> = tickets
        .iter()
        .map(|tickets| queue.currency(Currency::BASE, *tickets).unwrap())
        .collect();
    let ask = |queue: &mut RunQueue, client: usize| {
        let request = Request {
            currency: currencies[client],
            ..request(UNITS, TICKETS_DEFAULT)
        };
        queue.submit(&request).unwrap().0
    };
    for client in 0..tickets.len() {
        for _ in 0..2 {
            client_of.insert(ask(&mut queue, client), client);
        }
    }
    let mut done = vec![0; tickets.len()];
    let mut busy: Vec<Chunk> = Vec::new();
    for _ in 0..chunks {
        while busy.len() < workers {
            busy.push(queue.pick().expect("there are always jobs"));
        }
        let chunk = busy.remove(0);
        let client = client_of[&chunk.job];
        done[client] += 1;
        if let Settled::Ended(_) = queue.settle(&chunk, QUANTUM_NS, false) {
            client_of.remove(&chunk.job);
            client_of.insert(ask(&mut queue, client), client);
        }
    }
    done
}

#[test]
fn stride_divides_completed_work_by_tickets() {
    for workers in [1, 2, 4] {
        let done = always_asking(Order::Stride, &[800, 300, 100], workers, 12_000);
        for (done, due) in done.iter().zip([8_000.0, 3_000.0, 1_000.0]) {
            let off = (*done as f64 / due - 1.0).abs();
            assert!(off < 0.01, "{workers} workers: {done} of {due}");
        }
    }
}

#[test]
fn the_lottery_divides_it_within_what_chance_does() {
    for workers in [1, 2, 4] {
        const CHUNKS: u64 = 12_000;
        let done = always_asking(Order::Lottery, &[800, 300, 100], workers, CHUNKS);
        for (done, share) in done.iter().zip([8.0 / 12.0, 3.0 / 12.0, 1.0 / 12.0]) {
            let due = CHUNKS as f64 * share;
            let error = (due * (1.0 - share)).sqrt();
            let off = (*done as f64 - due) / error;
            assert!(off.abs() < 3.0, "{workers} workers: {done} of {due}");
            assert!(off != 0.0, "chance is not exact");
        }
    }
}

#[test]
fn clients_of_one_currency_take_nothing_from_another() {
    let mut queue = queue(Order::Stride, Width::All);
    let [crowded, lonely] = [100, 100].map(|t| queue.currency(Currency::BASE, t).unwrap());
    let ask = |queue: &mut RunQueue, currency, tickets| {
        let request = Request {
            currency,
            ..request(100_000, tickets)
        };
        queue.submit(&request).unwrap().0
    };
    for _ in 0..50 {
        ask(&mut queue, crowded, 10_000);
    }
    let alone = ask(&mut queue, lonely, 1);
    let mut turns = 0;
    for _ in 0..1000 {
        let chunk = queue.pick().unwrap();
        turns += u32::from(chunk.job == alone);
        queue.settle(&chunk, QUANTUM_NS, false);
    }
    assert_eq!(turns, 500);
}

#[test]
fn a_long_chunk_is_paid_for() {
    let mut queue = queue(Order::Stride, Width::All);
    let slow = submit(&mut queue, 1 << 40, 100);
    submit(&mut queue, 1 << 40, 100);
    let (mut slow_ns, mut fast_ns) = (0, 0);
    for _ in 0..10_000 {
        let chunk = queue.pick().unwrap();
        let (sum, took) = match chunk.job == slow {
            true => (&mut slow_ns, 3 * QUANTUM_NS),
            false => (&mut fast_ns, QUANTUM_NS),
        };
        *sum += took;
        queue.settle(&chunk, took, false);
    }
    let off = slow_ns as f64 / fast_ns as f64 - 1.0;
    assert!(off.abs() < 0.001, "{slow_ns} against {fast_ns}");
}

/// One worker, and two currencies of equal tickets. The clients of one leave during a chunk that takes twenty quanta.
#[test]
fn a_client_that_leaves_during_a_chunk_pays_for_all_of_it() {
    const LONG: u64 = 20;
    let mut queue = queue(Order::Stride, Width::All);
    let [hasty, steady] = [100, 100].map(|t| queue.currency(Currency::BASE, t).unwrap());
    let in_currency = |currency| Request {
        currency,
        ..request(1 << 40, TICKETS_DEFAULT)
    };
    queue.submit(&in_currency(steady)).unwrap();
    let mut leaves = queue.submit(&in_currency(hasty)).unwrap();
    let (mut hasty_chunks, mut steady_chunks) = (0, 0);
    for _ in 0..20_000 {
        let chunk = queue.pick().unwrap();
        if chunk.job == leaves.0 {
            assert!(queue.leave(leaves.1));
            assert_eq!(queue.retire(hasty), Err(Refused::InUse), "not paid yet");
            leaves = queue.submit(&in_currency(hasty)).unwrap();
            let settled = queue.settle(&chunk, LONG * QUANTUM_NS, false);
            assert_eq!(settled, Settled::EndedBefore);
            hasty_chunks += LONG;
        } else {
            queue.settle(&chunk, QUANTUM_NS, false);
            steady_chunks += 1;
        }
    }
    let off = f64::from(steady_chunks) / hasty_chunks as f64 - 1.0;
    assert!(off.abs() < 0.01, "{steady_chunks} against {hasty_chunks}");
}

/// Two workers, and a job with most of the tickets, which only one worker may have. The other jobs share the rest by tickets.
#[test]
fn what_a_job_cannot_use_is_shared_by_the_others() {
    for order in [Order::Stride, Order::Lottery] {
        let mut queue = queue(order, Width::One);
        let jobs = [1000, 20, 10].map(|tickets| submit(&mut queue, 1 << 40, tickets));
        let mut turns = BTreeMap::new();
        let mut busy: Vec<Chunk> = Vec::new();
        for _ in 0..60_000 {
            while busy.len() < 2 {
                busy.push(queue.pick().unwrap());
            }
            let chunk = busy.remove(0);
            *turns.entry(chunk.job).or_insert(0) += 1;
            queue.settle(&chunk, QUANTUM_NS, false);
        }
        for (job, due) in jobs.iter().zip([30_000.0, 20_000.0, 10_000.0]) {
            let off = f64::from(turns[job]) / due - 1.0;
            let allowed = match order {
                Order::Stride => 0.01,
                _ => 0.03, // three standard errors of the 10,000
            };
            assert!(off.abs() < allowed, "{order:?}: {turns:?}");
        }
    }
}

#[test]
fn currencies_are_funded_nested_and_retired() {
    let mut queue = queue(Order::Stride, Width::All);
    let outer = queue.currency(Currency::BASE, 300).unwrap();
    let inner = queue.currency(outer, 50).unwrap();
    let in_currency = |currency| Request {
        currency,
        ..request(1 << 40, TICKETS_DEFAULT)
    };
    let [base, of_outer, of_inner] =
        [Currency::BASE, outer, inner].map(|of| queue.submit(&in_currency(of)).unwrap());
    let shares = |queue: &mut RunQueue| {
        let mut turns = [0; 3];
        for _ in 0..1200 {
            let chunk = queue.pick().unwrap();
            let jobs = [base.0, of_outer.0, of_inner.0];
            turns[jobs.iter().position(|job| *job == chunk.job).unwrap()] += 1;
            queue.settle(&chunk, QUANTUM_NS, false);
        }
        turns
    };
    // 100 : 300, of which 100 : 50.
    assert_eq!(shares(&mut queue), [300, 600, 300]);
    queue.fund(outer, 100).unwrap();
    queue.fund(inner, 200).unwrap();
    assert_eq!(shares(&mut queue), [600, 200, 400]);

    assert_eq!(queue.retire(inner), Err(Refused::InUse));
    assert!(queue.leave(of_inner.1));
    assert_eq!(queue.retire(outer), Err(Refused::InUse));
    queue.retire(inner).unwrap();
    assert!(queue.leave(of_outer.1));
    queue.retire(outer).unwrap();
}

#[test]
fn refused_calls_change_nothing() {
    let mut queue = queue(Order::Stride, Width::All);
    let retired = queue.currency(Currency::BASE, 1).unwrap();
    queue.retire(retired).unwrap();
    let request = Request {
        currency: retired,
        ..request(1, 1)
    };
    assert_eq!(queue.submit(&request), Err(Refused::NoSuchCurrency));
    assert!(queue.is_empty());
    assert_eq!(queue.currency(retired, 1), Err(Refused::NoSuchCurrency));
    assert_eq!(queue.fund(retired, 1), Err(Refused::NoSuchCurrency));
    assert_eq!(queue.retire(retired), Err(Refused::NoSuchCurrency));
    assert_eq!(queue.fund(Currency::BASE, 1), Err(Refused::Base));
    assert_eq!(queue.retire(Currency::BASE), Err(Refused::Base));

    let mut deepest = Currency::BASE;
    let refused = loop {
        match queue.currency(deepest, 1) {
            Ok(made) => deepest = made,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, Refused::TooDeep);
    let request = Request {
        currency: deepest,
        ..request
    };
    let (job, _) = queue.submit(&request).unwrap();
    assert_eq!(turns(&mut queue), [job]);
    let ended = queue.join(job, 1, Currency::BASE);
    assert_eq!(ended, Err(Refused::Ended));
}

#[test]
fn the_number_of_clients_is_limited() {
    let mut queue = queue(Order::Smith, Width::All);
    let mut waiters = Vec::new();
    let refused = loop {
        match queue.submit(&request(1, 1)) {
            Ok((_, waiter)) => waiters.push(waiter),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, Refused::NoSlot);
    let words = refused.to_string();
    assert!(words.starts_with(&waiters.len().to_string()), "{words}");
    assert_eq!(queue.len(), waiters.len());
    assert!(queue.leave(waiters[0]));
    submit(&mut queue, 1, 1);
}

#[test]
#[should_panic(expected = "a quantum of 100000001 ns, must be between 1000 and 100000000")]
fn quanta_are_checked() {
    let _ = RunQueue::new(Order::Fifo, Width::All, 100_000_001, 1);
}

#[test]
fn nothing_is_left_of_clients_that_have_left() {
    for (order, width) in all() {
        let mut queue = queue(order, width);
        // More than there is room for at once.
        for _ in 0..1000 {
            let ids: Vec<_> = (0..300)
                .map(|n| queue.submit(&request(3, n % 5 + 1)).unwrap())
                .collect();
            let chunk = queue.pick().unwrap();
            assert!(ids.iter().all(|(_, waiter)| queue.leave(*waiter)));
            assert_eq!(
                queue.settle(&chunk, QUANTUM_NS, false),
                Settled::EndedBefore
            );
            assert!(queue.is_empty());
        }
    }
}

#[test]
#[should_panic(expected = "0 tickets, must be between 1 and 10000")]
fn tickets_are_checked() {
    submit(&mut queue(Order::Stride, Width::All), 1, 0);
}

//! Transfers: who pays while a thread runs that others wait for.

use tombola_core::{BEST_EFFORT, Bill, Economy, FROZEN, Kind, Rules, limits};

const MS: u64 = 1_000_000;
const ANY: u64 = u64::MAX;

/// One CPU, and threads that compute all the time unless they sleep.
struct Machine {
    economy: Economy,
    now: u64,
}

impl Machine {
    fn new(rules: Rules) -> Self {
        let economy = Economy::new(rules);
        Self { economy, now: 0 }
    }

    fn user(&mut self, tickets: u32) -> u32 {
        let user = self.economy.new_client(Kind::User, BEST_EFFORT, tickets);
        user.expect("there is room")
    }

    /// A sleeping thread.
    fn thread(&mut self, user: u32, tickets: u32) -> u32 {
        let thread = self.economy.new_client(Kind::Thread, user, tickets);
        thread.expect("there is room")
    }

    fn wake(&mut self, thread: u32) {
        self.economy.join_accounts(thread, ANY, None);
        self.economy.wait_accounts(thread, ANY, self.now);
    }

    fn hog(&mut self, user: u32, tickets: u32) -> u32 {
        let hog = self.thread(user, tickets);
        self.wake(hog);
        hog
    }

    fn lend(&mut self, lender: u32, to: u32) {
        assert!(self.economy.lend(lender, to, self.now));
    }

    /// A thread that waits goes to sleep instead.
    fn sleep(&mut self, thread: u32) {
        self.economy.withdraw_accounts(thread);
        self.economy.leave_accounts(thread);
    }

    /// So many slices of a millisecond.
    fn run(&mut self, slices: u64) {
        for seed in 0..slices {
            let payer = self.economy.pick_account(1).expect("somebody waits");
            let thread = self.economy.borrower(payer);
            self.economy.withdraw_accounts(thread);
            let bill = Bill {
                used_ns: MS,
                seed: tombola_core::mix(seed, 7).into(),
                ..Bill::default()
            };
            self.economy.charge(payer, &bill);
            self.now += MS;
            self.economy.wait_accounts(thread, ANY, self.now);
        }
    }

    /// The lender sleeps on.
    fn end_loan(&mut self, lender: u32) {
        self.economy.reclaim(lender);
        self.economy.leave_accounts(lender);
    }

    /// How many slices these have paid for.
    fn paid<const N: usize>(&self, of: [u32; N]) -> [u64; N] {
        of.map(|i| self.economy.client(i).used_ns / MS)
    }
}

/// Two clients of one user wait for a server of another that has next to no tickets, beside a hog of a third.
#[test]
fn shares_of_lenders_add_up_and_each_pays_its_own() {
    let mut m = Machine::new(Rules::stride(MS));
    let [alice, bob, carol] = [3000, 10, 1000].map(|tickets| m.user(tickets));
    let clients = [m.thread(alice, 800), m.thread(alice, 200)];
    let server = m.hog(bob, 1);
    let hog = m.hog(carol, 100);
    clients
        .into_iter()
        .for_each(|client| m.lend(client, server));
    m.run(4010);
    assert_eq!(
        m.paid([clients[0], clients[1], server, hog]),
        [2400, 600, 10, 1000]
    );
    // When the larger one has its answer and sleeps, all of alice's part is the other's.
    m.end_loan(clients[0]);
    m.run(4010);
    assert_eq!(
        m.paid([clients[0], clients[1], server, hog]),
        [2400, 3600, 20, 2000]
    );
    // Without lenders the server has what its own tickets give.
    m.end_loan(clients[1]);
    m.run(1010);
    assert_eq!(
        m.paid([clients[0], clients[1], server, hog]),
        [2400, 3600, 30, 3000]
    );
}

/// The same by lottery: within six standard deviations.
#[test]
fn shares_of_lenders_add_up_in_lotteries() {
    let mut m = Machine::new(Rules::lottery(MS));
    let [alice, carol] = [3000, 1000].map(|tickets| m.user(tickets));
    let client = m.thread(alice, 999);
    let server = m.hog(alice, 1);
    let hog = m.hog(carol, 100);
    m.lend(client, server);
    m.run(40_000);
    let [client, server, hog] = m.paid([client, server, hog]);
    assert!(hog.abs_diff(10_000) < 600, "the hog has {hog}");
    assert!(server.abs_diff(30) < 40, "the server has paid {server}");
    assert_eq!(client + server + hog, 40_000);
}

/// A client waits for a worker that waits for a server.
#[test]
fn a_loan_goes_on_along_a_chain() {
    let mut m = Machine::new(Rules::stride(MS));
    let [alice, carol] = [1000, 1000].map(|tickets| m.user(tickets));
    let client = m.thread(alice, 98);
    let worker = m.hog(alice, 1);
    let server = m.hog(alice, 1);
    let hog = m.hog(carol, 100);
    m.lend(client, worker);
    m.sleep(worker);
    m.lend(worker, server);
    assert_eq!(m.economy.borrower(client), server);
    m.run(2000);
    assert_eq!(m.paid([client, worker, server, hog]), [980, 10, 10, 1000]);
    // The worker has its answer: it runs on the client's account, and the server on its own.
    m.economy.reclaim(worker);
    m.wake(worker);
    m.run(2000);
    assert_eq!(m.paid([client, worker, server, hog]), [1960, 20, 20, 2000]);
    assert_eq!(m.economy.borrower(client), worker);
}

/// A borrower that sleeps, and its lenders with it, get no CPU, and their users' others get all.
#[test]
fn lenders_rest_while_the_borrower_sleeps() {
    let mut m = Machine::new(Rules::stride(MS));
    let alice = m.user(1000);
    let client = m.thread(alice, 800);
    let server = m.hog(alice, 100);
    let hog = m.hog(alice, 100);
    m.lend(client, server);
    m.sleep(server);
    m.run(100);
    assert_eq!(m.paid([client, server, hog]), [0, 0, 100]);
    m.wake(server);
    m.run(1000);
    // They have some credit for the sleep.
    let [of_client, of_server, of_hog] = m.paid([client, server, hog]);
    assert!((800..804).contains(&of_client), "{of_client}");
    assert!((100..103).contains(&of_server), "{of_server}");
    assert_eq!(of_client + of_server + of_hog, 1100);
}

#[test]
fn no_loan_closes_a_circle_or_is_one_too_many() {
    let mut m = Machine::new(Rules::stride(MS));
    let alice = m.user(1000);
    let [a, b, c] = [(); 3].map(|()| m.thread(alice, 100));
    m.lend(a, b);
    m.lend(b, c);
    assert!(!m.economy.lend(c, a, 0));
    assert_eq!(m.economy.accounts(c), [c, b, a]);
    let others: Vec<u32> = (2..limits::LENT_MAX)
        .map(|_| m.thread(alice, 100))
        .collect();
    others.iter().for_each(|&other| m.lend(other, c));
    let one_more = m.thread(alice, 100);
    for to in [a, b, c] {
        assert!(!m.economy.lend(one_more, to, 0));
        assert_eq!(m.economy.borrower(one_more), one_more);
    }
    m.end_loan(a);
    m.lend(one_more, b);
    assert_eq!(m.economy.accounts(c).len(), limits::LENT_MAX as usize + 1);
}

/// A frozen thread does not run for its lenders either, but it does again when it is thawed.
#[test]
fn a_frozen_borrower_stays_frozen() {
    let mut m = Machine::new(Rules::stride(MS));
    let alice = m.user(1000);
    let client = m.thread(alice, 300);
    let server = m.hog(alice, 100);
    let hog = m.hog(alice, 100);
    m.lend(client, server);
    m.economy.move_to(server, FROZEN);
    m.run(100);
    assert_eq!(m.paid([client, server, hog]), [0, 0, 100]);
    assert_eq!(m.economy.client(client).state, 0);
    m.economy.move_to(server, alice);
    m.run(500);
    let [client, server, hog] = m.paid([client, server, hog]);
    assert_eq!(client + server + hog, 600);
    assert!(client.abs_diff(300) < 20, "the client has paid {client}");
}

/// A client that is owed much has lost nothing of it when it has its answer.
#[test]
fn a_lender_keeps_its_position() {
    let mut m = Machine::new(Rules::stride(MS));
    let alice = m.user(1000);
    let client = m.hog(alice, 100);
    let hog = m.hog(alice, 100);
    let server = m.thread(alice, 1);
    m.wake(server);
    m.economy.withdraw_accounts(client);
    assert!(m.economy.lend(client, server, m.now));
    let owed = m.economy.client(hog).pass - ((5 * MS) << limits::PASS_SHIFT) / 100;
    m.economy.set_pass(client, owed);
    m.economy.reclaim(client);
    m.economy.wait_accounts(client, ANY, m.now);
    assert_eq!(m.economy.client(client).pass, owed);
    assert_eq!(m.economy.pick_account(ANY), Some(client));
}

/// A lender goes on running beside the one to which it has lent some of its tickets, and gets them back.
#[test]
fn a_part_of_the_tickets_is_lent_and_given_back() {
    let mut m = Machine::new(Rules::stride(MS));
    let [alice, bob] = [1000, 1000].map(|tickets| m.user(tickets));
    let lender = m.hog(alice, 40);
    let other = m.hog(alice, 50);
    let borrower = m.hog(bob, 10);
    let hog = m.hog(bob, 90);
    m.run(1800);
    let before = m.paid([lender, other, borrower, hog]);
    assert_eq!(before, [400, 500, 90, 810]);

    // Alice's currency pays for what is lent, and bob's for the rest.
    let account = m.economy.split(lender, 30).expect("there is room");
    m.lend(account, borrower);
    m.run(1800);
    assert_eq!(
        m.paid([lender, other, account, borrower, hog]),
        [500, 1000, 300, 180, 1620]
    );

    m.end_loan(account);
    m.economy.merge(account, lender, 10_000);
    assert_eq!(m.economy.client(lender).tickets, 40);
    m.run(1800);
    assert_eq!(
        m.paid([lender, other, borrower, hog]),
        [900, 1500, 270, 2430]
    );
}

/// A client's base value is its part of its currency's; one that sleeps, as if it were active alone beside.
#[test]
fn base_values_are_products_of_the_parts_of_each_currency() {
    let mut machine = Machine::new(Rules::stride(10 * MS));
    let (alice, bob) = (machine.user(1000), machine.user(3000));
    let hogs = [100, 100, 200].map(|tickets| machine.hog(alice, tickets));
    let lone = machine.hog(bob, 1);
    let sleeper = machine.thread(bob, 3);
    let values = |machine: &mut Machine, of: &[u32]| -> Vec<u64> {
        let one = |i: &u32| machine.economy.base_value(*i) * 1600 / limits::VALUE_ONE;
        of.iter().map(one).collect()
    };
    assert_eq!(values(&mut machine, &hogs), [100, 100, 200]);
    assert_eq!(values(&mut machine, &[lone, sleeper]), [1200, 900]);
    machine.sleep(lone);
    assert_eq!(values(&mut machine, &hogs), [400, 400, 800]);
    assert_eq!(values(&mut machine, &[lone]), [1200]);
    let frozen = machine.hog(FROZEN, 1);
    assert_eq!(values(&mut machine, &[frozen]), [0]);
}

/// Who gets tickets back gets no more than it may have, and has to pay what was used ahead of time.
#[test]
fn what_is_given_back_is_limited_and_brings_its_debt() {
    let mut m = Machine::new(Rules::stride(MS));
    let alice = m.user(1000);
    let lender = m.hog(alice, 100);
    let other = m.hog(alice, 100);
    let borrower = m.hog(alice, 1);
    let account = m.economy.split(lender, 60).expect("there is room");
    m.lend(account, borrower);
    let debt = m.economy.client(alice).vnow + ((20 * MS) << limits::PASS_SHIFT) / 60;
    m.economy.set_pass(account, debt);
    m.end_loan(account);
    m.economy.set_tickets(lender, 70);
    m.economy.merge(account, lender, 100);
    assert_eq!(m.economy.client(lender).tickets, 100);
    m.run(201);
    let [lender, other, _] = m.paid([lender, other, borrower]);
    // It is 20 ms ahead, and the other one gets half of that.
    assert!(
        lender.abs_diff(90) <= 1 && other.abs_diff(110) <= 1,
        "{lender} {other}"
    );
}

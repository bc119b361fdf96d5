//! Computes the CPU time that each client of the tree is entitled to, given the runnable threads.
//!
//! A thread can use at most one CPU, a currency at most what its active clients can use, all clients together at most the
//! machine's CPUs. What a client cannot use, the others share in proportion to their tickets ("water-filling"):
//!
//! ```text
//!   2 CPUs, three users with one thread each, tickets 3 : 1 : 1
//!     in proportion     1.2  0.4  0.4     but one thread cannot run on more than one CPU:
//!     water-filled      1.0  0.5  0.5
//! ```

/// A client, as far as this computation needs it. Parents come before their children.
#[derive(Clone, Debug)]
pub struct Client {
    /// The index of the currency that it is a client of; None for a root.
    pub parent: Option<usize>,
    pub tickets: f64,
    /// The CPUs that runnable threads can use here: 1 for a runnable thread, 0 for other threads and for currencies.
    pub wants: f64,
}

/// The CPUs for each client, in the order given. Takes O(n log n).
pub fn water_fill(clients: &[Client], cpus: f64) -> Vec<f64> {
    let usable = usable(clients, cpus);
    let children = children(clients);
    let mut cpus_of = vec![0.0; clients.len()];
    for (place, client) in clients.iter().enumerate() {
        if client.parent.is_none() {
            cpus_of[place] = usable[place];
        }
        share(
            cpus_of[place],
            &children[place],
            clients,
            &usable,
            &mut cpus_of,
        );
    }
    cpus_of
}

// The most CPUs that each client can use: what its clients can use, at most the machine's.
fn usable(clients: &[Client], cpus: f64) -> Vec<f64> {
    let mut usable: Vec<f64> = clients.iter().map(|client| client.wants).collect();
    for (place, client) in clients.iter().enumerate().rev() {
        usable[place] = usable[place].min(cpus);
        if let Some(parent) = client.parent {
            usable[parent] += usable[place];
        }
    }
    usable
}

fn children(clients: &[Client]) -> Vec<Vec<usize>> {
    let mut children = vec![Vec::new(); clients.len()];
    for (place, client) in clients.iter().enumerate() {
        if let Some(parent) = client.parent {
            children[parent].push(place);
        }
    }
    children
}

// Serves the client that can use the fewest CPUs per ticket first; the others share what it leaves.
fn share(cpus: f64, children: &[usize], clients: &[Client], usable: &[f64], cpus_of: &mut [f64]) {
    let mut order: Vec<usize> = children
        .iter()
        .copied()
        .filter(|child| usable[*child] > 0.0)
        .collect();
    let level = |child: usize| usable[child] / clients[child].tickets;
    order.sort_by(|a, b| level(*a).total_cmp(&level(*b)));
    let mut tickets: f64 = order.iter().map(|child| clients[*child].tickets).sum();
    let mut left = cpus;
    for child in order {
        let in_proportion = left * clients[child].tickets / tickets;
        cpus_of[child] = in_proportion.min(usable[child]);
        left -= cpus_of[child];
        tickets -= clients[child].tickets;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Client = Client {
        parent: None,
        tickets: 1.0,
        wants: 0.0,
    };

    fn currency(parent: usize, tickets: f64) -> Client {
        Client {
            parent: Some(parent),
            tickets,
            wants: 0.0,
        }
    }

    fn thread(parent: usize, tickets: f64) -> Client {
        Client {
            wants: 1.0,
            ..currency(parent, tickets)
        }
    }

    fn assert_near(found: &[f64], wanted: &[f64]) {
        assert_eq!(found.len(), wanted.len());
        for (found, wanted) in found.iter().zip(wanted) {
            assert!((found - wanted).abs() < 1e-9, "{found} for {wanted}");
        }
    }

    #[test]
    fn the_others_share_what_a_client_cannot_use() {
        let clients = [ROOT, thread(0, 3.0), thread(0, 1.0), thread(0, 1.0)];
        assert_near(&water_fill(&clients, 2.0), &[2.0, 1.0, 0.5, 0.5]);
    }

    #[test]
    fn a_user_has_its_share_however_many_threads_it_runs() {
        let mut clients = vec![
            ROOT,
            currency(0, 1000.0),
            currency(0, 1000.0),
            thread(1, 100.0),
        ];
        clients.extend((0..60).map(|_| thread(2, 100.0)));
        let cpus = water_fill(&clients, 1.0);
        assert_near(&cpus[..4], &[1.0, 0.5, 0.5, 0.5]);
        assert_near(&cpus[4..5], &[0.5 / 60.0]);
    }

    #[test]
    fn the_tree_of_the_economys_header() {
        // alice 1000 {make 100, server 300 {100, 100}}, bob 1000 {hog 100}
        let clients = [
            ROOT,
            currency(0, 1000.0),
            currency(0, 1000.0),
            thread(1, 100.0),
            currency(1, 300.0),
            thread(4, 100.0),
            thread(4, 100.0),
            thread(2, 100.0),
        ];
        let wanted = [1.0, 0.5, 0.5, 0.125, 0.375, 0.1875, 0.1875, 0.5];
        assert_near(&water_fill(&clients, 1.0), &wanted);
    }

    #[test]
    fn a_user_with_one_thread_of_four_cpus_has_one() {
        let mut clients = vec![
            ROOT,
            currency(0, 10_000.0),
            currency(0, 100.0),
            thread(1, 1.0),
        ];
        clients.extend((0..4).map(|_| thread(2, 100.0)));
        let cpus = water_fill(&clients, 4.0);
        assert_near(&cpus[1..5], &[1.0, 3.0, 1.0, 0.75]);
    }

    #[test]
    fn a_sleeping_thread_counts_for_nothing() {
        let mut asleep = thread(0, 9.0);
        asleep.wants = 0.0;
        let clients = [ROOT, asleep, thread(0, 1.0)];
        assert_near(&water_fill(&clients, 8.0), &[1.0, 0.0, 1.0]);
        assert_near(&water_fill(&[ROOT], 8.0), &[0.0]);
    }
}

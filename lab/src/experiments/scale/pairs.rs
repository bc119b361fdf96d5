//! Two simulations at a time.

use anyhow::Result;
use std::sync::Mutex;
use std::thread;

/// Does `work` with each item, two at a time, the first ones first. The results are in the order of the items.
pub fn in_pairs<I: Sync, R: Send>(
    items: &[I],
    work: impl Fn(&I) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = Mutex::new(items.iter().enumerate());
    let take = || next.lock().expect("no thread panics here").next();
    let some = || -> Result<Vec<(usize, R)>> {
        let mut done = Vec::new();
        while let Some((number, item)) = take() {
            done.push((number, work(item)?));
        }
        Ok(done)
    };
    let (one, other) = thread::scope(|scope| {
        let other = scope.spawn(some);
        (some(), other.join().expect("simulations do not panic"))
    });
    let mut all = one?;
    all.extend(other?);
    all.sort_by_key(|(number, _)| *number);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(in_pairs(&items, |&item| Ok(item)).unwrap(), items);
        let refuse = |&item: &u32| match item {
            50 => anyhow::bail!("fifty"),
            _ => Ok(item),
        };
        assert_eq!(in_pairs(&items, refuse).unwrap_err().to_string(), "fifty");
    }
}

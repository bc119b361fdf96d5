use super::fold::{HAS_FIXED_TERM, IV, ROUNDS, VARIES, majority, sum_a};
use super::target::a_of_rounds_56_to_59;
use super::*;
use sha2::{Digest, Sha256};
use std::panic::catch_unwind;

/// Two numbers with the same a after round 56, near enough for one vector. The first such pair; to find it took 364
/// million hashes.
const TWINS: (u64, u64) = (363_605_531, 363_605_534);

fn digest(number: u64) -> [u8; 32] {
    Sha256::digest(number.to_le_bytes()).into()
}

fn target(number: u64) -> Target {
    Target::new(digest(number))
}

fn with_word_plus(mut digest: [u8; 32], word: usize, more: u32) -> [u8; 32] {
    let bytes = &mut digest[4 * word..4 * word + 4];
    let sum = u32::from_be_bytes(bytes.try_into().unwrap()).wrapping_add(more);
    bytes.copy_from_slice(&sum.to_be_bytes());
    digest
}

/// Those that this machine has.
fn kernels() -> impl Iterator<Item = Kernel> {
    Kernel::ALL.into_iter().filter(|kernel| {
        if !kernel.is_available() {
            println!("skipped: this machine has no {kernel}");
        }
        kernel.is_available()
    })
}

#[track_caller]
fn expect(target: &Target, range: Range<u64>, number: Option<u64>) {
    for kernel in kernels() {
        let found = kernel.search(target, range.clone());
        assert_eq!(found, number, "{kernel} in {range:?}");
    }
}

#[test]
fn a_digest_that_is_known_from_elsewhere() {
    let hex = "af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc";
    let zero = std::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap());
    expect(&Target::new(zero), 0..1, Some(0));
    expect(&Target::new(zero), 0..5000, Some(0));
    expect(&Target::new(zero), 1..5000, None);
}

#[test]
fn the_first_and_the_last_number_are_in_the_range_and_their_neighbours_are_not() {
    for start in [
        1,
        77,
        1 << 31,
        (7 << 32) - 500,
        0xfedc_ba98_7654_3210,
        u64::MAX - 1000,
    ] {
        for length in [1, 2, 31, 32, 33, 64, 999, 1000] {
            let range = start..start + length;
            expect(&target(range.start), range.clone(), Some(range.start));
            expect(&target(range.end - 1), range.clone(), Some(range.end - 1));
            expect(&target(range.start - 1), range.clone(), None);
            expect(&target(range.end), range, None);
        }
    }
}

#[test]
fn every_place_of_every_short_range() {
    for length in 0..70 {
        for start in [0, 0x1234_5678_9abc_def1, (9 << 32) - 35, u64::MAX - length] {
            for place in 0..length {
                expect(
                    &target(start + place),
                    start..start + length,
                    Some(start + place),
                );
            }
            expect(&target(start + length), start..start + length, None);
        }
    }
}

/// A search would still find what a kernel names too early: it takes it for a false alarm.
#[test]
fn kernels_name_the_very_number() {
    let first = 0x0070_0000_0000 - 200;
    for place in 0..100 {
        let target = target(first + place);
        for kernel in kernels() {
            let candidate = |range| kernel.candidate(&target, Block::first_of(&range));
            assert_eq!(candidate(first..first + 100), Some(place), "{kernel}");
            assert_eq!(candidate(first..first + place + 1), Some(place), "{kernel}");
            assert_eq!(candidate(first..first + place), None, "{kernel}");
        }
    }
}

#[test]
fn a_range_crosses_two_to_the_32() {
    for high in [1_u64, 2, 0x8000_0000, 0xffff_ffff] {
        let middle = high << 32;
        for number in [middle - 100, middle - 1, middle, middle + 1, middle + 99] {
            expect(&target(number), middle - 100..middle + 100, Some(number));
        }
        // What a kernel would find that does not count the high word up, or down.
        for number in [middle - (1 << 32), middle + u64::from(u32::MAX)] {
            expect(&target(number), middle - 100..middle + 100, None);
        }
    }
}

/// The low word of lanes past the end starts again at 0.
#[test]
fn lanes_past_two_to_the_32_count_for_nothing() {
    let middle = 6 << 32;
    for number in middle - (1 << 32)..middle - (1 << 32) + 31 {
        expect(&target(number), middle - 1..middle, None);
        expect(&target(number), middle - 33..middle, None);
    }
}

#[test]
fn empty_and_reversed_ranges_have_no_number() {
    for number in [0, 5, u64::MAX] {
        expect(&target(number), number..number, None);
        expect(&target(number), number..0, None);
        expect(&target(number), u64::MAX..number, None);
    }
}

#[test]
fn random_ranges() {
    let mut numbers = fastrand::Rng::with_seed(1);
    let mut random = |below: u64| numbers.u64(..below);
    for _ in 0..600 {
        let length = 1 + random(3000);
        let start = match random(3) {
            0 => random(u64::MAX - length),
            1 => ((1 + random(u64::from(u32::MAX))) << 32) - random(length + 1),
            _ => random(1 << 32),
        };
        let number = start.saturating_sub(100).wrapping_add(random(length + 200));
        let range = start..start.saturating_add(length);
        expect(
            &target(number),
            range.clone(),
            range.contains(&number).then_some(number),
        );
    }
}

#[test]
fn a_digest_that_differs_in_one_word_is_not_found() {
    let number = 0x0123_4567_89ab_cdef;
    for word in 0..8 {
        for more in [1, 1 << 31] {
            let other = Target::new(with_word_plus(digest(number), word, more));
            expect(&other, number - 50..number + 50, None);
        }
    }
}

/// The digest of another message, if there is one, with the same a after rounds 56 to 59, and after rounds 60 to 63 the
/// given.
fn lookalike(target: &Target, given: [u32; 4]) -> [u8; 32] {
    let mut a = [0; 8];
    a[..4].copy_from_slice(&a_of_rounds_56_to_59(target.last));
    a[4..].copy_from_slice(&given);
    let e = |i: usize| {
        let rest = sum_a(a[i - 1]).wrapping_add(majority(a[i - 1], a[i - 2], a[i - 3]));
        a[i - 4].wrapping_add(a[i]).wrapping_sub(rest)
    };
    let last = [a[7], a[6], a[5], a[4], e(7), e(6), e(5), e(4)];
    let mut digest = [0; 32];
    for ((bytes, word), start) in digest.chunks_exact_mut(4).zip(last).zip(IV) {
        bytes.copy_from_slice(&word.wrapping_add(start).to_be_bytes());
    }
    digest
}

/// `number` raises an alarm in every kernel that compares early, and is not found.
#[track_caller]
fn expect_false_alarm(number: u64, digest: [u8; 32]) {
    let target = Target::new(digest);
    let range = number - 40..number + 40;
    for kernel in kernels().filter(|kernel| *kernel != Kernel::Portable) {
        let candidate = kernel.candidate(&target, Block::first_of(&range));
        assert_eq!(candidate, Some(40), "{kernel} raises no alarm at {number}");
    }
    expect(&target, range, None);
}

#[test]
fn false_alarms_are_told_from_matches() {
    for number in [40, 1 << 20, 0xdead_beef_0bad_cafe] {
        let target = target(number);
        let given = [
            target.last[3],
            target.last[2],
            target.last[1],
            target.last[0],
        ];
        assert_eq!(lookalike(&target, given), digest(number));
        for i in 0..4 {
            let mut other = given;
            other[i] ^= 1 << 17;
            expect_false_alarm(number, lookalike(&target, other));
        }
        expect_false_alarm(number, lookalike(&target, [1, 2, 3, 4]));
        // a and e after round 63 only: words 1 to 3 and 5 to 7 are as they should be.
        let once = with_word_plus(digest(number), 0, 1);
        expect_false_alarm(number, with_word_plus(once, 4, 1));
    }
}

#[test]
fn a_search_goes_on_after_a_false_alarm() {
    let (first, second) = TWINS;
    assert_eq!(target(first).early, target(second).early);
    for before in 0..70 {
        for after in [0, 1, 70] {
            let range = first - before..second + 1 + after;
            expect(&target(first), range.clone(), Some(first));
            expect(&target(second), range, Some(second));
        }
        // The false alarm is in the range, the match is not.
        expect(&target(second), first - before..second, None);
        expect(&target(first), first + 1..second + 1 + before, None);
    }
}

#[test]
fn the_schedule_is_folded_as_far_as_can_be() {
    let fixed: Vec<usize> = (0..ROUNDS).filter(|t| !VARIES[*t]).collect();
    let expected: Vec<usize> = (1..16).chain([17, 19, 21]).collect();
    assert_eq!(fixed, expected);
    let partly: Vec<usize> = (0..ROUNDS).filter(|t| HAS_FIXED_TERM[*t]).collect();
    assert_eq!(
        partly,
        [16, 18, 22, 23, 24, 26, 28, 30, 31, 32, 33, 34, 35, 36, 37]
    );
}

#[test]
fn names_are_read_as_they_are_written() {
    for kernel in Kernel::ALL {
        assert_eq!(kernel.to_string().parse(), Ok(kernel));
    }
    assert_eq!(
        Kernel::ALL.map(Kernel::name),
        ["portable", "sha-ni", "avx2", "avx512"]
    );
    let error = "AVX2".parse::<Kernel>().unwrap_err().to_string();
    assert_eq!(
        error,
        "no kernel is called \"AVX2\"; there are portable, sha-ni, avx2, avx512"
    );
}

#[test]
fn the_best_kernel_is_available_and_others_say_that_they_are_not() {
    assert!(Kernel::best().is_available());
    assert!(Kernel::Portable.is_available());
    for kernel in Kernel::ALL
        .into_iter()
        .filter(|kernel| !kernel.is_available())
    {
        let panic = catch_unwind(|| kernel.search(&target(0), 0..1)).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(
            message.contains("lacks the instructions") && message.contains(kernel.name()),
            "{message}"
        );
    }
}

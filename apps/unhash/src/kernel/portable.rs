//! The `sha2` crate's compression of a block, all 64 rounds. It uses the SHA instructions of several architectures.

use super::block::Block;
use super::fold::IV;
use sha2::block_api::compress256;

/// The message of a number, padded to a block: a bit 1, and the length of 64 bits at the end.
fn padded(number: u64) -> [u8; 64] {
    let mut block = [0; 64];
    block[..8].copy_from_slice(&number.to_le_bytes());
    block[8] = 0x80;
    block[63] = 64;
    block
}

fn last_of_block(block: [u8; 64]) -> [u32; 8] {
    let mut state = IV;
    compress256(&mut state, &[block]);
    std::array::from_fn(|i| state[i].wrapping_sub(IV[i]))
}

/// The variables after round 63.
pub(super) fn last_of(number: u64) -> [u32; 8] {
    last_of_block(padded(number))
}

pub(super) fn candidate(last: [u32; 8], block: Block) -> Option<u64> {
    let first = u64::from(block.high) << 32 | u64::from(block.low);
    (0..block.count).find(|offset| last_of(first + offset) == last)
}

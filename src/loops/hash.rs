//! A short number for bytes; opens no file. Not for security: somebody who wants the same one for other bytes can have them.

/// FNV-1a of 64 bits, of no bytes.
pub const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a of the bytes of `hash` and these behind them.
pub fn hashed(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}

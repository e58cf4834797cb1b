//! Hash of bytes, and a random sequence from a seed; opens no file. Not cryptographic: collisions are easy to
//! construct.

/// FNV-1a of 64 bits, of no bytes.
pub const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// Increment of SplitMix64: <https://prng.di.unimi.it/splitmix64.c>.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// FNV-1a of the bytes of `hash` followed by these.
pub fn hashed(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}

/// The number that SplitMix64 gives where it has counted to `sum`.
pub fn mixed(sum: u64) -> u64 {
    let mixed = (sum ^ (sum >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Fills `numbers` with those of SplitMix64, evenly from `center - spread` to `center + spread`.
pub fn scatter(numbers: &mut [f32], seed: u64, center: f64, spread: f64) {
    let mut sum = seed;
    for number in numbers {
        sum = sum.wrapping_add(STEP);
        // The upper 24 bits, as many as f32 tells apart.
        let even = (mixed(sum) >> 40) as f64 / f64::from(1 << 23) - 1.0;
        *number = (center + spread * even) as f32;
    }
}

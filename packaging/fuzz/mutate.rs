//! How a file is damaged: bits, numbers, lengths, words of its format, pieces left out, doubled or taken from another file.

use crate::random::Random;

/// No damaged file is longer: faults show in short ones.
const MAX_BYTES: usize = 64 << 10;
/// Numbers at which readers go wrong.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
];

/// Damages `bytes` in one to eight ways.
pub fn damage(bytes: &mut Vec<u8>, other: &[u8], words: &[&str], random: &mut Random) {
    for _ in 0..=random.below(8) {
        once(bytes, other, words, random);
        bytes.truncate(MAX_BYTES);
    }
}

fn once(bytes: &mut Vec<u8>, other: &[u8], words: &[&str], random: &mut Random) {
    let at = random.below(bytes.len());
    match random.below(12) {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.number() as u8;
            }
        }
        2 | 3 => put_number(bytes, at, random),
        4 => bytes.truncate(at),
        5 => {
            let end = at + random.below(bytes.len() - at + 1);
            bytes.drain(at..end);
        }
        6 => {
            let end = at + random.below((bytes.len() - at).min(256) + 1);
            let piece = bytes[at..end].repeat(1 + random.below(16));
            insert(bytes, at, &piece);
        }
        7 | 8 => {
            let start = random.below(other.len());
            let end = start + random.below((other.len() - start).min(1024) + 1);
            insert(bytes, at, &other[start..end]);
        }
        9 => {
            // The rest of another file behind the beginning of this one.
            bytes.truncate(at);
            bytes.extend_from_slice(&other[at.min(other.len())..]);
        }
        10 => {
            if let Some(word) = words.get(random.below(words.len())) {
                insert(bytes, at, word.as_bytes());
            }
        }
        _ => digits(bytes, at, random),
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    drop(bytes.splice(at..at, piece.iter().copied()));
}

/// One of the numbers, in one, two, four or eight bytes of either order, over what is there.
fn put_number(bytes: &mut [u8], at: usize, random: &mut Random) {
    let number = match random.below(4) {
        0 => bytes.len() as u64,
        1 => random.number() >> random.below(64),
        _ => random.one_of(&NUMBERS),
    };
    let width = 1 << random.below(4);
    let mut written = number.to_le_bytes()[..width].to_vec();
    if random.below(2) == 0 {
        written.reverse();
    }
    for (byte, new) in bytes.iter_mut().skip(at).zip(written) {
        *byte = new;
    }
}

/// Another number in the place of one that is written in digits.
fn digits(bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let Some(start) = bytes[at..].iter().position(is_digit).map(|from| at + from) else {
        return;
    };
    let length = bytes[start..].iter().take_while(|byte| is_digit(byte));
    let end = start + length.count();
    let new = match random.below(8) {
        0 => "-1".to_owned(),
        1 => "1e308".to_owned(),
        2 => "0".to_owned(),
        _ => random.one_of(&NUMBERS).to_string(),
    };
    drop(bytes.splice(start..end, new.into_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_damages_in_the_same_way() {
        let damaged = |seed| {
            let mut random = Random::new(seed);
            let mut bytes = b"a file of 17 bytes or so".to_vec();
            damage(&mut bytes, b"another", &["word"], &mut random);
            bytes
        };
        for seed in 0..200 {
            assert_eq!(damaged(seed), damaged(seed));
        }
        let all: std::collections::BTreeSet<_> = (0..200).map(damaged).collect();
        assert!(all.len() > 150, "{} of 200 differ", all.len());
    }

    #[test]
    fn nothing_and_little_can_be_damaged_too() {
        let mut random = Random::new(7);
        for start in [&b""[..], b"1"] {
            for _ in 0..2000 {
                let mut bytes = start.to_vec();
                damage(&mut bytes, b"", &[], &mut random);
            }
        }
    }
}

//! Hostile safetensors files: the header alone, and the identity card of the whole.
//!
//! The first byte of an input chooses: an even one is followed by a file as it is, an odd one by the number of data
//! bytes (eight bytes, below 1 TiB) and the text of a header, whose length is then right.
#![no_main]

mod harness;

use libfuzzer_sys::fuzz_target;
use safelight_core::catalog::Catalog;
use safelight_core::formats::weights::header::Header;

const MAX_DATA: u64 = 1 << 40;

fuzz_target!(|input: &[u8]| {
    let Some((mode, rest)) = input.split_first() else {
        return;
    };
    harness::scratch("x.safetensors", |scratch| {
        match rest.split_first_chunk::<8>() {
            Some((data, header)) if mode % 2 == 1 => {
                scratch.write_safetensors(header, u64::from_le_bytes(*data) % MAX_DATA);
            }
            _ => scratch.write(rest, rest.len() as u64),
        }
        harness::bounded(input.len(), || {
            let Ok((_, header)) = Header::open(&scratch.path) else {
                return;
            };
            let mut bytes = 0_u64;
            for (name, info) in header.tensors() {
                assert_eq!(header.info(name), Some(info));
                let end = info.start.checked_add(info.bytes).expect("a tensor ends");
                assert!(end <= header.file_bytes(), "'{name}' lies within the file");
                bytes += info.bytes;
            }
            assert_eq!(bytes, header.data_bytes());
            drop(header.notes());
        });
        harness::bounded(input.len(), || {
            drop(Catalog::default().card(&scratch.path));
        });
    });
});

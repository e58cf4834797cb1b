//! Hostile GGUF files: the header with its lists, and the identity card of the whole.
//!
//! The first two bytes of an input say how many times 16 zeros stand behind the rest, which is a file.
#![no_main]

mod harness;

use libfuzzer_sys::fuzz_target;
use safelight_core::catalog::Catalog;
use safelight_core::formats::weights::gguf::{Element, Value};
use safelight_core::formats::weights::header::Header;

fuzz_target!(|input: &[u8]| {
    let Some((zeros, rest)) = input.split_first_chunk::<2>() else {
        return;
    };
    let file_bytes = rest.len() as u64 + (u64::from(u16::from_le_bytes(*zeros)) << 4);
    harness::scratch("x.gguf", |scratch| {
        scratch.write(rest, file_bytes);
        let allowed = file_bytes as usize;
        harness::bounded(allowed, || {
            let Ok((file, header)) = Header::open(&scratch.path) else {
                return;
            };
            for (name, info) in header.tensors() {
                assert_eq!(header.info(name), Some(info));
                let end = info.start.checked_add(info.bytes).expect("a tensor ends");
                let is_within = info.bytes == 0 || end <= header.file_bytes();
                assert!(is_within, "'{name}' lies within the file");
            }
            drop(header.notes());
            let Some(header) = header.as_gguf() else {
                return;
            };
            for key in ["tokenizer.ggml.tokens", "tokenizer.ggml.scores", "a"] {
                let Some(Value::List(list)) = header.value(key) else {
                    continue;
                };
                if list.element == Element::Text {
                    let mut count = 0;
                    let read = header.each_text(&file, *list, |_| count += 1);
                    assert!(read.is_err() || count == list.count);
                } else {
                    drop(header.list_bytes(&file, *list));
                }
            }
        });
        harness::bounded(allowed, || {
            drop(Catalog::default().card(&scratch.path));
        });
    });
});

//! Hostile LoRAs against hostile models: keys, shapes and notes.
//!
//! An input is text. Each line is `key<TAB>size,size,…` for a tensor of bytes, or `#name<TAB>text` for a note; a line
//! `---` parts the LoRA from the model that it is tried on. Sizes may be anything as long as few bytes come of them.
#![no_main]

mod harness;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use harness::Scratch;
use libfuzzer_sys::fuzz_target;
use safelight_core::catalog::Catalog;
use safelight_core::lora::{CLIP, LoraCard, LoraFile, Origin, Plan, T5, Table, fitting_plan};
use safelight_core::families::{Family, flux, framepack, wan};

/// Of one tensor.
const MAX_BYTES: u64 = 1 << 30;

type Shapes = BTreeMap<String, Vec<u64>>;

/// Tensors and notes of one half of an input.
fn parse(half: &str) -> (Shapes, Vec<(&str, &str)>) {
    let (mut shapes, mut notes) = (Shapes::new(), Vec::new());
    for line in half.lines() {
        let (key, value) = line.split_once('\t').unwrap_or((line, ""));
        if let Some(name) = key.strip_prefix('#') {
            notes.push((name, value));
            continue;
        }
        let sizes = value.split(',').filter_map(|size| size.parse().ok());
        let sizes: Vec<u64> = sizes.take(6).collect();
        // As headers have it: the sizes can be multiplied in any order, whether or not one is 0.
        let product = |least| {
            let sizes = sizes.iter().map(|&size: &u64| size.max(least));
            sizes.fold(Some(8), |all, size| u64::checked_mul(all?, size))
        };
        let is_small = product(0).is_some_and(|bits| bits / 8 <= MAX_BYTES);
        if is_small && product(1).is_some() {
            shapes.insert(key.to_owned(), sizes);
        }
    }
    (shapes, notes)
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => write!(out, "\\u{:04x}", c as u32).expect("a text takes text"),
            c => out.push(c),
        }
    }
    out + "\""
}

fn write(scratch: &Scratch, shapes: &Shapes, notes: &[(&str, &str)]) {
    let mut header = String::from("{\"__metadata__\":{");
    let notes: BTreeMap<&str, &str> = notes.iter().copied().collect();
    let notes: Vec<String> = notes
        .iter()
        .map(|(name, text)| format!("{}:{}", quoted(name), quoted(text)))
        .collect();
    header += &notes.join(",");
    header.push('}');
    let mut start = 0;
    for (key, sizes) in shapes {
        let end = start + sizes.iter().product::<u64>();
        write!(
            header,
            ",{}:{{\"dtype\":\"U8\",\"shape\":{sizes:?},\"data_offsets\":[{start},{end}]}}",
            quoted(key)
        )
        .expect("a text takes text");
        start = end;
    }
    header.push('}');
    scratch.write_safetensors(header.as_bytes(), start);
}

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let (lora, model) = text.split_once("\n---\n").unwrap_or((&text, ""));
    let (shapes, notes) = parse(lora);
    let (model, _) = parse(model);
    harness::scratch("adapter.safetensors", |scratch| {
        write(scratch, &shapes, &notes);
        harness::bounded(input.len(), || {
            drop(Catalog::default().card(&scratch.path));
            let Ok(file) = LoraFile::read(&scratch.path) else {
                return;
            };
            for layer in file.layers.keys() {
                let factor = file.factor(layer);
                assert!(!factor.is_nan(), "the factor of '{layer}' is a number");
            }
            drop((LoraCard::of(&file), Origin::of(&file)));
            let shape_of = |name: &str| model.get(name).cloned();
            let networks = [
                wan::lora::NETWORK,
                flux::lora::network(false),
                flux::lora::network(true),
                framepack::lora::network(false),
                framepack::lora::network(true),
                CLIP,
                T5,
            ];
            let tables = networks.map(|network| Table::new(network, "", &shape_of));
            for table in &tables {
                let plan = Plan::new(&file, std::slice::from_ref(table));
                assert!(plan.coverage.applied <= file.num_keys());
                plan.of_network(table.network).for_each(drop);
            }
            for family in Family::all() {
                if let Ok(plan) = fitting_plan(&file, family, &tables) {
                    assert!(!plan.coverage.to_string().is_empty());
                }
            }
        });
    });
});

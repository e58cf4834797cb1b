//! A user's hostile `models.toml`: it is read beside the shipped one, and what is wrong with it has a place.
#![no_main]

mod harness;

use libfuzzer_sys::fuzz_target;
use safelight_core::catalog::known_models;
use safelight_core::model::CatalogError;

fuzz_target!(|input: &[u8]| {
    harness::scratch("models.toml", |scratch| {
        scratch.write(input, input.len() as u64);
        let (models, problem) = harness::bounded(input.len(), || known_models(&scratch.path));
        assert!(!models.is_empty(), "what ships is always known");
        match problem {
            Some(CatalogError::Catalogue { line, column, .. }) => {
                let text = String::from_utf8_lossy(input);
                let lines = text.split('\n').count();
                assert!(line >= 1 && line <= lines, "line {line} of {lines}");
                assert!(column >= 1 && column <= input.len() + 1);
            }
            Some(other) => assert!(!other.to_string().is_empty()),
            None => {}
        }
    });
});

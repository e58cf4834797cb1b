//! Fuzz target for every reader of `tests/hostile`; `fuzz.sh` builds and runs it.
#![no_main]

#[path = "../../tests/hostile/cost.rs"]
mod cost;
#[path = "../../tests/hostile/readers/mod.rs"]
mod readers;
#[path = "../../tests/hostile/scratch.rs"]
mod scratch;

use libfuzzer_sys::fuzz_target;
use readers::{READERS, Reader};
use scratch::Scratch;

thread_local! {
    static TARGET: (&'static Reader, Scratch) = {
        let name = std::env::var("SAFELIGHT_FUZZ_READER").expect("fuzz.sh sets it");
        let reader = READERS.iter().find(|reader| reader.name == name);
        (reader.expect("a reader of tests/hostile"), Scratch::new().expect("a temporary folder"))
    };
}

fuzz_target!(|bytes: &[u8]| {
    TARGET.with(|(reader, scratch)| {
        let pixels = (reader.read)(scratch, bytes).expect("the temporary folder is writable");
        if let Some(objection) = scratch.take_cost().objection(pixels) {
            panic!("{objection}");
        }
    });
});

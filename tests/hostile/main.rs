//! Damaged and hostile files: every reader accepts or refuses them without a panic and within its limits.
//!
//! Small files are in `tests/fixtures/hostile`, one folder a reader; large ones are generated in [`bombs`].

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod bombs;
mod cost;
mod readers;
mod scratch;

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use cost::Cost;
use readers::{READERS, Reader};
use scratch::Scratch;

const MAX_FILE_BYTES: u64 = 24 << 10;
const MAX_CORPUS_BYTES: u64 = 700 << 10;

fn corpus_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/hostile")
        .join(name)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn reader_named(name: &str) -> &'static Reader {
    READERS.iter().find(|known| known.name == name).unwrap()
}

/// Pixels that the file declares, or the panic's message; and the cost.
type Read = (Result<u64, String>, Cost);

fn read_with(reader: &Reader, scratch: &Scratch, bytes: &[u8]) -> Read {
    let read = catch_unwind(AssertUnwindSafe(|| (reader.read)(scratch, bytes).unwrap()));
    let message = |panic: Box<dyn std::any::Any + Send>| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        format!("panic: {}", text.unwrap_or_default())
    };
    (read.map_err(message), scratch.take_cost())
}

/// Panic or cost above the limits for a file of `pixels`.
fn fault_of_read((read, cost): &Read, pixels: u64) -> Option<String> {
    let panic = read.as_ref().err().cloned();
    panic.or_else(|| cost.objection(pixels))
}

fn fault(reader: &Reader, scratch: &Scratch, bytes: &[u8]) -> Option<String> {
    let read = read_with(reader, scratch, bytes);
    let pixels = read.0.as_ref().copied().unwrap_or(0);
    fault_of_read(&read, pixels)
}

#[test]
fn every_reader_has_at_least_four_small_files() {
    let mut folders = files(&corpus_file(""));
    folders.retain(|path| path.is_dir());
    let names = READERS.iter().map(|reader| corpus_file(reader.name));
    let names: BTreeSet<PathBuf> = names.collect();
    assert!(folders.iter().eq(&names), "{folders:?} {names:?}");
    let mut total = 0;
    for folder in folders {
        let paths = files(&folder);
        assert!(paths.len() >= 4, "{folder:?} has {} files", paths.len());
        for path in paths {
            let size = fs::metadata(&path).unwrap().len();
            assert!(size <= MAX_FILE_BYTES, "{path:?} has {size} bytes");
            total += size;
        }
    }
    assert!(total <= MAX_CORPUS_BYTES, "{total} bytes in all");
}

#[test]
fn hostile_files_are_read_or_refused_within_the_limits() {
    let scratch = Scratch::new().unwrap();
    let mut faults = Vec::new();
    for reader in READERS {
        for path in files(&corpus_file(reader.name)) {
            let fault = fault(reader, &scratch, &fs::read(&path).unwrap());
            faults.extend(fault.map(|fault| format!("{}: {fault}", path.display())));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

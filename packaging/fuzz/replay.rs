//! The kept files, and damaged ones that are the same each time, are read without a panic and at little cost.

use std::collections::BTreeSet;
use std::fs;

use crate::corpus;
use crate::readers::{READERS, Reader};
use crate::scratch::Scratch;
use crate::trial::{damaged, harm};

const MAX_FILE_BYTES: u64 = 24 << 10;
const MAX_CORPUS_BYTES: u64 = 700 << 10;

fn kept(reader: &Reader) -> Vec<(String, Vec<u8>)> {
    let paths = corpus::files(&corpus::folder(reader)).unwrap();
    paths
        .iter()
        .map(|path| (path.display().to_string(), fs::read(path).unwrap()))
        .collect()
}

#[test]
fn every_reader_has_a_few_small_files_and_no_folder_is_spare() {
    let folders = corpus::files(&corpus::package().join("corpus")).unwrap();
    let names =
        |folder: &std::path::PathBuf| folder.file_name().unwrap().to_string_lossy().into_owned();
    let folders: BTreeSet<String> = folders.iter().map(names).collect();
    let readers: BTreeSet<String> = READERS
        .iter()
        .map(|reader| reader.name.to_owned())
        .collect();
    assert_eq!(folders, readers);
    let mut total = 0;
    for reader in READERS {
        let files = kept(reader);
        assert!(
            files.len() >= 4,
            "{} has {} files",
            reader.name,
            files.len()
        );
        for (name, bytes) in files {
            let size = bytes.len() as u64;
            assert!(size <= MAX_FILE_BYTES, "{name} has {size} bytes");
            total += size;
        }
    }
    assert!(total <= MAX_CORPUS_BYTES, "{total} bytes in all");
}

#[test]
fn kept_files_are_read_or_refused_at_little_cost() {
    let scratch = Scratch::new().unwrap();
    let mut harmful = Vec::new();
    for reader in READERS {
        for (name, bytes) in kept(reader) {
            harmful.extend(harm(reader, &scratch, &bytes).map(|harm| format!("{name}: {harm}")));
        }
    }
    assert!(harmful.is_empty(), "{}", harmful.join("\n"));
}

#[test]
fn damaged_files_are_read_or_refused_at_little_cost() {
    let scratch = Scratch::new().unwrap();
    let mut harmful = Vec::new();
    for reader in READERS {
        let kept: Vec<Vec<u8>> = kept(reader).into_iter().map(|(_, bytes)| bytes).collect();
        for number in 0..40 {
            let bytes = damaged(reader, &kept, 1, number);
            let harm = harm(reader, &scratch, &bytes);
            harmful
                .extend(harm.map(|harm| format!("{} seed 1 number {number}: {harm}", reader.name)));
        }
    }
    assert!(harmful.is_empty(), "{}", harmful.join("\n"));
}

//! Which of the LoRAs on this machine a file of another program was made with. By their names: programs write no more.

use std::path::{Path, PathBuf};

use super::{Restored, file_name};
use crate::job::Lora;

impl Restored {
    /// The LoRAs that are among these files, with their strengths; and those that are not, in words.
    pub fn find_loras(&self, files: &[PathBuf]) -> (Vec<Lora>, Vec<String>) {
        let mut found = Vec::new();
        let mut missing = Vec::new();
        for lora in &self.loras {
            match files.iter().find(|file| is_called(file, &lora.name)) {
                Some(path) => found.push(Lora {
                    path: path.clone(),
                    strength: lora.strength,
                    strength_2: lora.strength_2,
                }),
                None => missing.push(lora.described()),
            }
        }
        (found, missing)
    }
}

/// Names are written with and without their ending.
fn is_called(file: &Path, name: &str) -> bool {
    let wanted = file_name(name);
    let is = |known: Option<&std::ffi::OsStr>| {
        known.is_some_and(|known| known.to_string_lossy().eq_ignore_ascii_case(wanted))
    };
    is(file.file_name()) || is(file.file_stem())
}

//! The LoRAs of this computer that a file of another program was made with. Programs write only their names.

use std::path::{Path, PathBuf};

use super::Restored;
use crate::job::Lora;
use crate::lora;

impl Restored {
    /// Chooses between several files of one name: by the folders that were written with it, then by `fits`. What stays
    /// undecided is left out, and returned as a sentence each.
    pub fn choose_loras(&mut self, files: &[PathBuf], fits: &dyn Fn(&Path) -> bool) -> Vec<String> {
        let mut notes = Vec::new();
        self.loras.retain_mut(|lora| {
            let named = lora::files_named(files, &lora.path, fits);
            match &named[..] {
                [] => true,
                [file] => {
                    lora.path = file.to_string_lossy().into_owned();
                    true
                }
                several => {
                    notes.push(lora::ambiguity(&lora.described(), several));
                    false
                }
            }
        });
        notes
    }

    /// The LoRAs that are among these files, with their strengths; and those that are not, in words.
    pub fn find_loras(&self, files: &[PathBuf]) -> (Vec<Lora>, Vec<String>) {
        let mut found = Vec::new();
        let mut missing = Vec::new();
        for lora in &self.loras {
            match lora::files_named(files, &lora.path, &|_| true).first() {
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

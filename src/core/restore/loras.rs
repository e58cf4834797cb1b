//! LoRAs of another program's file: as its texts name them, and the files of this computer that are called so.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::names::stem;
use super::{ForeignSettings, fields, short};
use crate::fitting;
use crate::job::LoraChoice;
use crate::job::prompt::{LoraTag, TaggedPrompt};
use crate::restore::names::file_name;

/// More LoRAs than are used at once.
pub(super) const MAX_LORAS: usize = 64;

#[derive(Clone, Debug, Serialize)]
pub struct RestoredLora {
    pub name: String,
    /// Name as the file writes it, with its folders.
    pub path: String,
    pub strength: f64,
    /// On the low-noise expert, where that was said apart.
    pub strength_2: Option<f64>,
}

/// Without the folders: programs write them in one place of a file and not in another.
impl PartialEq for RestoredLora {
    fn eq(&self, other: &Self) -> bool {
        let values = |it: &Self| (it.strength, it.strength_2);
        self.name == other.name && values(self) == values(other)
    }
}

impl RestoredLora {
    pub(super) fn new(name: &str, strength: f64) -> Self {
        // No file has a longer name, and no path has many more letters.
        const MAX_LETTERS: usize = 300;
        let start = |text: &str, most: usize| text.chars().take(most).collect();
        Self {
            name: start(file_name(name), MAX_LETTERS),
            path: start(name, 4 * MAX_LETTERS),
            strength,
            strength_2: None,
        }
    }

    /// Ignores the ending, the strength, and folders that one of the two is written without.
    fn is_same(&self, other: &Self) -> bool {
        let [one, other] = [&self.path, &other.path].map(|path| fitting::comparable(path));
        let [one, other] = [&one, &other].map(|path| stem(path).rsplit('/'));
        one.zip(other).all(|(one, other)| one == other)
    }

    /// Returns whether a file of this name is in the folders of another LoRA of `all`, and not in those of this one.
    fn is_file_of_another(&self, file: &Path, all: &[Self]) -> bool {
        let file = Self::new(&file.to_string_lossy(), 0.0);
        !file.is_same(self) && all.iter().any(|other| file.is_same(other))
    }

    /// Takes the path with more folders.
    fn take_path(&mut self, path: String) {
        let num_folders = |path: &str| path.matches(['/', '\\']).count();
        if num_folders(&path) > num_folders(&self.path) {
            self.path = path;
        }
    }

    /// `name (0.8), other (1)`
    pub(super) fn listed(loras: &[Self]) -> String {
        let all: Vec<String> = loras.iter().map(Self::described).collect();
        all.join(", ")
    }

    /// `name (0.8)`, or `name (0.8, low noise 0.6)` where the experts differ.
    pub fn described(&self) -> String {
        let low = self.strength_2.filter(|low| *low != self.strength);
        let low = low.map_or_else(String::new, |low| format!(", low noise {low}"));
        format!("{} ({}{low})", self.name, self.strength)
    }
}

impl From<LoraTag> for RestoredLora {
    fn from(tag: LoraTag) -> Self {
        Self {
            strength_2: tag.strength_2,
            ..Self::new(&tag.name, tag.strength)
        }
    }
}

impl From<&LoraChoice> for RestoredLora {
    fn from(lora: &LoraChoice) -> Self {
        Self {
            strength_2: lora.strength_2,
            ..Self::new(&lora.path.to_string_lossy(), lora.strength)
        }
    }
}

impl ForeignSettings {
    /// Adds a LoRA that acts on the model: the strengths of one that acts twice add up.
    pub(super) fn add_lora(&mut self, lora: RestoredLora) {
        let is_full = self.loras.len() >= MAX_LORAS;
        let full = format!("It was made with more than {MAX_LORAS} LoRAs: the others are not used");
        if is_full && self.notes.contains(&full) {
            return;
        }
        if let Some(known) = self.loras.iter_mut().find(|known| known.is_same(&lora)) {
            // No file has more digits.
            let sum = |one: f64, other: f64| ((one + other) * 1e6).round() / 1e6;
            let low = |it: &RestoredLora| it.strength_2.unwrap_or(it.strength);
            let is_apart = known.strength_2.or(lora.strength_2).is_some();
            known.strength_2 = is_apart.then(|| sum(low(known), low(&lora)));
            known.strength = sum(known.strength, lora.strength);
            known.take_path(lora.path);
        } else if is_full {
            self.note(full);
        } else if !lora.name.is_empty() {
            self.loras.push(lora);
        }
    }

    /// Returns those that are not known yet; another text of the file may name the same ones again.
    pub(super) fn unknown_loras(&mut self, mut loras: Vec<RestoredLora>) -> Vec<RestoredLora> {
        loras.retain_mut(|lora| {
            let known = self.loras.iter_mut().find(|known| known.is_same(lora));
            let path = &mut lora.path;
            known
                .map(|known| known.take_path(std::mem::take(path)))
                .is_none()
        });
        loras
    }

    /// Adds the LoRAs of a list that are not known yet.
    pub(super) fn add_unknown_loras(&mut self, listed: Self) {
        self.add_notes(listed.notes);
        for lora in self.unknown_loras(listed.loras) {
            self.add_lora(lora);
        }
    }

    /// Returns a prompt without its tags, whose LoRAs are added.
    pub(super) fn take_tags(&mut self, prompt: &str, is_encoder_first: bool) -> String {
        let mut tagged = TaggedPrompt::of_foreign(prompt, is_encoder_first);
        let text = std::mem::take(&mut tagged.text);
        self.add_tags(tagged);
        text
    }

    pub(super) fn add_tags(&mut self, tagged: TaggedPrompt) {
        self.add_notes(tagged.notices);
        for lora in tagged.loras {
            self.add_lora(lora.into());
        }
    }

    /// Adds a LoRA of a list, at 1 without a strength. One whose strength cannot be read is named and left out.
    pub(super) fn add_listed_lora(&mut self, name: &str, strength: Option<&Value>) {
        match strength.map(|it| (it, fields::number(it))) {
            _ if name.eq_ignore_ascii_case("none") => {}
            Some((value, None)) => self.note(format!(
                "The LoRA {} is not used: its strength, {}, is not a number",
                short(file_name(name)),
                short(&value.to_string())
            )),
            known => {
                let strength = known.and_then(|it| it.1).unwrap_or(1.0);
                self.add_lora(RestoredLora::new(name, strength));
            }
        }
    }

    /// Adds a LoRA of a list that acts on one expert alone.
    pub(super) fn add_expert_lora(&mut self, name: &str, strength: Option<&Value>, is_low: bool) {
        let mut one = Self::default();
        one.add_listed_lora(name, strength);
        self.add_notes(one.notes);
        for lora in one.loras {
            let on = |is_it: bool| if is_it { lora.strength } else { 0.0 };
            let (strength, low) = (on(!is_low), on(is_low));
            self.add_lora(RestoredLora {
                strength,
                strength_2: Some(low),
                ..lora
            });
        }
    }

    /// Chooses between several files of one name: by the folders that were written with it, then by `fits`. What stays
    /// undecided is left out, and returned as a sentence each.
    pub fn choose_loras(&mut self, files: &[PathBuf], fits: &dyn Fn(&Path) -> bool) -> Vec<String> {
        let mut notes = Vec::new();
        let all = self.loras.clone();
        self.loras.retain_mut(|lora| {
            let named = fitting::files_named(files, &lora.path, fits);
            match &named[..] {
                [] => true,
                [file] => {
                    if !lora.is_file_of_another(file, &all) {
                        lora.path = file.to_string_lossy().into_owned();
                    }
                    true
                }
                several => {
                    notes.push(fitting::ambiguity(&lora.described(), several));
                    false
                }
            }
        });
        notes
    }

    /// The LoRAs that are among these files, with their strengths; and those that are not, in words.
    pub fn find_loras(&self, files: &[PathBuf]) -> (Vec<LoraChoice>, Vec<String>) {
        let mut found = Vec::new();
        let mut missing = Vec::new();
        for lora in &self.loras {
            let named = fitting::files_named(files, &lora.path, &|_| true);
            match named
                .first()
                .filter(|file| !lora.is_file_of_another(file, &self.loras))
            {
                Some(path) => found.push(LoraChoice {
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

//! Sentences on what a file says and Safelight does not use.

use std::path::Path;

use super::{ForeignSettings, names};
use crate::job::prompt::{self, PromptWeights};
use crate::media::media_info;
use crate::model::ModelFamily;
use crate::restore::names::file_name;
use crate::restore::short;
use crate::tokens::EMBEDDING;

/// Sentences of one file.
const MAX_NOTES: usize = 32;
/// Sentences that are collected before alike ones are grouped.
const MAX_COLLECTED: usize = 300;
/// Alike sentences that are written; of more only the first two.
const MAX_ALIKE: usize = 5;

impl ForeignSettings {
    /// Sentence on a model that takes the place of the file's.
    pub fn replaced_by(&self, used: &str) -> String {
        let wanted = self.model.as_deref().unwrap_or("a model without a name");
        format!("It was made with {wanted}, which is not on this computer: {used} is used instead")
    }

    /// Sentence on LoRAs without a file, if there are any.
    pub fn without_loras(missing: &[String]) -> Option<String> {
        let names = missing.join(", ");
        (!missing.is_empty())
            .then(|| format!("LoRAs that are not on this computer are left out: {names}"))
    }

    pub(super) fn note(&mut self, sentence: impl Into<String>) {
        let sentence = sentence.into();
        if self.notes.len() < MAX_COLLECTED && !self.notes.contains(&sentence) {
            self.notes.push(sentence);
        }
    }

    pub(super) fn add_notes(&mut self, notes: Vec<String>) {
        for note in notes {
            self.note(note);
        }
    }

    /// Names settings that are not used, those of few words with their values.
    pub(super) fn note_unused(&mut self, unused: &[(String, String)]) {
        const MOST: usize = 24;
        const MAX_WORDS: usize = 40;
        let names = unused.iter().take(MOST).map(|(name, value)| {
            let value = if value.chars().count() > MAX_WORDS {
                ""
            } else {
                value
            };
            format!("{} {}", short(name), short(value))
                .trim()
                .to_owned()
        });
        let names: Vec<String> = names.collect();
        let more = match unused.len().saturating_sub(MOST) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        if !names.is_empty() {
            self.note(format!("Not used: {}{more}", names.join(", ")));
        }
    }

    pub(super) fn note_foreign(&mut self, what: &str, name: &str, is_known: bool) {
        if !is_known && !names::is_automatic(name) {
            let name = short(name);
            self.note(format!(
                "Safelight has no {what} {name}: the model's default is used"
            ));
        }
    }

    /// Notes an image or video that the file was made from.
    pub(super) fn note_input(&mut self, sentence: impl Into<String>) {
        self.from_image = true;
        self.note(sentence);
    }

    /// Notes an image or video by its use, and by its path where the file says one.
    pub(super) fn note_file(&mut self, what: &str, path: Option<&str>) {
        let name = path.map(|path| format!(", {},", short(file_name(path))));
        let name = name.unwrap_or_default();
        self.note_input(format!(
            "Its {what}{name} is not in the file: add it separately"
        ));
    }

    /// Adds the notes that depend on all readings of a file. A prompt that is missing comes first.
    pub(super) fn with_last_notes(mut self, path: &Path) -> Self {
        // `None`, or another word for no name.
        self.model.take_if(|name| names::is_automatic(name));
        // At 1 nothing is left of it. Graphs name their images, or have an empty latent.
        let is_changed = self.strength.is_some_and(|it| it < 1.0) && self.tool != "ComfyUI";
        if is_changed && !self.from_image {
            self.note_file("start image", None);
        }
        self.from_image |= self.strength.is_some();
        self.note_size(path);
        self.leave_out_long_prompts();
        self.note_tags();
        self.read_weights();
        for control in std::mem::take(&mut self.controls) {
            self.note(control.described());
            self.controls.push(control);
        }
        self.notes = grouped(std::mem::take(&mut self.notes));
        if self.prompt.is_none() {
            let note = self.unread_prompt.take();
            let note = note.unwrap_or_else(|| "The file has no prompt: write one".to_owned());
            self.notes.insert(0, note);
        }
        self
    }

    /// Takes the size of the file itself where the one that was set could not be read.
    fn note_size(&mut self, path: &Path) {
        let unread = self.unread_size.take();
        let Some(unread) = unread.filter(|_| self.width.is_none()) else {
            return;
        };
        let own = media_info(path).ok().filter(|_| !self.is_resized);
        self.take_size(own.as_ref().map(|it| (it.width, it.height)));
        let used = match own {
            Some(own) => format!("That of the file, {} × {}, is used", own.width, own.height),
            None => "The model's own is used".to_owned(),
        };
        self.note(format!("{unread}. {used}"));
    }

    /// Leaves out prompts that no job takes, with a sentence.
    fn leave_out_long_prompts(&mut self) {
        let said = |name: &str, text: &str| {
            format!(
                "The file's {name}, {} bytes, is not used: a prompt has at most {}. Write a shorter one",
                text.len(),
                prompt::MAX_BYTES
            )
        };
        let is_long = |text: &mut String| text.len() > prompt::MAX_BYTES;
        if let Some(text) = self.prompt.take_if(is_long) {
            self.unread_prompt = Some(said("prompt", &text));
        }
        if let Some(text) = self.negative_prompt.take_if(is_long) {
            self.note(said("negative prompt", &text));
        }
    }

    /// Reads weights of words as the program does: as ComfyUI, or as A1111.
    fn read_weights(&mut self) {
        let texts = [&mut self.prompt, &mut self.negative_prompt];
        let mut texts: Vec<&mut String> = texts.into_iter().flatten().collect();
        match self.tool.as_str() {
            "ComfyUI" | "SwarmUI" => self.prompt_weights = PromptWeights::Comfy,
            "A1111" | "Civitai" | "Forge" | "SD.Next" | "Fooocus" | "stable-diffusion.cpp" => {
                self.prompt_weights = PromptWeights::A1111;
            }
            "InvokeAI" => {
                for text in &mut texts {
                    **text = text.replace("\\(", "(").replace("\\)", ")");
                }
            }
            "NovelAI" => {
                let weight = texts.iter().find_map(|text| colon_weight(text)).map(short);
                let has_brackets = texts.iter().any(|text| text.contains(['{', '[']));
                if let Some(weight) = weight {
                    self.note(format!(
                        "Prompt weights are not used: {weight} stays in the prompt as it is written"
                    ));
                }
                if has_brackets {
                    self.note("Brackets are not used as prompt weights: they stay in the prompt as it is written");
                }
            }
            _ => {}
        }
    }

    /// Names tags that are still in the prompts: most programs encode them as words.
    fn note_tags(&mut self) {
        let texts = [&self.prompt, &self.negative_prompt].into_iter().flatten();
        let note = unused(texts.flat_map(|text| prompt::tags(text)));
        if let Some(note) = note {
            self.note(note);
        }
    }

    /// Notes on what a model of this family reads of the prompts in another way or not at all.
    pub(super) fn prompt_notes(&self, family: ModelFamily) -> Vec<String> {
        let mut notes: Vec<String> = self.clip_skip_note(family).into_iter().collect();
        let embeddings = self.embeddings.join(", ");
        if family.has_prompt_chunks {
            if !embeddings.is_empty() {
                notes.push(format!(
                    "It was made with the embeddings {embeddings}: they act where models/embeddings has their .safetensors files, else their names are read as text"
                ));
            }
            return notes;
        }
        if !embeddings.is_empty() {
            notes.push(format!("Textual inversions are not used: {embeddings}"));
        }
        let texts = || [&self.prompt, &self.negative_prompt].into_iter().flatten();
        let words = texts().flat_map(|text| text.split([' ', ',', '\n', '(', ')']));
        notes.extend(unused(words.filter(|word| word.starts_with(EMBEDDING))));
        if self.prompt_weights != PromptWeights::A1111 {
            return notes;
        }
        if texts().any(|text| names::has_keyword(text, "BREAK")) {
            let note = "BREAK is not used and stays in the prompt as a word: A1111 encodes the text after it separately";
            notes.push(note.to_owned());
        }
        if family.has_prompt_weights && self.has_weights() {
            let note = "Prompt weights scale states as in ComfyUI, which is not quite as in A1111";
            notes.push(note.to_owned());
        }
        notes
    }

    /// A note on a clip skip that models of this family do not have. SDXL's is 2, which A1111 leaves as it is.
    fn clip_skip_note(&self, family: ModelFamily) -> Option<String> {
        let skip = self.clip_skip?;
        let label = family.label;
        if !family.has_prompt_chunks {
            return (skip > 1.0)
                .then(|| format!("Clip skip {skip} is not used: models of {label} have none"));
        }
        let is_own = skip == 2.0 || (skip == 1.0 && self.tool != "ComfyUI");
        (!is_own).then(|| {
            format!("Clip skip {skip} is not used: {label} reads its text encoders at clip skip 2")
        })
    }
}

/// A note on tags of a prompt that are not used.
fn unused<'a>(tags: impl Iterator<Item = &'a str>) -> Option<String> {
    let tags: Vec<String> = tags.take(MAX_ALIKE).map(short).collect();
    let tags = (!tags.is_empty()).then(|| tags.join(", "));
    tags.map(|tags| format!("Tags in the prompt are not used and stay in it as text: {tags}"))
}

/// NovelAI's first `1.5::words::`, or its start where it is not closed.
fn colon_weight(text: &str) -> Option<&str> {
    text.match_indices("::").find_map(|(at, colons)| {
        let before =
            text[..at].trim_end_matches(|it: char| it.is_ascii_digit() || ".-".contains(it));
        let behind = &text[at + colons.len()..];
        let end = behind
            .find("::")
            .map_or(text.len(), |end| at + end + 2 * colons.len());
        text[before.len()..at].parse::<f64>().ok()?;
        Some(&text[before.len()..end])
    })
}

/// Groups sentences that differ in one part, such as a name, and leaves out what is more than [`MAX_NOTES`].
fn grouped(notes: Vec<String>) -> Vec<String> {
    let mut groups: Vec<Vec<String>> = Vec::new();
    for note in notes {
        match groups.iter_mut().find(|group| are_alike(&group[0], &note)) {
            Some(group) => group.push(note),
            None => groups.push(vec![note]),
        }
    }
    for group in &mut groups {
        if group.len() > MAX_ALIKE {
            let more = group.split_off(2).len();
            group.push(format!("… and {more} more of this kind"));
        }
    }
    let mut notes = groups.concat();
    if notes.len() > MAX_NOTES {
        notes.truncate(MAX_NOTES);
        notes.push("There is more that is not used".to_owned());
    }
    notes
}

/// Returns whether half of the shorter sentence is at the start and the end of both.
fn are_alike(one: &str, other: &str) -> bool {
    let start = one.bytes().zip(other.bytes());
    let start = start.take_while(|(one, other)| one == other).count();
    let end = one.bytes().rev().zip(other.bytes().rev());
    let end = end.take_while(|(one, other)| one == other).count();
    2 * (start + end) >= one.len().min(other.len())
}

//! Choice of the installed model that a file of another program was made with, or that comes nearest.
//!
//! By the names of files first, then by what the names say of family and variant. No weights are read: a hash of a
//! file of many gigabytes is not worth the minutes, so it is only shown.

use std::path::Path;

use super::names::stem;
use super::{ForeignSettings, names};
use crate::library::names::model_words;
use crate::model::{ModelFamily, ModelSpec};
use crate::restore::names::file_name;

/// Model to use.
#[derive(Clone, Copy, Debug)]
pub struct ModelMatch<'a> {
    pub spec: &'a ModelSpec,
    /// It is the model itself, perhaps stored otherwise (fp8, GGUF); else another of its family.
    pub is_same: bool,
}

/// Words that distinguish a family's models; words of one group exclude each other.
const MARKS: [&[&str]; 5] = [
    &["ti2v", "flf2v", "i2v", "t2v"],
    &["schnell", "kontext", "fill", "dev"],
    &["f1"],
    &["1.3b", "14b", "5b"],
    &["2.1", "2.2"],
];

pub fn match_model<'a>(
    restored: &ForeignSettings,
    specs: &'a [ModelSpec],
) -> Option<ModelMatch<'a>> {
    let names = [&restored.model, &restored.model_2];
    let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
    let is_named = |spec: &&ModelSpec| names.iter().any(|name| has_name(spec, name));
    let words: Vec<Vec<String>> = names.iter().map(|name| words_of(name)).collect();
    let is_like = |spec: &&ModelSpec| {
        let mut known = known_names(spec).into_iter().map(|known| words_of(&known));
        known.any(|known| !known.is_empty() && words.contains(&known))
    };
    let same = specs.iter().find(is_named);
    if let Some(spec) = same.or_else(|| specs.iter().find(is_like)) {
        let is_same = true;
        return Some(ModelMatch { spec, is_same });
    }
    let family = restored.known_family()?;
    let wanted = marks(&names.join(" "));
    let likeness = |spec: &&ModelSpec| {
        let known = marks(&format!("{} {} {}", spec.id, spec.name, spec.variant));
        let groups = wanted.iter().zip(known);
        groups
            .map(|(wanted, known)| match (wanted, known) {
                (Some(wanted), Some(known)) if *wanted == known => 2,
                (None, None) => 0,
                (Some(_), Some(_)) => -2,
                _ => -1,
            })
            .sum::<i32>()
    };
    // The first of equals, in the catalogue's order.
    let of_family = specs.iter().filter(|spec| spec.family == family);
    let spec = of_family.rev().max_by_key(likeness)?;
    let is_same = false;
    Some(ModelMatch { spec, is_same })
}

impl ForeignSettings {
    /// The family that the file names, or that the names of its models speak of.
    pub fn known_family(&self) -> Option<ModelFamily> {
        let mut names = [&self.model, &self.model_2].into_iter().flatten();
        self.family
            .or_else(|| names.find_map(|name| names::family(name)))
    }
}

/// Names by which a model may be called.
fn known_names(spec: &ModelSpec) -> Vec<String> {
    let file = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        stem(&name.to_string_lossy()).to_owned()
    };
    let files = &spec.files;
    let mut names = vec![spec.id.clone(), spec.name.clone(), file(&spec.folder)];
    let transformers = [Some(&files.transformer), files.transformer_2.as_ref()];
    names.extend(transformers.into_iter().flatten().map(|path| file(path)));
    // In a folder of components these say nothing.
    names.retain(|name| !name.is_empty() && !name.starts_with("transformer"));
    names
}

fn has_name(spec: &ModelSpec, name: &str) -> bool {
    let wanted = stem(file_name(name));
    let mut known = known_names(spec).into_iter();
    !wanted.is_empty() && known.any(|known| stem(file_name(&known)).eq_ignore_ascii_case(wanted))
}

fn words_of(name: &str) -> Vec<String> {
    model_words(stem(file_name(name)))
}

/// The mark of each group that a name has.
fn marks(name: &str) -> [Option<&'static str>; MARKS.len()] {
    let name = name
        .to_lowercase()
        .replace("textimage2video", "ti2v")
        .replace("image2video", "i2v")
        .replace("text2video", "t2v")
        .replace("2_1", "2.1")
        .replace("2_2", "2.2")
        .replace("1_3b", "1.3b");
    MARKS.map(|group| {
        group.iter().copied().find(|mark| {
            name.match_indices(mark).any(|(at, _)| {
                let before = name[..at].chars().next_back();
                let behind = name[at + mark.len()..].chars().next();
                // `t2v` in `ti2v`, `5b` in `1.5b`, `f1` in `buff10`.
                let is_start = match before {
                    Some('a') if *mark == "14b" => true,
                    Some('n' | 'v') if mark.starts_with("2.") => true,
                    Some(before) => !before.is_alphanumeric() && before != '.',
                    None => true,
                };
                is_start && !behind.is_some_and(char::is_alphanumeric)
            })
        })
    })
}

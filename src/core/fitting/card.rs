//! Facts about a LoRA file for people: its family, its naming dialect, and its trigger words.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::origin::LoraOrigin;
use crate::families::def_of;
use crate::formats::weights::WeightSet;
use crate::library::lora_keys::LoraTensorKind;
use crate::lora::LoraFile;
use crate::model::ModelFamily;

/// Trained words that are named.
const MAX_WORDS: usize = 12;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoraInfo {
    /// `wan`, `flux`, another family's short name, or empty.
    pub family: &'static str,
    /// The family's name, with its size where that shows; empty where nothing does.
    pub made_for: String,
    /// A family of this version takes it, or nothing shows whose it is.
    pub is_supported: bool,
    /// Naming dialect of the layers.
    pub dialect: &'static str,
    /// `LoRA`, `DoRA`, `LoHa`, `LoKr`, `differences`.
    pub algorithms: Vec<&'static str>,
    /// All that occur, smallest first.
    pub ranks: Vec<u64>,
    pub layers: usize,
    pub keys: usize,
    pub changes_transformer: bool,
    pub changes_text_encoder: bool,
    /// `high-noise` or `low-noise` where the file's name says that it is for one expert.
    pub expert: Option<&'static str>,
    pub title: Option<String>,
    pub base_model: Option<String>,
    /// Words for the prompt, most frequent first.
    pub trained_words: Vec<String>,
    /// The scale of its layers, where the file gives it, as a noun phrase.
    pub scale: Option<String>,
    /// Sentences about what no model will use of it, and about values that make no sense.
    pub notices: Vec<String>,
    /// Use by each model of its family on this computer, a sentence each.
    pub fits: Vec<String>,
}

impl LoraInfo {
    pub fn of(file: &LoraFile) -> Self {
        let origin = LoraOrigin::from_file(file);
        let [changes_transformer, changes_text_encoder] = file.scopes();
        let notes = &file.weights.notes;
        let note = |names: &[&str]| {
            let found = names.iter().find_map(|name| notes.get(*name));
            found
                .filter(|text| !text.trim().is_empty() && *text != "None")
                .cloned()
        };
        Self {
            dialect: dialect(file, origin.family),
            is_supported: origin.is_supported(),
            family: origin.family,
            made_for: origin.name(),
            algorithms: algorithms(file),
            ranks: ranks(file),
            layers: file.layers.len() - file.left_out.len(),
            keys: file.num_keys(),
            changes_transformer,
            changes_text_encoder,
            expert: crate::lora::side_of_name(&file.path)
                .map(crate::library::names::NoiseSide::label),
            title: note(&["modelspec.title", "ss_output_name", "name"]),
            base_model: note(&[
                "modelspec.architecture",
                "ss_base_model_version",
                "ss_sd_model_name",
                "base_model",
            ]),
            trained_words: trained_words(&file.weights),
            scale: file.scale_text(),
            notices: match &origin.coverage {
                // With what only a model's layers show.
                Some(coverage) => coverage
                    .notices
                    .iter()
                    .chain(&coverage.conflict)
                    .cloned()
                    .collect(),
                None => file.notices(),
            },
            fits: origin
                .coverage
                .iter()
                .map(|it| format!("{}: {it:#}", origin.label))
                .collect(),
        }
    }

    /// A noun phrase.
    pub fn text(&self) -> String {
        let mut parts = vec![format!("a {}", self.algorithms.join(" and "))];
        if !self.made_for.is_empty() {
            parts[0] = format!("{} for {}", parts[0], self.made_for);
        }
        match self.ranks[..] {
            [] => {}
            [rank] => parts.push(format!("rank {rank}")),
            [first, .., last] => parts.push(format!("ranks {first} to {last}")),
        }
        if !self.dialect.is_empty() {
            parts.push(format!("in the names of {}", self.dialect));
        }
        if let Some(expert) = self.expert {
            parts.push(format!("for the {expert} expert"));
        }
        parts.join(", ")
    }
}

/// By the part before the layers' names.
fn dialect(file: &LoraFile, family: &str) -> &'static str {
    let has = |start: &str| file.layers.keys().any(|layer| layer.starts_with(start));
    let has_part = |part: &str| file.layers.keys().any(|layer| layer.contains(part));
    if has("lora_transformer_") {
        "OneTrainer"
    } else if has("lycoris_") {
        "LyCORIS"
    } else if has("lora_unet_") && has_musubi(family) {
        "musubi-tuner"
    } else if has("lora_unet_") || has("lora_te") {
        "kohya"
    } else if has("base_model.model.") {
        "PEFT"
    } else if has_part(".processor.") {
        "XLabs"
    } else if has("diffusion_model.") || has("model.diffusion_model.") {
        "ComfyUI"
    } else if has("transformer.") || has_part("transformer_blocks.") || has_part(".attn1.") {
        "diffusers"
    } else {
        "the model's authors"
    }
}

/// Returns true if musubi-tuner trains LoRAs of an origin: a family, or a relative of one whose LoRAs it trains, too.
fn has_musubi(origin: &str) -> bool {
    let mut families = ModelFamily::all().filter(|family| def_of(*family).lora().has_musubi);
    families.any(|family| {
        let mut signs = def_of(family).lora().signs.iter();
        signs.any(|sign| sign.family == origin)
    })
}

fn algorithms(file: &LoraFile) -> Vec<&'static str> {
    let kinds: [(&'static str, &[LoraTensorKind]); 5] = [
        ("DoRA", &[LoraTensorKind::DoraScale]),
        ("LoRA", &[LoraTensorKind::Down]),
        ("LoHa", &[LoraTensorKind::HadaW1A]),
        ("LoKr", &[LoraTensorKind::LokrW1, LoraTensorKind::LokrW1A]),
        (
            "set of differences",
            &[LoraTensorKind::Diff, LoraTensorKind::DiffBias],
        ),
    ];
    let has = |leaves: &[LoraTensorKind]| {
        let mut all = file.layers.values();
        all.any(|parts| leaves.iter().any(|leaf| parts.contains_key(leaf)))
    };
    let mut found: Vec<&str> = kinds
        .iter()
        .filter(|(_, leaves)| has(leaves))
        .map(|(name, _)| *name)
        .collect();
    // Differences next to a LoRA, and the LoRA within a DoRA, go without saying.
    if found.len() > 1 {
        found.retain(|name| *name != "set of differences");
    }
    if found.len() > 1 && found[0] == "DoRA" {
        found.retain(|name| *name != "LoRA");
    }
    found
}

fn ranks(file: &LoraFile) -> Vec<u64> {
    let ranks: BTreeSet<u64> = file
        .layers
        .values()
        .filter_map(|it| file.rank(it))
        .collect();
    ranks.into_iter().collect()
}

fn trained_words(weights: &WeightSet) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |word: &str| {
        let word = word.trim();
        if !word.is_empty() && !words.iter().any(|known| known == word) && words.len() < MAX_WORDS {
            words.push(word.to_owned());
        }
    };
    for name in [
        "modelspec.trigger_phrase",
        "trigger_word",
        "trigger_words",
        "ss_trigger_words",
    ] {
        match (weights.json_note(name), weights.notes.get(name)) {
            (Some(Value::Array(list)), _) => {
                list.iter().filter_map(Value::as_str).for_each(&mut add);
            }
            (_, Some(text)) => add(text),
            _ => {}
        }
    }
    // Each folder of images with how often each tag is in it.
    let tags = weights.json_note("ss_tag_frequency");
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for folder in tags
        .iter()
        .filter_map(Value::as_object)
        .flat_map(|folders| folders.values())
    {
        for (tag, count) in folder.as_object().into_iter().flatten() {
            let sum = counts.entry(tag.trim()).or_default();
            *sum = sum.saturating_add(count.as_u64().unwrap_or(0));
        }
    }
    let mut counts: Vec<(&str, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (tag, _) in counts {
        add(tag);
    }
    words
}

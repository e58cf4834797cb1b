//! The scale that a file's metadata gives to layers without an `alpha` tensor: alpha over rank.
//!
//! Read from diffusers' `lora_adapter_metadata`, PEFT's `adapter_config.json`, and the plain values that SimpleTuner,
//! kohya's scripts and others write. Values of one network (`transformer.r`) precede those of the whole file.

use std::collections::BTreeMap;
use std::path::Path;

use fancy_regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use crate::formats::read_capped;
use crate::formats::weights::WeightSet;
use crate::library::lora_keys::{self as keys, LoraScope};

/// Metadata values that are a JSON object of settings.
const JSON_NOTES: [&str; 4] = [
    "lora_adapter_metadata",
    "adapter_config",
    "peft_config",
    "lora_config",
];
/// PEFT's settings, next to the file.
const PEFT_CONFIG: &str = "adapter_config.json";
const PEFT_FILE: &str = "adapter_model.safetensors";
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Names of the values; the first that is there counts.
const ALPHAS: [&str; 4] = ["lora_alpha", "network_alpha", "alpha", "ss_network_alpha"];
const RANKS: [&str; 5] = ["r", "lora_rank", "network_dim", "rank", "ss_network_dim"];
const SETTINGS: [&str; 3] = ["use_rslora", ALPHA_PATTERN, RANK_PATTERN];
const ALPHA_PATTERN: &str = "alpha_pattern";
const RANK_PATTERN: &str = "rank_pattern";
/// Networks that a plain value may name before its dot, after others: `base_model.model.transformer.r`.
const NETWORKS: [&str; 13] = [
    "transformer",
    "transformer_2",
    "unet",
    "diffusion_model",
    "dit",
    "denoiser",
    "base_model",
    "model",
    "lora",
    "peft",
    "text_encoder",
    "text_encoder_2",
    "text_encoder_3",
];
/// Regular expressions of a pattern that are tried, and the memory and work of each.
const MAX_EXPRESSIONS: usize = 8;
const EXPRESSION_BYTES: usize = 1 << 18;
const MAX_BACKTRACKS: usize = 100;

/// The settings of a file by network; the empty name means all.
#[derive(Debug, Default)]
pub(super) struct LoraScaling {
    networks: BTreeMap<String, Map<String, Value>>,
    /// The keys of the patterns that are regular expressions, by network and pattern.
    expressions: BTreeMap<(String, &'static str), Vec<(Regex, Value)>>,
    /// kohya's alpha is there, and the layers have names that only converters give them.
    pub(super) is_converted: bool,
    pub(super) notices: Vec<String>,
}

fn is_rslora(config: &Map<String, Value>) -> bool {
    let text = match config.get("use_rslora") {
        Some(Value::String(text)) => text.trim().to_lowercase(),
        value => value.map_or_else(String::new, Value::to_string),
    };
    text == "true" || text == "1"
}

impl LoraScaling {
    /// `has_kohya_names`: the layers are called as kohya's scripts and LyCORIS call them.
    pub(super) fn read(path: &Path, weights: &WeightSet, has_kohya_names: bool) -> Self {
        let mut all = Self::default();
        // musubi-tuner's converter multiplies the alpha into the tensors and keeps the metadata.
        let is_converted = weights.notes.contains_key("ss_network_module") && !has_kohya_names;
        for name in JSON_NOTES {
            match (weights.json_note(name), weights.notes.get(name)) {
                (Some(Value::Object(config)), _) => all.add(config),
                (_, Some(_)) => all
                    .notices
                    .push(format!("its {name} is not a JSON object and is not used")),
                _ => {}
            }
        }
        if let Some(config) = config_beside(path) {
            all.add(config);
        }
        let known = || ALPHAS.iter().chain(&RANKS).chain(&SETTINGS);
        for (name, text) in &weights.notes {
            let (network, field) = name.rsplit_once('.').unwrap_or(("", name));
            let is_known = known().any(|known| *known == field);
            let network = network.rsplit('.').next().unwrap_or_default();
            if !is_known || !(network.is_empty() || NETWORKS.contains(&network)) {
                continue;
            }
            if is_converted && field.starts_with("ss_") {
                all.is_converted |= field == "ss_network_alpha";
                continue;
            }
            let value = serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into());
            all.set(network, field, value);
        }
        all.compile_expressions();
        all
    }

    fn compile_expressions(&mut self) {
        let is_expression = |(key, _): &(&String, &Value)| {
            key.contains(['^', '$', '*', '+', '?', '(', '[', '|', '\\'])
        };
        for (network, config) in &self.networks {
            for pattern in [ALPHA_PATTERN, RANK_PATTERN] {
                let values = config.get(pattern).and_then(Value::as_object);
                let mut compiled = Vec::new();
                for (key, value) in values.into_iter().flatten().filter(is_expression) {
                    let expression = RegexBuilder::new(&format!(r"^(?:.*\.)?(?:{key})$"))
                        .delegate_size_limit(EXPRESSION_BYTES)
                        .backtrack_limit(MAX_BACKTRACKS)
                        .build();
                    match expression {
                        Ok(expression) if compiled.len() < MAX_EXPRESSIONS => {
                            compiled.push((expression, value.clone()));
                        }
                        _ => {
                            let notice = format!("a key of its {pattern} cannot be used");
                            self.notices.push(notice);
                            break;
                        }
                    }
                }
                self.expressions
                    .insert((network.clone(), pattern), compiled);
            }
        }
    }

    /// Adds `transformer.r`, or `r` within `transformer`, or `r` alone.
    fn add(&mut self, config: Map<String, Value>) {
        for (name, value) in config {
            match (name.rsplit_once('.'), value) {
                (Some((network, field)), value) => {
                    let network = network.rsplit('.').next().unwrap_or_default();
                    self.set(network, field, value);
                }
                (None, Value::Object(fields)) if NETWORKS.contains(&name.as_str()) => {
                    for (field, value) in fields {
                        self.set(&name, &field, value);
                    }
                }
                (None, value) => self.set("", &name, value),
            }
        }
    }

    /// The first value of a name counts.
    fn set(&mut self, network: &str, field: &str, value: Value) {
        let fields = self.networks.entry(network.to_owned()).or_default();
        fields.entry(field).or_insert(value);
    }

    /// The scale of a layer of this rank; `None` where the metadata has none. The error is a sentence about a value that
    /// makes no sense.
    pub(super) fn of_layer(&self, layer: &str, rank: u64) -> Result<Option<f64>, String> {
        let Some((network, config)) = self.config_of(layer) else {
            return Ok(None);
        };
        let own = |pattern| self.pattern_value(network, config, pattern, layer);
        let value = |names: &[&str], pattern| match own(pattern) {
            Some(value) => number(pattern, value),
            None => names
                .iter()
                .find_map(|name| number(name, config.get(*name)?).transpose())
                .transpose(),
        };
        let Some(alpha) = value(&ALPHAS, ALPHA_PATTERN)? else {
            return Ok(None);
        };
        let rank = value(&RANKS, RANK_PATTERN)?.unwrap_or_else(|| rank.max(1) as f64);
        let divisor = if is_rslora(config) { rank.sqrt() } else { rank };
        Ok(Some(alpha / divisor))
    }

    /// Returns true if a network's alpha is divided by the square root of its rank.
    pub(super) fn has_rslora(&self) -> bool {
        self.networks.values().any(is_rslora)
    }

    /// The settings of the network that a layer belongs to.
    fn config_of(&self, layer: &str) -> Option<(&String, &Map<String, Value>)> {
        let is_prefix = |name: &str| {
            let rest = layer.strip_prefix(name);
            !name.is_empty() && rest.is_some_and(|rest| rest.starts_with('.'))
        };
        // Layers may carry another tool's prefix than the settings.
        let is_transformer = |name: &str| !name.is_empty() && !name.starts_with("text_encoder");
        let of_scope =
            |name: &str| keys::scope(layer) == LoraScope::Transformer && is_transformer(name);
        let find = |is_it: &dyn Fn(&str) -> bool| {
            let mut networks = self.networks.iter();
            networks.find(|(name, _)| is_it(name))
        };
        find(&is_prefix)
            .or_else(|| find(&of_scope))
            .or_else(|| find(&str::is_empty))
    }

    /// The value of a pattern's key that is the end of the layer's name, or a regular expression of it.
    fn pattern_value<'a>(
        &'a self,
        network: &str,
        config: &'a Map<String, Value>,
        pattern: &'static str,
        layer: &str,
    ) -> Option<&'a Value> {
        let values = config.get(pattern)?.as_object()?;
        let dots = layer.match_indices('.').map(|(at, _)| &layer[at + 1..]);
        let mut ends = std::iter::once(layer).chain(dots);
        ends.find_map(|end| values.get(end)).or_else(|| {
            let compiled = self.expressions.get(&(network.to_owned(), pattern));
            let mut compiled = compiled.into_iter().flatten();
            let found = compiled.find(|(it, _)| it.is_match(layer).unwrap_or(false));
            found.map(|(_, value)| value)
        })
    }
}

/// PEFT's settings next to its weights; an absent or unreadable file has none.
fn config_beside(path: &Path) -> Option<Map<String, Value>> {
    let is_folder = path.is_dir();
    let folder = if is_folder { path } else { path.parent()? };
    let text = read_capped(&folder.join(PEFT_CONFIG), MAX_CONFIG_BYTES).ok()?;
    // A config among several files is not of any of them.
    let is_only = || {
        let files = WeightSet::open(folder)
            .map(|it| it.files)
            .unwrap_or_default();
        files.len() == 1 && files[0].file_name() == path.file_name()
    };
    let is_its_own = is_folder || path.ends_with(PEFT_FILE) || is_only();
    serde_json::from_slice(&text).ok().filter(|_| is_its_own)
}

/// A positive number; `None` where the value says that there is none.
fn number(name: &str, value: &Value) -> Result<Option<f64>, String> {
    let text = match value {
        Value::Null => return Ok(None),
        Value::String(text) => text.trim().to_owned(),
        value => value.to_string(),
    };
    if text.is_empty() || text == "None" {
        return Ok(None);
    }
    match text.parse() {
        Ok(number) if f64::is_finite(number) && number > 0.0 => Ok(Some(number)),
        _ => {
            let text: String = text.chars().take(40).collect();
            Err(format!(
                "its {name} is {text:?} instead of a positive number and is not used"
            ))
        }
    }
}

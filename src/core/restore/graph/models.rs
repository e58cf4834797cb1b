//! The model of a sampler, and what changes it on the way: the shift, and LoRAs of loaders, stacks, managers and loader
//! packs, by the names of a node's inputs.

use serde_json::Value;

use super::nodes::{InputSource, LinkKind, NodeInput, NodeRef, has_word};
use super::values::{is_on, number_or_note};
use crate::job::prompt::TaggedPrompt;
use crate::restore::fields::{self, JsonFields};
use crate::restore::names::{dynamic_shift, file_name};
use crate::restore::{ForeignSettings, MAX_LORAS, RestoredLora, short};

/// Reads the model; of samplers with two experts both, with a guidance for each.
pub(super) fn read_models(sampler: NodeRef<'_>, restored: &mut ForeignSettings) {
    let of_expert = |what: &str, expert: &str| {
        let mut names = sampler.node.inputs.keys();
        names.find(|name| name.contains(what) && name.contains(expert))
    };
    let model = |expert| of_expert("model", expert).and_then(|name| sampler.source(name)?.node());
    let Some((high, low)) = model("high").zip(model("low")) else {
        return read_model(sampler, model_of(sampler), restored);
    };
    let mut cfg = |expert| {
        let name = of_expert("cfg", expert)?;
        number_or_note(&[sampler], name, "guidance", restored)
    };
    let (cfg_high, cfg_low) = (cfg("high"), cfg("low"));
    restored.cfg_scale = cfg_high.or(restored.cfg_scale);
    read_model(sampler, Some(high), restored);
    let mut second = ForeignSettings {
        cfg_scale: cfg_low.or(restored.cfg_scale),
        ..ForeignSettings::default()
    };
    read_model(sampler, Some(low), &mut second);
    restored.take_second_expert(second);
}

/// Node from which a node gets its model.
fn model_of(node: NodeRef<'_>) -> Option<NodeRef<'_>> {
    let mut named = ["model", "MODEL", "unet"].into_iter();
    let named = named.find(|name| node.link(name).is_some());
    let name = named.or_else(|| node.links_of(LinkKind::Model).first().copied());
    let source = name.map_or_else(|| node.source_or_piped("model"), |name| node.source(name));
    source.and_then(InputSource::node).filter(|it| *it != node)
}

/// Reads the model's name, and what changes the model on the way: LoRAs and the shift.
fn read_model<'g>(
    sampler: NodeRef<'g>,
    model: Option<NodeRef<'g>>,
    restored: &mut ForeignSettings,
) {
    // It is not known which model such a switch chooses.
    let before = |node: NodeRef<'g>| model_of(node).filter(|_| !node.is_switch());
    let models: Vec<_> = model.map_or_else(Vec::new, |model| model.chain(before).collect());
    // Nearest the loader first, as they are applied.
    let mut loras = NodeLoras::default();
    let chain = models.iter().rev().chain([&sampler]);
    chain.for_each(|node| loras.read(*node));
    loras.found.into_iter().for_each(|it| restored.add_lora(it));
    restored.add_notes(loras.notes);
    for node in &models {
        if restored.shift.is_none() {
            restored.shift = if node.has("base_shift") && node.has("width") {
                shift_by_size(*node, restored)
            } else {
                number_or_note(&[*node], "shift", "shift", restored)
            };
        }
        let others = node.links_of(LinkKind::Model).into_iter().skip(1);
        for name in others.filter(|_| !node.is_switch()) {
            let other = node
                .linked(name)
                .and_then(|other| other.name("MODEL_NAMES"));
            let other = other.map(|it| format!(", {},", short(file_name(&it))));
            let other = other.unwrap_or_default();
            restored.note(format!(
                "The model was joined with another one{other} by {node}: only the first is used"
            ));
        }
    }
    let loader = models.last().copied();
    let name = loader.unwrap_or(sampler).name("MODEL_NAMES");
    let name = name.or_else(|| weight_file(loader.unwrap_or(sampler)));
    let name = name.filter(|name| !name.trim().is_empty());
    restored.model = name.map(|name| file_name(&name).to_owned());
    if restored.model.is_none() {
        let loader = sampler.graph.broadcasters().next().or(loader);
        loader.into_iter().for_each(NodeRef::use_all);
        let why = match loader {
            Some(node) => format!("{node} loads it"),
            None => format!("{sampler} has none"),
        };
        restored.note(format!(
            "The model could not be read: {why}. Choose a model"
        ));
    }
}

/// Shift of a node that makes it from the size.
fn shift_by_size(node: NodeRef<'_>, restored: &mut ForeignSettings) -> Option<f64> {
    let size = ["width", "height"].map(|name| node.count(name));
    let names = ["width", "height", "base_shift", "max_shift"];
    let values = names.map(|name| number_or_note(&[node], name, "shift", restored));
    let [width, height, least, most] = values.map(|it| it.unwrap_or(f64::NAN));
    let is_own = (least, most) == (0.5, 1.15) && size == [restored.width, restored.height];
    if is_own && restored.distilled_guidance.is_some() {
        // Models with an embedded guidance do it themselves.
        return None;
    }
    Some(dynamic_shift(width, height, [least, most])).filter(|shift| shift.is_finite())
}

/// Name of a transformer's file in a loader whose inputs have other names.
fn weight_file(loader: NodeRef<'_>) -> Option<String> {
    let is_other = |name: &str| has_word(name, "vae clip lora encoder control");
    let mut texts = loader.texts().filter(|(name, _)| !is_other(name));
    let (name, file) = texts.find(|(_, text)| has_word(text, "WEIGHT_FILES"))?;
    loader.use_input(name);
    Some(file.to_owned())
}

/// LoRAs of nodes, those of the stacks that they are given included, in the order in which they are applied.
#[derive(Default)]
struct NodeLoras<'g> {
    found: Vec<RestoredLora>,
    /// Sentences on what is not used.
    notes: Vec<String>,
    visited: Vec<NodeRef<'g>>,
}

impl<'g> NodeLoras<'g> {
    fn read(&mut self, node: NodeRef<'g>) {
        if !self.visited.contains(&node) {
            self.visited.push(node);
            node.graph.nested(|| {
                self.read_node(node);
                Some(())
            });
        }
    }

    fn read_node(&mut self, node: NodeRef<'g>) {
        let is_loader = node.is_called("lora");
        let mut stacks = node.links_of(LinkKind::Lora);
        stacks.retain(|stack| {
            let before = self.found.len();
            let source = node.linked(stack);
            if let Some(source) = source {
                self.read(source);
            }
            // Else it may give a name alone.
            source.is_some_and(|it| it.is_called("lora")) || self.found.len() > before
        });
        for stack in &stacks {
            node.use_input(stack);
        }
        let before = self.found.len();
        let mut is_read = false;
        for (name, input) in node.inputs() {
            if self.found.len() > MAX_LORAS {
                return;
            }
            if !stacks.contains(&name) && self.read_entry(node, name, input) {
                is_read = true;
                node.use_input(name);
            }
        }
        if self.found.len() == before {
            let tagged = node.texts().filter(|it| is_loader || it.0.contains("lora"));
            for (_, text) in tagged {
                let tagged = TaggedPrompt::of_foreign(text, false);
                let found = tagged.loras.into_iter().map(RestoredLora::from);
                self.found.extend(found);
                self.notes.extend(tagged.notices);
            }
            let is_tagged = self.found.len() > before;
            let has_other = node.texts().any(|(name, text)| is_other_name(name, text));
            let is_unread =
                !is_tagged && (has_other || (is_loader && !is_read)) && stacks.is_empty();
            if is_tagged || is_unread {
                node.use_all();
            }
            if is_unread {
                self.notes.push(format!(
                    "{} sets a LoRA in a way that Safelight does not read as a whole: check its name and strength",
                    node.at_start()
                ));
            }
        }
        if self.found.len() > before && node.inputs().any(is_block_weights) {
            self.notes.push(format!(
                "The block weights of a LoRA are not used ({node}): it acts on all blocks alike"
            ));
        }
    }

    /// Reads one input; returns whether it is understood as one or several LoRAs, also those that are off.
    fn read_entry(&mut self, node: NodeRef<'g>, name: &str, input: &NodeInput) -> bool {
        let key = name.to_lowercase();
        let is_name = is_name_key(&key);
        let value = match input {
            NodeInput::Value(value) => Some(value.clone()),
            // Such as a primitive with the file's name.
            NodeInput::Link(_) => is_name.then(|| node.value(name)).flatten(),
        };
        let Some(value) = value else {
            return false;
        };
        let value = value.get("__value__").unwrap_or(&value);
        let content = value.get("content").filter(|_| is_name);
        match (content.unwrap_or(value), key.contains("lora")) {
            (Value::String(text), is_lora) => {
                let is_name = is_name || (is_lora && text.ends_with(".safetensors"));
                if is_name {
                    self.add_named(node, &key, text);
                }
                is_name
            }
            (Value::Array(list), true) => {
                let objects = list.iter().filter(|it| self.add_object(node, it));
                objects.count() > 0
            }
            (object, true) => self.add_object(node, object),
            _ => false,
        }
    }

    /// Adds the LoRA of an input, with the strength and the switch of its number.
    fn add_named(&mut self, node: NodeRef<'g>, key: &str, file: &str) {
        let is_none = matches!(file.trim(), "" | "None" | "none" | "undefined");
        if is_none || !node.graph.spend(node.inputs.len()) {
            return;
        }
        let number = digits(key);
        let names = || node.node.inputs.keys().map(String::as_str);
        let is_off = |name: &str| {
            let letters = letters(name);
            let is_switch = letters == "on" || has_word(&letters, "LORA_SWITCHES");
            let is_its_own = ["", &number].contains(&&*digits(name));
            let value = || node.value(name);
            (is_switch && is_its_own && value().is_some_and(|it| is_on(&it) == Some(false)))
                || (letters == "bypass" && value() == Some(true.into()))
        };
        let count = names().find(|it| it.contains("count") || it.starts_with("num"));
        let most = count.and_then(|it| node.number(it));
        let is_beyond = most.is_some_and(|most| number.parse().is_ok_and(|it: f64| it > most));
        if is_beyond || names().any(is_off) {
            return;
        }
        let is_strength =
            |it: &&str| has_word(&it.to_lowercase(), "STRENGTHS") && digits(it) == number;
        let is_clip = |it: &&str| it.to_lowercase().contains("clip");
        let strengths = names().filter(is_strength);
        let (clips, mut strengths): (Vec<_>, Vec<_>) = strengths.partition(is_clip);
        let mode = node.name("mode, input_mode");
        let is_simple = mode.is_some_and(|mode| mode == "simple");
        strengths.sort_by_key(|it| it.contains("model") == is_simple);
        let strength = node.number(&strengths.join(", "));
        let strength = strength.or_else(|| strengths.is_empty().then_some(1.0));
        if strength.is_none() {
            let makers = strengths.iter().filter_map(|name| node.linked(name));
            makers.for_each(NodeRef::use_all);
        }
        // In the simple mode the one strength is for both.
        let clip = node.number(&clips.join(", ")).filter(|_| !is_simple);
        self.add(node, file, strength, clip);
    }

    /// Adds `{"lora": "ink", "strength": 0.8, "on": true}`; returns whether it is such an object.
    fn add_object(&mut self, node: NodeRef<'g>, value: &Value) -> bool {
        let Some(lora) = JsonFields::from_value(value) else {
            return false;
        };
        let inner = lora.object("lora, lora_name, name");
        let name = lora.name("lora, name, lora_name, file");
        let Some(name) = name.or_else(|| inner?.name("content, name")) else {
            // Not chosen yet.
            return lora.has("lora") || lora.has("name");
        };
        let mut switches = ["on", "active", "enabled", "toggle"].iter();
        let is_off = switches.any(|key| lora.get(key).and_then(is_on) == Some(false));
        if !is_off && name != "None" && self.found.len() <= MAX_LORAS {
            let strengths = "strength, strength_model, model_strength, model_weight, weight";
            let strength = lora.get(strengths).map_or(Some(1.0), fields::number);
            let clip = lora.number("strengthTwo, strength_clip, clip_strength, clip_weight");
            self.add(node, &name, strength, clip);
        }
        true
    }

    /// Adds a LoRA of a node, at 1 where its strength cannot be read. `clip` is that of the text encoder.
    fn add(&mut self, node: NodeRef<'g>, name: &str, strength: Option<f64>, clip: Option<f64>) {
        let file = short(file_name(name));
        if strength.is_none() {
            self.notes.push(format!(
                "The strength of the LoRA {file} could not be read ({node}): 1 is used"
            ));
        }
        let strength = strength.unwrap_or(1.0);
        if let Some(clip) = clip.filter(|clip| *clip != strength) {
            self.notes.push(format!(
                "The text encoder's strength {clip} of the LoRA {file} is not used: a LoRA has one strength for all, here {strength}"
            ));
        }
        self.found.push(RestoredLora::new(name, strength));
    }
}

/// `lora_name`, `lora_name_1`, `lora_1_name`, `lora_01`, `lora`
fn is_name_key(key: &str) -> bool {
    let letters = letters(key);
    let mut ends = ["lora", "name", "file", "path"].iter();
    letters.starts_with("lora") && ends.any(|end| letters.ends_with(end))
}

/// Returns whether an input names a LoRA in another way than by its file, such as by its number on a web site.
fn is_other_name(name: &str, text: &str) -> bool {
    let name = name.to_lowercase();
    let is_text = !matches!(text.trim(), "" | "None" | "none") && text.parse::<f64>().is_err();
    name.starts_with("lora") && !is_name_key(&name) && is_text
}

/// Lowercase letters of a name.
fn letters(name: &str) -> String {
    let name = name.to_lowercase();
    name.chars().filter(char::is_ascii_alphabetic).collect()
}

/// Number in a name, without leading zeros; empty without one.
fn digits(name: &str) -> String {
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    match digits.trim_start_matches('0') {
        "" if !digits.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    }
}

/// Returns whether an input weights the blocks of a LoRA apart; a weight of 1 for each is none.
fn is_block_weights((name, input): (&str, &NodeInput)) -> bool {
    let weights = input.value().map(|it| it.as_str().unwrap_or_default());
    let mut weights = weights.unwrap_or("linked").split(',');
    has_word(&name.to_lowercase(), "block_vector block_weight blocks lbw")
        && weights.any(|it| !matches!(it.trim(), "" | "1"))
}

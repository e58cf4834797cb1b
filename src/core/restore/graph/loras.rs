//! LoRAs of loaders, stacks, managers and loader packs, by the names of a node's inputs.

use crate::restore::names::file_name;
use serde_json::Value;

use super::walk::{GraphWalk, InputSource, LinkKind};
use super::{ComfyNode, NodeInput, has_word};
use crate::job::prompt::TaggedPrompt;
use crate::restore::fields::{self, JsonFields};
use crate::restore::{MAX_LORAS, RestoredLora, short};

/// Input names that give a strength; the text encoder's is not among them.
const STRENGTHS: &str = "strength weight _wt _str multiplier";
const SWITCHES: &str = "switch toggle enable active";

/// LoRAs of a node, those of the stacks that it is given included, in the order in which they are applied.
#[derive(Default)]
pub(super) struct NodeLoras {
    pub found: Vec<RestoredLora>,
    /// Sentences on what is not used.
    pub notes: Vec<String>,
    visited: Vec<*const ComfyNode>,
}

impl NodeLoras {
    /// Adds a LoRA of a node, at 1 where its strength cannot be read. `clip` is that of the text encoder.
    fn add(&mut self, node: &ComfyNode, name: &str, strength: Option<f64>, clip: Option<f64>) {
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

impl<'a> GraphWalk<'a> {
    pub fn read_loras(&self, node: &'a ComfyNode, loras: &mut NodeLoras) {
        let Some(_guard) = self.enter() else {
            return;
        };
        if loras.visited.contains(&std::ptr::from_ref(node)) {
            return;
        }
        loras.visited.push(node);
        let mut stacks = self.links_of(node, LinkKind::Lora);
        stacks.retain(|(name, stack)| {
            let source = self.follow(stack, name).and_then(InputSource::node);
            source.is_some_and(|source| {
                let before = loras.found.len();
                self.read_loras(source, loras);
                // Else it may give a name alone.
                let is_read = source.is_called("lora") || loras.found.len() > before;
                if is_read {
                    self.use_input(stack);
                }
                is_read
            })
        });
        let before = loras.found.len();
        let mut is_read = false;
        for (name, input) in node.sorted_inputs() {
            if loras.found.len() > MAX_LORAS {
                return;
            }
            if !stacks.iter().any(|(stack, _)| *stack == name)
                && self.read_entry(node, name, input, loras)
            {
                is_read = true;
                self.use_input(input);
            }
        }
        if loras.found.len() == before {
            let is_loader = node.is_called("lora");
            let texts = node.inputs.iter().filter_map(|(name, input)| match input {
                NodeInput::Value(Value::String(text)) if is_loader || name.contains("lora") => {
                    Some(text)
                }
                _ => None,
            });
            for tagged in texts.map(|text| TaggedPrompt::of_foreign(text, false)) {
                let found = tagged.loras.into_iter().map(RestoredLora::from);
                loras.found.extend(found);
                loras.notes.extend(tagged.notices);
            }
            let has_other = node.inputs.iter().any(is_other_name);
            let is_tagged = loras.found.len() > before;
            let is_unread = !(is_tagged || (is_read && !has_other))
                && stacks.is_empty()
                && (is_loader || has_other);
            if is_tagged || is_unread {
                self.use_node(node);
            }
            if is_unread {
                loras.notes.push(format!(
                    "{} sets a LoRA in a way that Safelight does not read as a whole: check its name and strength",
                    node.at_start()
                ));
            }
        }
        if loras.found.len() > before && node.inputs.iter().any(is_block_weights) {
            loras.notes.push(format!(
                "The block weights of a LoRA are not used ({node}): it acts on all blocks alike"
            ));
        }
    }

    /// Reads one input; returns whether it is understood as one or several LoRAs, also those that are off.
    fn read_entry(
        &self,
        node: &'a ComfyNode,
        name: &str,
        input: &'a NodeInput,
        loras: &mut NodeLoras,
    ) -> bool {
        let key = name.to_lowercase();
        let value = match input {
            NodeInput::Value(value) => value.clone(),
            // Such as a primitive with the file's name.
            NodeInput::Link(_) if is_name_key(&key) => match self.value(node, name) {
                Some(value) => value,
                None => return false,
            },
            NodeInput::Link(_) => return false,
        };
        let list = match &value {
            Value::Object(object) => object.get("__value__").unwrap_or(&value),
            value => value,
        };
        match list {
            Value::String(text) => {
                let has_ending = key.contains("lora") && text.ends_with(".safetensors");
                let is_name = is_name_key(&key) || has_ending;
                if is_name {
                    self.add_named(node, &key, text, loras);
                }
                is_name
            }
            Value::Object(object) if is_name_key(&key) && object.contains_key("content") => {
                let name = JsonFields::new(object).name("content").unwrap_or_default();
                self.add_named(node, &key, &name, loras);
                true
            }
            Value::Object(_) if key.contains("lora") => add_object(node, list, loras),
            Value::Array(list) if key.contains("lora") => {
                let objects = list.iter().filter(|it| add_object(node, it, loras));
                objects.count() > 0
            }
            _ => false,
        }
    }

    /// Adds the LoRA of an input, with the strength and the switch of its number.
    fn add_named(&self, node: &'a ComfyNode, key: &str, name: &str, loras: &mut NodeLoras) {
        let is_none = matches!(name.trim(), "" | "None" | "none" | "undefined");
        if is_none || !self.spend(node.inputs.len()) {
            return;
        }
        let number = digits(key);
        let names: Vec<&str> = node.inputs.keys().map(String::as_str).collect();
        let is_off = |it: &&str| {
            let letters = letters(it);
            let is_switch = letters == "on" || has_word(&letters, SWITCHES);
            let is_its_own = [String::new(), number.clone()].contains(&digits(it));
            let value = || self.value(node, it);
            (is_switch && is_its_own && value().is_some_and(|it| is_false(&it)))
                || (letters == "bypass" && value().is_some_and(|it| it == true))
        };
        let mut counts = names.iter();
        let count = counts.find(|it| it.contains("count") || it.starts_with("num"));
        let most = count.and_then(|it| self.number(node, it));
        let is_beyond = most.is_some_and(|most| number.parse().is_ok_and(|it: f64| it > most));
        if is_beyond || names.iter().any(is_off) {
            return;
        }
        let mut strengths = names;
        strengths.retain(|it| has_word(&it.to_lowercase(), STRENGTHS) && digits(it) == number);
        let is_clip = |it: &&str| it.to_lowercase().contains("clip");
        let (clips, mut strengths): (Vec<_>, Vec<_>) = strengths.into_iter().partition(is_clip);
        let mode = self.name(node, "mode, input_mode");
        let is_simple = mode.is_some_and(|mode| mode == "simple");
        strengths.sort_by_key(|it| it.contains("model") == is_simple);
        let strength = self.number(node, &strengths.join(", "));
        let strength = strength.or_else(|| strengths.is_empty().then_some(1.0));
        if strength.is_none() {
            for maker in strengths.iter().filter_map(|name| self.linked(node, name)) {
                self.use_node(maker);
            }
        }
        // In the simple mode the one strength is for both.
        let clip = self.number(node, &clips.join(", ")).filter(|_| !is_simple);
        loras.add(node, name, strength, clip);
    }
}

/// `lora_name`, `lora_name_1`, `lora_1_name`, `lora_01`, `lora`
fn is_name_key(key: &str) -> bool {
    let letters = letters(key);
    let ends = ["lora", "name", "file", "path"];
    letters.starts_with("lora") && ends.iter().any(|end| letters.ends_with(end))
}

/// Returns whether an input names a LoRA in another way than by its file, such as by its number on a web site.
fn is_other_name((name, input): (&String, &NodeInput)) -> bool {
    let name = name.to_lowercase();
    let is_text =
        |text: &str| !matches!(text.trim(), "" | "None" | "none") && text.parse::<f64>().is_err();
    name.starts_with("lora")
        && !is_name_key(&name)
        && matches!(input, NodeInput::Value(Value::String(text)) if is_text(text))
}

/// Lowercase letters of a name.
fn letters(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphabetic);
    letters.map(|it| it.to_ascii_lowercase()).collect()
}

/// Number in a name, without leading zeros.
fn digits(name: &str) -> String {
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    match digits.trim_start_matches('0') {
        "" if !digits.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    }
}

fn is_false(value: &Value) -> bool {
    match value {
        Value::Bool(is_on) => !is_on,
        Value::String(text) => matches!(text.to_lowercase().as_str(), "off" | "false" | "no"),
        _ => false,
    }
}

/// Returns whether an input weights the blocks of a LoRA apart; a weight of 1 for each is none.
fn is_block_weights((name, input): (&String, &NodeInput)) -> bool {
    let is_named = has_word(&name.to_lowercase(), "block_vector block_weight blocks lbw");
    is_named
        && match input {
            NodeInput::Value(Value::String(text)) => {
                text.split(',').any(|it| !matches!(it.trim(), "" | "1"))
            }
            NodeInput::Value(_) => false,
            NodeInput::Link(_) => true,
        }
}

/// Adds `{"lora": "ink", "strength": 0.8, "on": true}`; returns whether it is such an object.
fn add_object(node: &ComfyNode, value: &Value, loras: &mut NodeLoras) -> bool {
    let Some(lora) = JsonFields::from_value(value) else {
        return false;
    };
    let inner = lora.object("lora, lora_name, name");
    let name = lora.name("lora, name, lora_name, file");
    let name = name.or_else(|| inner?.name("content, name"));
    let is_off = ["on", "active", "enabled", "toggle"]
        .iter()
        .any(|key| lora.get(key).is_some_and(is_false));
    let Some(name) = name else {
        // Not chosen yet.
        return lora.has("lora") || lora.has("name");
    };
    if !is_off && name != "None" && loras.found.len() <= MAX_LORAS {
        let strengths =
            "strength, strength_model, strengthModel, model_strength, model_weight, weight";
        let clips =
            "strengthTwo, clipStrength, strength_clip, strengthClip, clip_strength, clip_weight";
        let strength = lora.get(strengths).map_or(Some(1.0), fields::number);
        loras.add(node, &name, strength, lora.number(clips));
    }
    true
}

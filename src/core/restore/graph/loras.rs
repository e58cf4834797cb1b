//! LoRAs of loaders, stacks, managers and loader packs, by the names of a node's inputs.

use serde_json::Value;

use super::link_kind::LinkKind;
use super::nodes::{NodeInput, NodeRef, has_word};
use super::tables::{LORA_SWITCHES, STRENGTHS};
use super::values::is_on;
use crate::job::prompt::TaggedPrompt;
use crate::restore::fields::{self, JsonFields};
use crate::restore::names::file_name;
use crate::restore::{MAX_LORAS, RestoredLora, short};

/// LoRAs of nodes, those of the stacks that they are given included, in the order in which they are applied.
#[derive(Default)]
pub(super) struct NodeLoras<'g> {
    pub found: Vec<RestoredLora>,
    /// Sentences on what is not used.
    pub notes: Vec<String>,
    visited: Vec<NodeRef<'g>>,
}

impl<'g> NodeLoras<'g> {
    pub fn read(&mut self, node: NodeRef<'g>) {
        if !self.visited.contains(&node) {
            self.visited.push(node);
            _ = node.graph.nested(|| self.read_node(node));
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
            let is_stack = source.is_some_and(|it| it.is_called("lora"));
            is_stack || self.found.len() > before
        });
        for stack in &stacks {
            node.use_input(stack);
        }
        let before = self.found.len();
        let mut is_read = false;
        for (name, input) in node.sorted_inputs() {
            if self.found.len() > MAX_LORAS {
                return;
            }
            if !stacks.contains(&name) && self.read_entry(node, name, input) {
                is_read = true;
                node.use_input(name);
            }
        }
        if self.found.len() == before {
            let texts: Vec<_> = node.texts().collect();
            let is_tagged = |name: &str| is_loader || name.contains("lora");
            for (_, text) in texts.iter().filter(|(name, _)| is_tagged(name)) {
                let tagged = TaggedPrompt::of_foreign(text, false);
                let found = tagged.loras.into_iter().map(RestoredLora::from);
                self.found.extend(found);
                self.notes.extend(tagged.notices);
            }
            let has_other = texts.iter().any(|(name, text)| is_other_name(name, text));
            let is_tagged = self.found.len() > before;
            let is_unread = !(is_tagged || (is_read && !has_other))
                && stacks.is_empty()
                && (is_loader || has_other);
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
        if self.found.len() > before && node.node.inputs.iter().any(is_block_weights) {
            self.notes.push(format!(
                "The block weights of a LoRA are not used ({node}): it acts on all blocks alike"
            ));
        }
    }

    /// Reads one input; returns whether it is understood as one or several LoRAs, also those that are off.
    fn read_entry(&mut self, node: NodeRef<'g>, name: &str, input: &NodeInput) -> bool {
        let key = name.to_lowercase();
        let value = match input {
            NodeInput::Value(value) => Some(value.clone()),
            // Such as a primitive with the file's name.
            NodeInput::Link(_) if is_name_key(&key) => node.value(name),
            NodeInput::Link(_) => None,
        };
        let Some(value) = value else {
            return false;
        };
        let value = value.get("__value__").unwrap_or(&value);
        let content = value.get("content").filter(|_| is_name_key(&key));
        match (content.unwrap_or(value), key.contains("lora")) {
            (Value::String(text), is_lora) => {
                let has_ending = is_lora && text.ends_with(".safetensors");
                let is_name = is_name_key(&key) || has_ending;
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
        let mut names: Vec<&str> = node.node.inputs.keys().map(String::as_str).collect();
        let is_off = |name: &&str| {
            let letters = letters(name);
            let is_switch = letters == "on" || has_word(&letters, LORA_SWITCHES);
            let is_its_own = [String::new(), number.clone()].contains(&digits(name));
            let value = || node.value(name);
            (is_switch && is_its_own && value().is_some_and(|it| is_on(&it) == Some(false)))
                || (letters == "bypass" && value() == Some(true.into()))
        };
        let count = names
            .iter()
            .find(|it| it.contains("count") || it.starts_with("num"));
        let most = count.and_then(|it| node.number(it));
        let is_beyond = most.is_some_and(|most| number.parse().is_ok_and(|it: f64| it > most));
        if is_beyond || names.iter().any(is_off) {
            return;
        }
        names.retain(|it| has_word(&it.to_lowercase(), STRENGTHS) && digits(it) == number);
        let is_clip = |it: &&str| it.to_lowercase().contains("clip");
        let (clips, mut strengths): (Vec<_>, Vec<_>) = names.into_iter().partition(is_clip);
        let is_simple = node
            .name("mode, input_mode")
            .is_some_and(|mode| mode == "simple");
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
            let strengths =
                "strength, strength_model, strengthModel, model_strength, model_weight, weight";
            let clips = "strengthTwo, clipStrength, strength_clip, strengthClip, clip_strength, clip_weight";
            let strength = lora.get(strengths).map_or(Some(1.0), fields::number);
            self.add(node, &name, strength, lora.number(clips));
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

/// Returns whether an input weights the blocks of a LoRA apart; a weight of 1 for each is none.
fn is_block_weights((name, input): (&String, &NodeInput)) -> bool {
    let is_named = has_word(&name.to_lowercase(), "block_vector block_weight blocks lbw");
    let acts = || match input {
        NodeInput::Value(value) => {
            let mut weights = value.as_str().unwrap_or_default().split(',');
            weights.any(|it| !matches!(it.trim(), "" | "1"))
        }
        NodeInput::Link(_) => true,
    };
    is_named && acts()
}

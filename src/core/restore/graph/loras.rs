//! LoRAs of loaders, stacks, managers and loader packs, by the names of a node's inputs.

use serde_json::Value;

use super::walk::{LinkKind, Walk};
use super::{Input, Node, has_word};
use crate::restore::fields::{self, Fields};
use crate::restore::{MAX_LORAS, RestoredLora, a1111};

/// Input names that give a strength; the text encoder's is not among them.
const STRENGTHS: &str = "strength weight _wt _str multiplier";
const SWITCHES: &str = "switch toggle enable active";

/// LoRAs of a node, those of the stacks that it is given included, in the order in which they are applied.
#[derive(Default)]
pub(super) struct NodeLoras<'a> {
    pub found: Vec<RestoredLora>,
    /// Nodes that set a LoRA in a way that is not read, or not as a whole.
    pub unread: Vec<&'a Node>,
    visited: Vec<*const Node>,
}

impl<'a> Walk<'a> {
    pub fn read_loras(&self, node: &'a Node, loras: &mut NodeLoras<'a>) {
        let Some(_guard) = self.enter() else {
            return;
        };
        if loras.visited.contains(&std::ptr::from_ref(node)) {
            return;
        }
        loras.visited.push(node);
        let stacks = self.links_of(node, LinkKind::Lora);
        for (name, stack) in &stacks {
            let source = self.follow(stack, name);
            if let Some(stack) = source.and_then(super::walk::Source::node) {
                self.read_loras(stack, loras);
            }
        }
        let before = loras.found.len();
        let mut is_read = false;
        for (name, input) in node.sorted_inputs() {
            if loras.found.len() >= MAX_LORAS {
                return;
            }
            is_read |= self.read_entry(node, name, input, loras);
        }
        if loras.found.len() == before && node.is_called("lora") {
            let texts = node.inputs.values().filter_map(|input| match input {
                Input::Value(Value::String(text)) => Some(text),
                _ => None,
            });
            let tags = texts.flat_map(|text| a1111::without_loras(text).1);
            loras.found.extend(tags);
            is_read |= loras.found.len() > before;
        }
        if !is_read && stacks.is_empty() && node.is_called("lora") {
            loras.unread.push(node);
        }
    }

    /// Reads one input; returns whether it is understood as one or several LoRAs, also those that are off.
    fn read_entry(
        &self,
        node: &'a Node,
        name: &str,
        input: &'a Input,
        loras: &mut NodeLoras<'a>,
    ) -> bool {
        let key = name.to_lowercase();
        let value = match input {
            Input::Value(value) => value.clone(),
            // Such as a primitive with the file's name.
            Input::Link(_) if is_name_key(&key) => match self.value(node, &[name]) {
                Some(value) => value,
                None => return false,
            },
            Input::Link(_) => return false,
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
                let name = Fields(object).name(&["content"]).unwrap_or_default();
                self.add_named(node, &key, &name, loras);
                true
            }
            Value::Object(_) if key.contains("lora") => add_object(list, &mut loras.found),
            Value::Array(list) if key.contains("lora") => {
                list.iter()
                    .filter(|it| add_object(it, &mut loras.found))
                    .count()
                    > 0
            }
            _ => false,
        }
    }

    /// Adds the LoRA of an input, with the strength and the switch of its number.
    fn add_named(&self, node: &'a Node, key: &str, name: &str, loras: &mut NodeLoras<'a>) {
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
            is_switch && is_its_own && self.value(node, &[it]).is_some_and(|it| is_false(&it))
        };
        let most = names
            .iter()
            .find(|it| it.contains("count") || it.starts_with("num"));
        let most = most.and_then(|it| self.number(node, &[it]));
        let is_beyond = most
            .zip(number.parse().ok())
            .is_some_and(|(most, it): (f64, f64)| it > most);
        if is_beyond || names.iter().any(is_off) {
            return;
        }
        let mut strengths: Vec<&str> = names
            .into_iter()
            .filter(|it| {
                let lower = it.to_lowercase();
                let is_strength = has_word(&lower, STRENGTHS);
                is_strength && !lower.contains("clip") && digits(it) == number
            })
            .collect();
        let mode = self.name(node, &["mode", "input_mode"]);
        let is_simple = mode.is_some_and(|mode| mode == "simple");
        strengths.sort_by_key(|it| it.contains("model") == is_simple);
        let strength = self.number(node, &strengths);
        if strength.is_none() && !strengths.is_empty() {
            loras.unread.push(node);
        }
        loras
            .found
            .push(RestoredLora::new(name, strength.unwrap_or(1.0)));
    }
}

/// `lora_name`, `lora_name_1`, `lora_1_name`, `lora_01`, `lora`
fn is_name_key(key: &str) -> bool {
    let letters = letters(key);
    let ends = ["lora", "name", "file", "path"];
    letters.starts_with("lora") && ends.iter().any(|end| letters.ends_with(end))
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

/// Adds `{"lora": "ink", "strength": 0.8, "on": true}`; returns whether it is such an object.
fn add_object(value: &Value, found: &mut Vec<RestoredLora>) -> bool {
    let Some(lora) = Fields::of(value) else {
        return false;
    };
    let inner = lora.object(&["lora", "lora_name", "name"]);
    let name = lora.name(&["lora", "name", "lora_name", "file"]);
    let name = name.or_else(|| inner?.name(&["content", "name"]));
    let is_off = ["on", "active", "enabled", "toggle"]
        .iter()
        .any(|key| lora.get(&[key]).is_some_and(is_false));
    let Some(name) = name else {
        // Not chosen yet.
        return lora.has("lora") || lora.has("name");
    };
    if !is_off && name != "None" && found.len() < MAX_LORAS {
        let keys = [
            "strength",
            "strength_model",
            "strengthModel",
            "model_strength",
            "model_weight",
            "weight",
        ];
        let strength = lora.get(&keys).and_then(fields::number).unwrap_or(1.0);
        found.push(RestoredLora::new(&name, strength));
    }
    true
}

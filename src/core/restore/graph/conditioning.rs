//! Prompts: from a sampler's conditioning back to the texts that were encoded.

use super::text::Unread;
use super::walk::{LinkKind, Source, Walk};
use super::{Input, Node};
use crate::restore::{Restored, RestoredLora, a1111};

/// Nodes on the way of one prompt.
const MAX_VISITED: usize = 500;
/// Inputs of text encoders, the one that counts most first.
const TEXTS: &str = "populated_text text t5xxl prompt llama clip_l clip_g text_g text_l";

/// Text of a conditioning, and what was met on the way to it.
#[derive(Default)]
pub(super) struct EncodedPrompt<'a> {
    /// Nearest the sampler first.
    pub visited: Vec<&'a Node>,
    /// Nodes that bring several prompts together.
    joints: Vec<&'a Node>,
    /// Nodes that give their encoders different texts, of which one is used.
    several_texts: Option<&'a Node>,
    /// LoRAs that a text names for its node to load.
    loras: Vec<RestoredLora>,
}

impl<'a> Walk<'a> {
    /// Text behind a conditioning; `side` is `positive` or `negative`.
    pub fn encoded(
        &self,
        source: Option<Source<'a>>,
        side: &str,
        found: &mut EncodedPrompt<'a>,
    ) -> Result<String, Unread<'a>> {
        let _guard = self.enter().ok_or(None)?;
        let (node, slot) = match source.ok_or(None)? {
            Source::Node(node, slot) => (node, slot),
            Source::Value(value) => return value.as_str().map(str::to_owned).ok_or(None),
        };
        if found.visited.len() < MAX_VISITED {
            found.visited.push(node);
        }
        if node.class.contains("ZeroOut") {
            return Ok(String::new());
        }
        // A node for both prompts gives each at its own slot.
        let side = side_at(node, slot, side);
        let follow = |name: &str| {
            node.inputs
                .get(name)
                .and_then(|input| self.follow(input, name))
        };
        if let Some(input) = node.inputs.get(side) {
            let before = found.visited.len();
            return self
                .encoded(self.follow(input, side), side, found)
                .or_else(|unread| {
                    found.visited.truncate(before);
                    self.text(input, side).or(Err(unread))
                });
        }
        let conditionings = self.links_of(node, LinkKind::Conditioning);
        let other = if side == "negative" {
            "positive"
        } else {
            "negative"
        };
        let mut names: Vec<&str> = conditionings.iter().map(|(name, _)| *name).collect();
        names.retain(|name| !name.contains(other));
        // What is added to is written before what is added.
        names.sort_by_key(|name| name.ends_with("_from"));
        if names.len() > 1 {
            found.joints.push(node);
            let mut texts = Vec::new();
            for name in names {
                let text = self.encoded(follow(name), side, found)?;
                if !text.trim().is_empty() && !texts.contains(&text) {
                    texts.push(text);
                }
            }
            return Ok(texts.join(", "));
        }
        if let Some(name) = names.first() {
            return self.encoded(follow(name), side, found);
        }
        let own = [format!("{side}_prompt"), format!("text_{side}")];
        let own = own.iter().map(String::as_str).chain(TEXTS.split(' '));
        let texts: Vec<(&str, &Input)> = own
            .filter_map(|name| {
                Some((
                    node.inputs.get_key_value(name)?.0.as_str(),
                    &node.inputs[name],
                ))
            })
            .collect();
        if let Some((name, input)) = texts.first() {
            let text = self
                .text(input, name)
                .map_err(|inner| inner.or(Some(node)))?;
            let mut others = texts[1..]
                .iter()
                .filter_map(|(name, it)| self.text(it, name).ok());
            if others.any(|other| !other.is_empty() && other != text) && *name != "populated_text" {
                found.several_texts = Some(node);
            }
            if node.is_called("wildcardencode powerprompt") {
                let (text, loras) = a1111::without_loras(&text);
                found.loras.extend(loras);
                return Ok(text);
            }
            return Ok(text);
        }
        if let Some((_, pipe)) = self.links_of(node, LinkKind::Pipe).first() {
            let source = self.follow(pipe, side).map(|source| match source {
                // The pipe's own slot says nothing of the member.
                Source::Node(node, _) => Source::Node(node, u64::MAX),
                value @ Source::Value(_) => value,
            });
            return self.encoded(source, side, found);
        }
        let mut links = node.links();
        match (links.next(), links.next()) {
            (Some((name, link)), None) if self.kind(name, link) == LinkKind::Unknown => {
                self.encoded(follow(name), side, found)
            }
            _ => Err(Some(node)),
        }
    }

    /// Reads one prompt into `restored`, with notes on what is not as it was.
    pub fn read_prompt(
        &self,
        source: Option<Source<'a>>,
        side: &str,
        restored: &mut Restored,
    ) -> EncodedPrompt<'a> {
        let mut found = EncodedPrompt::default();
        let prompt = self.encoded(source, side, &mut found);
        let is_positive = side == "positive";
        let name = if is_positive {
            "prompt"
        } else {
            "negative prompt"
        };
        for joint in &found.joints {
            let node = joint.described();
            restored.note(if joint.is_called("concat") {
                format!("The {name} is two texts in one: {node} encoded them separately")
            } else {
                format!(
                    "The {name} is several prompts in one: {node} combined what the model made of each, which gives another result"
                )
            });
        }
        for node in &found.visited {
            if node.is_called("setarea setmask timesteprange") {
                let node = node.described();
                restored.note(format!(
                    "The {name} acted on a part of the image or of the steps ({node}), and acts on all of it here"
                ));
            }
        }
        if let Some(node) = found.several_texts {
            let node = node.described();
            restored.note(format!(
                "The text encoders had different texts ({node}): the first is used for all"
            ));
        }
        if let Some(node) = self.stored_text.take() {
            let node = node.described();
            restored.note(format!(
                "The {name} was computed by other nodes: the text that {node} shows is used"
            ));
        }
        for lora in std::mem::take(&mut found.loras) {
            restored.add_lora(lora);
        }
        match prompt {
            Ok(text) if is_positive => restored.prompt = Some(text),
            Ok(text) => restored.negative_prompt = Some(text),
            Err(node) => {
                let by = node.map_or_else(String::new, |node| {
                    format!(": {} makes it", node.described())
                });
                if is_positive {
                    restored.unread_prompt = Some(format!(
                        "The prompt could not be read{by}. Write the prompt yourself"
                    ));
                } else {
                    restored.note(format!(
                        "The negative prompt could not be read{by}. The model's own is used"
                    ));
                }
            }
        }
        found
    }
}

/// Side that a node gives at a slot: by the slot's name, else as it is asked for. Without names, the first slot of a
/// node of two conditionings is the positive one.
fn side_at<'s>(node: &Node, slot: u64, side: &'s str) -> &'s str {
    let index = usize::try_from(slot).unwrap_or(usize::MAX);
    let name = node.outputs.get(index).map(|slot| slot.name.to_lowercase());
    match name {
        Some(name) if name.contains("neg") => "negative",
        Some(name) if name.contains("pos") => "positive",
        _ if slot == 0 && node.has("positive") && !node.has("model") => "positive",
        _ => side,
    }
}

//! Prompts: from a sampler's conditioning back to the texts that were encoded.

use std::collections::BTreeMap;

use super::text::{UnreadText, is_schedule};
use super::walk::{GraphWalk, InputSource, LinkKind, is_sampler};
use super::{ComfyNode, NodeInput, has_word};
use crate::job::prompt::TaggedPrompt;
use crate::restore::{ForeignSettings, short};

/// Nodes on the way of one prompt.
const MAX_VISITED: usize = 500;
/// Inputs of text encoders, the one that counts most first.
const TEXTS: &str = "populated_text text t5xxl prompt llama clip_l clip_g text_g text_l";

/// Text of a conditioning, and what was met on the way to it.
#[derive(Default)]
pub(super) struct EncodedPrompt<'a> {
    /// Nearest the sampler first.
    pub visited: Vec<&'a ComfyNode>,
    /// Sentences on what the prompt is besides its text.
    notes: Vec<String>,
    /// Tags of texts whose nodes load the LoRAs of their tags, by the node's id.
    pub tagged: BTreeMap<&'a str, TaggedPrompt>,
}

impl<'a> GraphWalk<'a> {
    /// Text of a conditioning; `side` is `positive` or `negative`.
    pub fn encoded(
        &self,
        source: Option<InputSource<'a>>,
        side: &str,
        found: &mut EncodedPrompt<'a>,
    ) -> Result<String, UnreadText<'a>> {
        let _guard = self.enter().ok_or(None)?;
        let (node, slot) = match source.ok_or(None)? {
            InputSource::Node(node, slot) => (node, slot),
            InputSource::Value(value) => return value.as_str().map(str::to_owned).ok_or(None),
        };
        if found.visited.len() < MAX_VISITED {
            found.visited.push(node);
        }
        if node.is_switch() {
            // It is not known what it chooses.
            return Err(Some(node));
        }
        if node.is_called("setarea setmask timesteprange") {
            self.use_node(node);
            found.notes.push(format!(
                "acted on a part of the image or of the steps ({node}), and acts on all of it here"
            ));
        }
        if node.class.contains("ZeroOut") {
            // The text before it has no effect.
            let before = node.links().filter_map(|(name, _)| self.linked(node, name));
            before.for_each(|node| self.use_node(node));
            return Ok(String::new());
        }
        let side = side_at(node, slot, side);
        let conditionings = self.links_of(node, LinkKind::Conditioning);
        let mut names: Vec<&str> = conditionings.iter().map(|(name, _)| *name).collect();
        if side == "positive" && names.iter().any(|name| named_side(name) == Some("nag")) {
            self.use_node(node);
            found.notes.push(format!(
                "had NAG with a text of its own ({node}), which is not used"
            ));
        }
        let follow = |name: &str| self.follow(node.inputs.get(name)?, name);
        if let Some(input) = node.inputs.get(side) {
            let before = found.visited.len();
            if matches!(input, NodeInput::Value(_)) {
                self.use_input(input);
            }
            return self
                .encoded(self.follow(input, side), side, found)
                .or_else(|unread| {
                    let text = self.text(input, side).or(Err(unread))?;
                    found.visited.truncate(before);
                    Ok(text)
                });
        }
        let is_named = names.iter().any(|name| named_side(name) == Some(side));
        names.retain(|name| match named_side(name) {
            Some(named) => named == side,
            None => !is_named,
        });
        // The base is listed before the addition.
        names.sort_by_key(|name| name.ends_with("_from"));
        let share = self.number(node, "conditioning_to_strength");
        if let Some(share @ (0.0 | 1.0)) = share {
            names.retain(|name| {
                let acts = name.ends_with("_from") == (share == 0.0);
                if !acts && let Some(InputSource::Node(idle, _)) = follow(name) {
                    self.use_node(idle);
                }
                acts
            });
        }
        if names.len() > 1 {
            let is_last = is_sampler(node) || node.is_called("guider");
            let note = if node.is_called("concat") {
                format!("is two texts in one: {node} encoded them separately")
            } else {
                format!(
                    "is several prompts in one: {node} combined what the model made of each, which gives another result"
                )
            };
            if !is_last {
                self.use_node(node);
                found.notes.push(note);
            }
            let mut texts = Vec::new();
            for name in names {
                let text = self.encoded(follow(name), side, found)?;
                if !text.trim().is_empty() && !texts.contains(&text) {
                    texts.push(text);
                }
            }
            if is_last && texts.len() > 1 {
                // It is not known what each is for.
                return Err(Some(node));
            }
            return Ok(texts.join(", "));
        }
        if let Some(name) = names.first() {
            return self.encoded(follow(name), side, found);
        }
        if let Some(text) = self.own_text(node, side, found)? {
            return Ok(text);
        }
        if let Some(pipe) = self.pipe(node) {
            let source = self.follow(pipe, side).map(|source| match source {
                // The pipe's own slot says nothing of the member.
                InputSource::Node(node, _) => InputSource::Node(node, u64::MAX),
                value @ InputSource::Value(_) => value,
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

    /// Text in the inputs of an encoder; `None` without such inputs.
    fn own_text(
        &self,
        node: &'a ComfyNode,
        side: &str,
        found: &mut EncodedPrompt<'a>,
    ) -> Result<Option<String>, UnreadText<'a>> {
        let own = [format!("{side}_prompt"), format!("text_{side}")];
        let own = own.iter().map(String::as_str).chain(TEXTS.split(' '));
        let texts = own.filter_map(|name| node.inputs.get_key_value(name));
        let texts: Vec<(&String, &NodeInput)> = texts.collect();
        let Some((name, input)) = texts.first() else {
            return Ok(None);
        };
        let text = self
            .text(input, name)
            .map_err(|inner| inner.or(Some(node)))?;
        if is_schedule(&text) {
            return Err(Some(node));
        }
        let mut others = texts[1..]
            .iter()
            .filter_map(|(name, it)| Some((name, self.text(it, name).ok()?)));
        let other = others.find(|(_, other)| !other.is_empty() && *other != text);
        if let Some((other, dropped)) = other.filter(|_| *name != "populated_text") {
            let dropped = short(&dropped);
            found.notes.push(format!(
                "had different texts for its encoders ({node}): that of {name} is used for all, and that of {other} is not: {dropped}"
            ));
        }
        if node.is_called("wildcardencode powerprompt") {
            let mut tagged = TaggedPrompt::of_foreign(&text, false);
            let text = std::mem::take(&mut tagged.text);
            found.tagged.insert(&node.id, tagged);
            return Ok(Some(text));
        }
        Ok(Some(text))
    }

    /// Reads one prompt into `restored`, with notes on what is not as it was.
    pub fn read_prompt(
        &self,
        source: Option<InputSource<'a>>,
        side: &str,
        restored: &mut ForeignSettings,
    ) -> EncodedPrompt<'a> {
        let mut found = EncodedPrompt::default();
        let prompt = self.encoded(source, side, &mut found);
        let is_positive = side == "positive";
        let name = if is_positive {
            "prompt"
        } else {
            "negative prompt"
        };
        let shown = self
            .stored_text
            .take()
            .map(|node| format!("was computed by other nodes: the text that {node} shows is used"));
        for note in std::mem::take(&mut found.notes).into_iter().chain(shown) {
            restored.note(format!("The {name} {note}"));
        }
        match prompt {
            Ok(text) if is_positive => restored.prompt = Some(text),
            Ok(text) => restored.negative_prompt = Some(text),
            Err(node) => {
                let maker = node.filter(|node| !is_sampler(node));
                let node = maker
                    .or_else(|| self.broadcasters.first().copied())
                    .or(node);
                if let Some(node) = node {
                    self.name_node(node);
                }
                let by = node.map_or_else(String::new, |node| format!(": {node} makes it"));
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

/// Side that the name of an input speaks of: `positive`, `negative`, or `nag`, another guidance.
pub(super) fn named_side(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let starts = |start: &str| {
        let mut words = name.split(|it: char| !it.is_ascii_alphabetic());
        words.any(|word| word.starts_with(start))
    };
    if starts("nag") {
        Some("nag")
    } else if starts("neg") || starts("uncond") || name.contains("negative") {
        Some("negative")
    } else {
        has_word(&name, "positive pos_").then_some("positive")
    }
}

/// Side that a node gives at a slot: by the slot's name, else as wanted. Without names, a node of two
/// conditionings gives the positive one first.
fn side_at<'s>(node: &ComfyNode, slot: u64, side: &'s str) -> &'s str {
    let is_loader = node.has("model") || node.is_called("loader");
    let is_linked = |side: &&str| node.link(side).is_some();
    match node.output(slot).map(|slot| slot.name.to_lowercase()) {
        Some(name) if name.contains("neg") => "negative",
        Some(name) if name.contains("pos") => "positive",
        _ if slot == 0 && node.has("positive") && !is_loader => "positive",
        _ if slot == 1 && ["positive", "negative"].iter().all(is_linked) && !is_loader => {
            "negative"
        }
        _ => side,
    }
}

//! Prompts: from a sampler's conditioning back to the texts that were encoded.

use std::collections::BTreeMap;

use super::nodes::{Id, InputSource, LinkKind, NodeRef, has_word, names_of};
use super::results::is_sampler;
use super::texts::{TextResult, is_schedule};
use crate::job::prompt::TaggedPrompt;
use crate::restore::{ForeignSettings, short};

/// Nodes on the way of one prompt.
const MAX_VISITED: usize = 500;

/// Nodes that were met on the way to a prompt's text, and what they say of it.
#[derive(Default)]
pub(super) struct EncodedPrompt<'g> {
    /// Nearest the sampler first.
    pub visited: Vec<NodeRef<'g>>,
    /// Sentences on what the prompt is besides its text.
    notes: Vec<String>,
    /// Tags of texts whose nodes load the LoRAs of their tags, by the node's id.
    pub tagged: BTreeMap<Id, TaggedPrompt>,
}

impl<'g> EncodedPrompt<'g> {
    /// Reads the prompt of a sampler or guider into `restored`, with notes on what is not as it was; `side` is `positive`
    /// or `negative`.
    pub fn read(guided: NodeRef<'g>, side: &str, restored: &mut ForeignSettings) -> Self {
        let mut found = Self::default();
        // No slot of the sampler itself is meant.
        let prompt = found.text_of(Some(InputSource::Node(guided, u64::MAX)), side);
        let is_positive = side == "positive";
        let (name, text, instead) = if is_positive {
            let text = &mut restored.prompt;
            ("prompt", text, "Write the prompt yourself")
        } else {
            let text = &mut restored.negative_prompt;
            ("negative prompt", text, "The model's own is used")
        };
        let unread = match prompt {
            Ok(prompt) => {
                *text = Some(prompt);
                None
            }
            Err(node) => {
                let maker = node.filter(|node| !is_sampler(*node));
                let maker = maker.or_else(|| guided.graph.broadcasters().next());
                let maker = maker.or(node).inspect(|node| node.use_all());
                let by = maker.map_or_else(String::new, |node| format!(": {node} makes it"));
                Some(format!("The {name} could not be read{by}. {instead}"))
            }
        };
        let shown = guided.graph.stored_text.take();
        let shown = shown
            .map(|node| format!("was computed by other nodes: the text that {node} shows is used"));
        for note in std::mem::take(&mut found.notes).into_iter().chain(shown) {
            restored.note(format!("The {name} {note}"));
        }
        if is_positive {
            restored.unread_prompt = unread;
        } else {
            restored.add_notes(unread.into_iter().collect());
        }
        found
    }

    fn text_of(&mut self, source: Option<InputSource<'g>>, side: &str) -> TextResult<'g> {
        match source.ok_or(None)? {
            InputSource::Value(value) => value.as_str().map(str::to_owned).ok_or(None),
            InputSource::Node(node, slot) => {
                let text = node.graph.nested(|| Some(self.text_at(node, slot, side)));
                text.unwrap_or(Err(None))
            }
        }
    }

    /// Text of the conditioning that a node gives at a slot.
    fn text_at(&mut self, node: NodeRef<'g>, slot: u64, side: &str) -> TextResult<'g> {
        if self.visited.len() < MAX_VISITED {
            self.visited.push(node);
        }
        if node.is_switch() {
            // It is not known what it chooses.
            return Err(Some(node));
        }
        if node.is_called("PROMPT_AREAS") {
            let done = "acted on a part of the image or of the steps";
            self.note(node, done, ", and acts on all of it here");
        }
        if node.class.contains("ZeroOut") {
            // The text before it has no effect.
            node.all_linked().for_each(NodeRef::use_all);
            if side == "positive" {
                self.note(node, "was replaced by zeros", ": it is empty here");
            }
            return Ok(String::new());
        }
        let side = side_at(node, slot, side);
        let mut names = node.links_of(LinkKind::Conditioning);
        if side == "positive" && names.iter().any(|name| named_side(name) == Some("nag")) {
            self.note(
                node,
                "had NAG with a text of its own",
                ", which is not used",
            );
        }
        if let Some(input) = node.input(side) {
            let before = self.visited.len();
            if input.value().is_some() {
                node.use_input(side);
            }
            return self.text_of(node.source(side), side).or_else(|unread| {
                let text = node.text(side).or(Err(unread))?;
                self.visited.truncate(before);
                Ok(text)
            });
        }
        let is_named = names.iter().any(|name| named_side(name) == Some(side));
        names.retain(|name| named_side(name).map_or(!is_named, |named| named == side));
        // The base is listed before the addition.
        names.sort_by_key(|name| name.ends_with("_from"));
        if let Some(share @ (0.0 | 1.0)) = node.number("conditioning_to_strength") {
            let acts = |name: &&str| name.ends_with("_from") == (share == 0.0);
            let (acting, idle): (Vec<_>, Vec<_>) = names.into_iter().partition(acts);
            let idle = idle.into_iter().filter_map(|name| node.linked(name));
            idle.for_each(NodeRef::use_all);
            names = acting;
        }
        if !names.is_empty() {
            return self.combined(node, names, side);
        }
        if let Some(text) = self.encoder_text(node, side)? {
            return Ok(text);
        }
        if let Some(pipe) = node.pipe() {
            let source = node.graph.far_end(pipe, side).map(|source| match source {
                // The pipe's own slot says nothing of the member.
                InputSource::Node(node, _) => InputSource::Node(node, u64::MAX),
                value @ InputSource::Value(_) => value,
            });
            return self.text_of(source, side);
        }
        match node.links().collect::<Vec<_>>()[..] {
            [(name, link)] if node.graph.kind(name, link) == LinkKind::Unknown => {
                self.text_of(node.source(name), side)
            }
            _ => Err(Some(node)),
        }
    }

    /// Texts of all these inputs of a node.
    fn combined(&mut self, node: NodeRef<'g>, names: Vec<&str>, side: &str) -> TextResult<'g> {
        let is_last = is_sampler(node) || node.is_called("guider");
        if let [name] = names[..] {
            return self.text_of(node.source(name), side);
        }
        if !is_last {
            node.use_all();
            self.notes.push(if node.is_called("concat") {
                format!("is two texts in one: {node} encoded them separately")
            } else {
                format!("is several prompts in one: {node} combined what the model made of each, which gives another result")
            });
        }
        let mut texts = Vec::new();
        for name in names {
            let text = self.text_of(node.source(name), side)?;
            if !text.trim().is_empty() && !texts.contains(&text) {
                texts.push(text);
            }
        }
        if is_last && texts.len() > 1 {
            // It is not known what each is for.
            return Err(Some(node));
        }
        Ok(texts.join(", "))
    }

    /// Text in the inputs of an encoder; `None` without such inputs.
    fn encoder_text(
        &mut self,
        node: NodeRef<'g>,
        side: &str,
    ) -> Result<Option<String>, Option<NodeRef<'g>>> {
        let own = [format!("{side}_prompt"), format!("text_{side}")];
        let own = own.iter().map(String::as_str);
        let mut names = own
            .chain(names_of("ENCODED_TEXTS"))
            .filter(|name| node.has(name));
        let Some(name) = names.next() else {
            return Ok(None);
        };
        let text = node.text(name).map_err(|inner| inner.or(Some(node)))?;
        if is_schedule(&text) {
            return Err(Some(node));
        }
        let mut others = names.filter_map(|name| Some((name, node.text(name).ok()?)));
        let other = others.find(|(_, other)| !other.is_empty() && *other != text);
        if let Some((other, dropped)) = other.filter(|_| name != "populated_text") {
            let dropped = short(&dropped);
            self.notes.push(format!(
                "had different texts for its encoders ({node}): that of {name} is used for all, and that of {other} is not: {dropped}"
            ));
        }
        if !node.is_called("TAG_ENCODERS") {
            return Ok(Some(text));
        }
        let mut tagged = TaggedPrompt::of_foreign(&text, false);
        let text = std::mem::take(&mut tagged.text);
        self.tagged.insert(node.id.clone(), tagged);
        Ok(Some(text))
    }

    /// Notes what a node did with the prompt, and what is done here.
    fn note(&mut self, node: NodeRef<'g>, done: &str, here: &str) {
        node.use_all();
        self.notes.push(format!("{done} ({node}){here}"));
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
fn side_at<'s>(node: NodeRef<'_>, slot: u64, side: &'s str) -> &'s str {
    let is_loader = node.has("model") || node.is_called("loader");
    let is_linked = |side: &&str| node.link(side).is_some();
    match node.output(slot).map(|slot| slot.name.to_lowercase()) {
        Some(name) if name.contains("neg") => "negative",
        Some(name) if name.contains("pos") => "positive",
        _ if is_loader => side,
        _ if slot == 0 && node.has("positive") => "positive",
        _ if slot == 1 && ["positive", "negative"].iter().all(is_linked) => "negative",
        _ => side,
    }
}

//! Texts: literals, the plain string functions, and results that the file stores. Nothing else is guessed.

use serde_json::Value;

use super::walk::{GraphWalk, InputSource, LinkKind};
use super::{ComfyNode, NodeInput, has_word};

/// Bytes of a text that is put together.
const MAX_TEXT: usize = 1 << 18;
/// Nodes that show a text and hand it on.
pub(super) const DISPLAYS: &str = "showtext showany display preview debug";
/// Inputs in which nodes store the text that they gave.
const RESULTS: [&str; 2] = ["populated_text", "result"];
const SHOWN_RESULTS: [&str; 3] = ["text_0", "text2", "text"];
/// Nodes whose text is computed by a network, drawn at random or taken from elsewhere.
const GENERATORS: &str =
    "llm gpt ollama generat caption describe enhance translat random wildcard load style";
/// Nodes that make another text of one.
const CHANGES: &str = "upper lower case split append prepend slice substr truncat extract remove filter sort shuffle reverse regex schedul format pars";
/// Inputs of nodes that join texts, besides the texts.
const JOIN_OPTIONS: &str = "delimiter separator mode action operation tidy_tags clean_whitespace";

/// Node that computes a text in a way that is not followed; `None` where a link ends nowhere.
pub(super) type UnreadText<'a> = Option<&'a ComfyNode>;

impl<'a> GraphWalk<'a> {
    /// Text at the far end of an input.
    pub fn text(&self, input: &'a NodeInput, name: &str) -> Result<String, UnreadText<'a>> {
        let _guard = self.enter().ok_or(None)?;
        let text = match self.follow(input, name).ok_or(None)? {
            InputSource::Value(Value::String(text)) => text.clone(),
            InputSource::Value(Value::Number(number)) => number.to_string(),
            InputSource::Value(_) => return Err(None),
            InputSource::Node(node, slot) => self.computed_text(node, slot)?,
        };
        self.use_input(input);
        self.spend(text.len() / 256).then_some(text).ok_or(None)
    }

    fn computed_text(&self, node: &'a ComfyNode, slot: u64) -> Result<String, UnreadText<'a>> {
        // Else its name is in the sentence on the prompt.
        self.use_node(node);
        let own = |name: &str| self.input_text(node, name);
        let mut texts = node.sorted_inputs();
        texts.retain(|(name, input)| is_text(self, node, name, input));
        let is_display = node.is_called(DISPLAYS);
        let mut linked = texts.iter();
        let linked = linked.find(|(_, input)| matches!(input, NodeInput::Link(_)));
        if is_display && let Some((name, input)) = linked {
            // The stored text may be that of an earlier run.
            if let Ok(text) = self.text(input, name) {
                return Ok(text);
            }
            let shown = SHOWN_RESULTS.iter();
            let mut shown = shown.filter(|shown| node.link(shown).is_none());
            if let Some(Ok(text)) = shown.find_map(|name| own(name)) {
                self.stored_text.set(Some(node));
                return Ok(text);
            }
        }
        if let Some(text) = RESULTS.iter().find_map(|name| own(name)) {
            return text;
        }
        if is_second_text(node, slot) {
            return Err(Some(node));
        }
        let is_for = |word: &str| {
            let is_it = |name: &&str| matches!(own(name), Some(Ok(it)) if it == word);
            node.is_called(word) || ["mode", "action", "operation"].iter().any(is_it)
        };
        let whole = || {
            let mut first = ["string", "text", "text_a", "input_string", "value"].iter();
            first.find_map(|name| own(name)).unwrap_or(Err(Some(node)))
        };
        if is_for("concat") || is_for("join") || is_for("append") {
            return self.joined(node, texts);
        }
        if is_for("replace") && !node.is_called("regex") {
            return self.replaced(node, whole()?);
        }
        if node.is_called("trim strip") {
            let side = own("mode").transpose()?.map(|side| side.to_lowercase());
            let text = whole()?;
            return match side.as_deref() {
                None | Some("both") => Ok(text.trim().to_owned()),
                Some("left") => Ok(text.trim_start().to_owned()),
                Some("right") => Ok(text.trim_end().to_owned()),
                _ => Err(Some(node)),
            };
        }
        let text = self.literal(node, &texts, is_display)?;
        if node.plain_class != "textmultiline" {
            return Ok(text);
        }
        let mut lines: Vec<&str> = text.lines().collect();
        lines.retain(|line| !line.trim_start().starts_with('#'));
        Ok(lines.join("\n"))
    }

    /// Text of one input of a node; `None` without it.
    fn input_text(
        &self,
        node: &'a ComfyNode,
        name: &str,
    ) -> Option<Result<String, UnreadText<'a>>> {
        let input = node.inputs.get(name);
        input.map(|input| self.text(input, name))
    }

    fn joined(
        &self,
        node: &'a ComfyNode,
        mut texts: Vec<(&'a str, &'a NodeInput)>,
    ) -> Result<String, UnreadText<'a>> {
        let own = |name: &str| self.input_text(node, name);
        let delimiter = ["delimiter", "separator"].iter().find_map(|name| own(name));
        let tidies = own("tidy_tags").map(|it| it.map(|it| it == "yes"));
        let delimiter = match (delimiter, tidies) {
            (Some(delimiter), _) => delimiter_of(&delimiter?).ok_or(Some(node))?,
            (None, Some(tidies)) => if tidies? { ", " } else { "" }.to_owned(),
            // ComfyUI's own node has an empty one.
            (None, None) if node.plain_class == "stringconcatenate" => String::new(),
            (None, None) => return Err(Some(node)),
        };
        let is_list = self.value(node, "return_list").is_some_and(|it| it == true);
        let is_other = |(name, input): (&String, &NodeInput)| {
            let is_own = texts.iter().any(|(own, _)| own == name);
            let may_be_text = match input {
                NodeInput::Value(Value::String(text)) => !text.is_empty(),
                NodeInput::Value(_) => false,
                NodeInput::Link(link) => self.kind(name, link) == LinkKind::Unknown,
            };
            may_be_text && !is_own && !has_word(name, JOIN_OPTIONS)
        };
        if is_list || node.is_called("list") || node.inputs.iter().any(is_other) {
            return Err(Some(node));
        }
        if let Some(count) = self.number(node, "inputcount") {
            let number = |name: &str| name.rsplit('_').next()?.parse::<f64>().ok();
            texts.retain(|(name, _)| number(name).is_none_or(|number| number <= count));
        }
        let parts = texts.iter().map(|(name, input)| self.text(input, name));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let mut parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        if matches!(own("clean_whitespace"), Some(Ok(it)) if it == "true") {
            parts = parts.into_iter().map(str::trim).collect();
        }
        if node.plain_class != "stringconcatenate" {
            parts.retain(|part| !part.is_empty());
        }
        let len: usize = parts.iter().map(|part| part.len() + delimiter.len()).sum();
        (!texts.is_empty() && len <= MAX_TEXT)
            .then(|| parts.join(&delimiter))
            .ok_or(Some(node))
    }

    /// Text in which a node replaces words by others.
    fn replaced(&self, node: &'a ComfyNode, mut text: String) -> Result<String, UnreadText<'a>> {
        let own = |name: &str| self.input_text(node, name);
        let mut is_known = false;
        for (find, replace) in [
            ("find", "replace"),
            ("find1", "replace1"),
            ("find2", "replace2"),
            ("find3", "replace3"),
            ("old", "new"),
            ("text_b", "text_c"),
        ] {
            let (Some(find), Some(replace)) = (own(find), own(replace)) else {
                continue;
            };
            is_known = true;
            let (find, replace) = (find?, replace?);
            if node.has("tidy_tags") && find.starts_with('/') {
                // A regular expression.
                return Err(Some(node));
            }
            if !find.is_empty() {
                let count = text.matches(&find).count();
                if text.len() + count * replace.len() > MAX_TEXT {
                    return Err(Some(node));
                }
                text = text.replace(&find, &replace);
            }
        }
        is_known.then_some(text).ok_or(Some(node))
    }

    /// Text of a node that has one text and nothing that could change it.
    fn literal(
        &self,
        node: &'a ComfyNode,
        texts: &[(&str, &'a NodeInput)],
        is_display: bool,
    ) -> Result<String, UnreadText<'a>> {
        let changes = |name: &String| has_word(&name.to_lowercase(), "seed temperature token");
        let is_computed = node.is_called(GENERATORS)
            || node.is_called(CHANGES)
            || node.inputs.keys().any(changes);
        let has_other = node.inputs.iter().any(|(name, input)| {
            let is_chosen = matches!(input, NodeInput::Value(Value::String(it)) if !it.is_empty() && it != "CHOOSE");
            let is_counted = matches!(input, NodeInput::Value(Value::Number(_)));
            let is_idle = name.starts_with("insert_") || name.starts_with("control_");
            let is_own = texts.iter().any(|(own, _)| own == name);
            let is_linked = matches!(input, NodeInput::Link(_));
            !is_own && !is_idle && (is_chosen || is_counted || is_linked)
        });
        match texts {
            [(name, input)] if is_display || !(has_other || is_computed) => {
                self.text(input, name).map_err(|inner| inner.or(Some(node)))
            }
            _ => Err(Some(node)),
        }
    }
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphabetic() || matches!(letter, '-' | '_')
}

/// Delimiter that a text or a word means; `None` for an unknown word.
fn delimiter_of(text: &str) -> Option<String> {
    Some(match text {
        "none" => String::new(),
        "space" => " ".to_owned(),
        "comma" => ", ".to_owned(),
        "newline" => "\n".to_owned(),
        word if word.len() > 1 && word.chars().all(is_of_word) => return None,
        text => text.replace("\\n", "\n"),
    })
}

/// Returns whether the text of a slot is not the only or first one that a node gives.
fn is_second_text(node: &ComfyNode, slot: u64) -> bool {
    match node.output(slot) {
        Some(_) => {
            let slots = node.outputs.iter().zip(0..slot);
            slots.into_iter().any(|(it, _)| it.kind == "STRING")
        }
        None => slot > 0 && !node.is_called("powerprompt"),
    }
}

/// Returns whether a text gives a prompt for each of several frames: `"0": "a barn", "12": "a cow"`.
pub(super) fn is_schedule(text: &str) -> bool {
    let text = text.trim_start_matches(|it: char| it == '{' || it.is_whitespace());
    let key = text.strip_prefix('"').and_then(|it| it.split_once('"'));
    key.is_some_and(|(frame, rest)| {
        let is_frame = !frame.is_empty() && frame.chars().all(|it| it.is_ascii_digit());
        is_frame && rest.trim_start().starts_with(':')
    })
}

/// Returns whether an input holds a text to encode or to put together.
fn is_text(walk: &GraphWalk<'_>, node: &ComfyNode, name: &str, input: &NodeInput) -> bool {
    let lower = name.to_lowercase();
    let mut starts = "text str prompt value positive negative any".split(' ');
    let is_named = starts.any(|start| lower.starts_with(start));
    match input {
        NodeInput::Value(Value::String(_)) => is_named,
        NodeInput::Value(_) => false,
        NodeInput::Link(link) => match walk.kind(name, link) {
            LinkKind::Text => true,
            // Whatever the name of the only link is, it gives the text.
            LinkKind::Unknown => is_named || node.links().count() == 1,
            _ => is_named,
        },
    }
}

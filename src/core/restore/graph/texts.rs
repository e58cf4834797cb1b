//! Texts: literals, the plain string functions, and results that the file stores. Nothing else is guessed.

use serde_json::Value;

use super::nodes::{
    InputSource, LinkKind, NodeInput, NodeRef, first_match, has_word, names_of, numbered,
};

/// Bytes of a text that is put together.
const MAX_TEXT: usize = 1 << 18;
/// A text, or the node that computes it in a way that is not followed; `None` where a link ends nowhere.
pub(super) type TextResult<'g> = Result<String, Option<NodeRef<'g>>>;

impl<'g> NodeRef<'g> {
    /// Text at the other end of an input.
    pub fn text(self, name: &str) -> TextResult<'g> {
        let text = self.graph.nested(|| match self.source(name)? {
            InputSource::Value(Value::String(text)) => Some(Ok(text.clone())),
            InputSource::Value(Value::Number(number)) => Some(Ok(number.to_string())),
            InputSource::Value(_) => None,
            InputSource::Node(node, slot) => Some(node.computed_text(slot)),
        });
        let text = text.unwrap_or(Err(None))?;
        self.use_input(name);
        let is_affordable = self.graph.spend(text.len() / 256);
        is_affordable.then_some(text).ok_or(None)
    }

    /// Text of the first of these inputs that the node has; `None` without them.
    fn own_text(self, names: &str) -> Option<TextResult<'g>> {
        let name = names_of(names).find(|name| self.has(name))?;
        Some(self.text(name))
    }

    fn computed_text(self, slot: u64) -> TextResult<'g> {
        // Else its name is in the sentence on the prompt.
        self.use_all();
        let texts = self
            .inputs()
            .filter(|(name, input)| self.is_text(name, input));
        let texts: Vec<&str> = texts.map(|it| it.0).collect();
        let is_display = self.is_called("DISPLAYS");
        let linked = texts.iter().find(|name| self.link(name).is_some());
        if let Some(name) = linked.filter(|_| is_display) {
            // The stored text may be that of an earlier run.
            if let Ok(text) = self.text(name) {
                return Ok(text);
            }
            let mut shown = names_of("SHOWN_TEXTS");
            let shown = shown.find(|name| self.has(name) && self.link(name).is_none());
            if let Some(Ok(text)) = shown.map(|name| self.text(name)) {
                self.graph.stored_text.replace(Some(self.to_string()));
                return Ok(text);
            }
        }
        if let Some(text) = self.own_text("STORED_TEXTS") {
            return text;
        }
        if self.is_second_text(slot) {
            return Err(Some(self));
        }
        let does = |word: &str| {
            let mut modes = names_of("MODES").filter_map(|mode| self.own_text(mode));
            self.is_called(word) || modes.any(|mode| mode.is_ok_and(|mode| mode == word))
        };
        let changed = || self.own_text("CHANGED_TEXTS").unwrap_or(Err(Some(self)));
        if does("concat") || does("join") || does("append") {
            return self.joined(texts);
        }
        if does("replace") && !self.is_called("regex") {
            return self.replaced(changed()?);
        }
        if self.is_called("trim strip") {
            let side = self.own_text("mode").transpose()?;
            let text = changed()?;
            let text = match side.map(|side| side.to_lowercase()).as_deref() {
                None | Some("both") => text.trim(),
                Some("left") => text.trim_start(),
                Some("right") => text.trim_end(),
                _ => return Err(Some(self)),
            };
            return Ok(text.to_owned());
        }
        let [name] = texts[..] else {
            return Err(Some(self));
        };
        if !is_display && !self.is_literal(name) {
            return Err(Some(self));
        }
        let text = self.text(name).map_err(|inner| inner.or(Some(self)))?;
        let is_stripped = || self.value("strip_newlines") == Some(true.into());
        let lines = text.lines();
        let lines: Vec<&str> = match &*self.plain_class {
            "textmultiline" => lines
                .filter(|it| !it.trim_start().starts_with('#'))
                .collect(),
            "stringconstantmultiline" if is_stripped() => {
                lines.map(str::trim).filter(|it| !it.is_empty()).collect()
            }
            _ => return Ok(text),
        };
        Ok(lines.join("\n"))
    }

    fn joined(self, mut texts: Vec<&str>) -> TextResult<'g> {
        let is_plain = self.plain_class == "stringconcatenate";
        let tidies = self.own_text("tidy_tags").transpose()?;
        let delimiter = match (self.own_text("delimiter, separator"), tidies) {
            (Some(delimiter), _) => delimiter_of(&delimiter?),
            (None, Some(tidies)) => Some(if tidies == "yes" { ", " } else { "" }.to_owned()),
            // ComfyUI's own node has an empty one.
            (None, None) => is_plain.then(String::new),
        };
        let delimiter = delimiter.ok_or(Some(self))?;
        let mut others = self.inputs().filter(|(name, input)| match input {
            _ if texts.contains(name) || has_word(name, "JOIN_OPTIONS") => false,
            NodeInput::Value(value) => value.as_str().is_some_and(|text| !text.is_empty()),
            NodeInput::Link(link) => self.graph.kind(name, link) == LinkKind::Unknown,
        });
        let is_list = self.is_called("list") || self.value("return_list") == Some(true.into());
        if is_list || others.next().is_some() {
            return Err(Some(self));
        }
        if let Some(count) = self.number("inputcount") {
            texts.retain(|name| f64::from(numbered(name).1) <= count);
        }
        let trims = matches!(self.own_text("clean_whitespace"), Some(Ok(it)) if it == "true");
        let mut parts = Vec::new();
        for name in texts {
            let text = self.text(name)?;
            let text = if trims { text.trim().to_owned() } else { text };
            if is_plain || !text.is_empty() {
                parts.push(text);
            }
        }
        let len: usize = parts.iter().map(|part| part.len() + delimiter.len()).sum();
        let is_usable = !parts.is_empty() && len <= MAX_TEXT;
        is_usable.then(|| parts.join(&delimiter)).ok_or(Some(self))
    }

    /// Text in which a node replaces words by others.
    fn replaced(self, mut text: String) -> TextResult<'g> {
        let mut is_known = false;
        let pairs = names_of("REPLACEMENTS").filter_map(|pair| pair.split_once(' '));
        for (find, replace) in pairs.filter(|pair| self.has(pair.0) && self.has(pair.1)) {
            is_known = true;
            let (find, replace) = (self.text(find)?, self.text(replace)?);
            let is_regex = self.has("tidy_tags") && find.starts_with('/');
            if find.is_empty() {
                continue;
            }
            let count = text.matches(&find).count();
            if is_regex || text.len() + count * replace.len() > MAX_TEXT {
                return Err(Some(self));
            }
            text = text.replace(&find, &replace);
        }
        is_known.then_some(text).ok_or(Some(self))
    }

    /// Returns whether nothing in a node could change its one text.
    fn is_literal(self, own: &str) -> bool {
        let mut inputs = self.inputs();
        let has_other = inputs.any(|(name, input)| match input {
            _ if has_word(&name.to_lowercase(), "seed temperature token") => true,
            _ if name == own || name.starts_with("insert_") || name.starts_with("control_") => {
                false
            }
            NodeInput::Value(Value::String(text)) => !matches!(&**text, "" | "CHOOSE"),
            NodeInput::Value(value) => value.is_number(),
            NodeInput::Link(_) => true,
        });
        !has_other && !self.is_called("TEXT_GENERATORS")
    }

    /// Returns whether the text of a slot is not the only or first one that a node gives.
    fn is_second_text(self, slot: u64) -> bool {
        if self.node.output(slot).is_none() {
            return slot > 0 && !self.is_called("powerprompt");
        }
        let mut before = self.node.outputs.iter().zip(0..slot);
        before.any(|(output, _)| output.kind == "STRING")
    }

    /// Returns whether an input holds a text to encode or to put together.
    fn is_text(self, name: &str, input: &NodeInput) -> bool {
        let lower = name.to_lowercase();
        let mut starts = "text str prompt value positive negative any source".split(' ');
        let is_named = starts.any(|start| lower.starts_with(start));
        match input {
            NodeInput::Value(value) => is_named && value.is_string(),
            NodeInput::Link(link) => match self.graph.kind(name, link) {
                LinkKind::Text => true,
                // Whatever the name of the only link is, it gives the text.
                LinkKind::Unknown => is_named || self.links().count() == 1,
                _ => is_named,
            },
        }
    }
}

/// Delimiter that a text or a word means; `None` for an unknown word.
fn delimiter_of(text: &str) -> Option<String> {
    let is_of_word = |letter: char| letter.is_alphabetic() || matches!(letter, '-' | '_');
    Some(match text {
        "none" => String::new(),
        "space" => " ".to_owned(),
        "comma" => ", ".to_owned(),
        "newline" => "\n".to_owned(),
        word if word.len() > 1 && word.chars().all(is_of_word) => return None,
        text => text.replace("\\n", "\n"),
    })
}

/// Returns whether a text gives a prompt for each of several frames: `"0": "a barn", "12": "a cow"`.
pub(super) fn is_schedule(text: &str) -> bool {
    first_match(r#"^[{\s]*"[0-9]+"\s*:"#, text).is_some()
}

//! Texts: literals, the plain string functions, and results that the file stores. Nothing else is guessed.

use serde_json::Value;

use super::walk::{LinkKind, Source, Walk};
use super::{Input, Node};

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

/// Node that computes a text in a way that is not followed; `None` where a link ends nowhere.
pub(super) type Unread<'a> = Option<&'a Node>;

impl<'a> Walk<'a> {
    /// Text at the far end of an input.
    pub fn text(&self, input: &'a Input, name: &str) -> Result<String, Unread<'a>> {
        let _guard = self.enter().ok_or(None)?;
        let text = match self.follow(input, name).ok_or(None)? {
            Source::Value(Value::String(text)) => text.clone(),
            Source::Value(Value::Number(number)) => number.to_string(),
            Source::Value(_) => return Err(None),
            Source::Node(node, _) => self.computed_text(node)?,
        };
        self.spend(text.len() / 256).then_some(text).ok_or(None)
    }

    fn computed_text(&self, node: &'a Node) -> Result<String, Unread<'a>> {
        let own = |name: &str| {
            let input = node.inputs.get(name);
            input.map(|input| self.text(input, name))
        };
        let texts: Vec<(&str, &Input)> = node
            .sorted_inputs()
            .into_iter()
            .filter(|(name, input)| is_text(self, name, input))
            .collect();
        let is_display = node.is_called(DISPLAYS);
        let linked = texts
            .iter()
            .find(|(_, input)| matches!(input, Input::Link(_)));
        if is_display && let Some((name, input)) = linked {
            // The stored text may be that of an earlier run.
            if let Ok(text) = self.text(input, name) {
                return Ok(text);
            }
            let mut shown = SHOWN_RESULTS
                .iter()
                .filter(|shown| node.link(shown).is_none());
            if let Some(Ok(text)) = shown.find_map(|name| own(name)) {
                self.stored_text.set(Some(node));
                return Ok(text);
            }
        }
        if let Some(text) = RESULTS.iter().find_map(|name| own(name)) {
            return text;
        }
        let words: Vec<&str> = ["mode", "action", "operation"]
            .iter()
            .filter_map(|name| match node.inputs.get(*name) {
                Some(Input::Value(Value::String(word))) => Some(word.as_str()),
                _ => None,
            })
            .collect();
        let is_for = |word: &str| node.is_called(word) || words.contains(&word);
        let whole = || {
            let mut first = ["string", "text", "text_a", "input_string", "value"].iter();
            first.find_map(|name| own(name)).unwrap_or(Err(Some(node)))
        };
        if is_for("concat") || is_for("join") || is_for("append") {
            let delimiter = ["delimiter", "separator"].iter().find_map(|name| own(name));
            let tidies = own("tidy_tags").map(|it| it.map(|it| it == "yes"));
            let delimiter = match (delimiter, tidies) {
                (Some(delimiter), _) => delimiter?.replace("\\n", "\n"),
                (None, Some(tidies)) => if tidies? { ", " } else { "" }.to_owned(),
                (None, None) => " ".to_owned(),
            };
            let parts = texts.iter().map(|(name, input)| self.text(input, name));
            let parts = parts.collect::<Result<Vec<_>, _>>()?;
            let mut parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            if matches!(own("clean_whitespace"), Some(Ok(it)) if it == "true") {
                parts = parts.into_iter().map(str::trim).collect();
            }
            if node.plain_class() != "stringconcatenate" {
                parts.retain(|part| !part.is_empty());
            }
            let len: usize = parts.iter().map(|part| part.len() + delimiter.len()).sum();
            return (!texts.is_empty() && len <= MAX_TEXT)
                .then(|| parts.join(&delimiter))
                .ok_or(Some(node));
        }
        if is_for("replace") && !node.is_called("regex") {
            let mut text = whole()?;
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
            return Ok(text);
        }
        if node.is_called("trim strip") {
            return whole().map(|text| text.trim().to_owned());
        }
        self.literal(node, &texts, is_display)
    }

    /// Text of a node that has one text and nothing that could change it.
    fn literal(
        &self,
        node: &'a Node,
        texts: &[(&str, &'a Input)],
        is_display: bool,
    ) -> Result<String, Unread<'a>> {
        let changes = |name: &String| {
            let name = name.to_lowercase();
            ["seed", "temperature", "token"]
                .iter()
                .any(|it| name.contains(it))
        };
        let has_other = node.inputs.iter().any(|(name, input)| {
            let is_chosen = matches!(input, Input::Value(Value::String(it)) if !it.is_empty() && it != "CHOOSE");
            let is_counted = matches!(input, Input::Value(Value::Number(_)));
            let is_idle = name.starts_with("insert_") || name.starts_with("control_");
            let is_own = texts.iter().any(|(own, _)| own == name);
            let is_linked = matches!(input, Input::Link(_));
            !is_own && !is_idle && (is_chosen || is_counted || is_linked)
        });
        match texts {
            [(name, input)]
                if is_display
                    || !(has_other
                        || node.is_called(GENERATORS)
                        || node.inputs.keys().any(changes)) =>
            {
                self.text(input, name).map_err(|inner| inner.or(Some(node)))
            }
            _ => Err(Some(node)),
        }
    }
}

/// Returns whether an input holds a text to encode or to put together.
fn is_text(walk: &Walk<'_>, name: &str, input: &Input) -> bool {
    let lower = name.to_lowercase();
    let mut starts = "text str prompt value positive negative any".split(' ');
    let is_named = starts.any(|start| lower.starts_with(start));
    match input {
        Input::Value(Value::String(_)) => is_named,
        Input::Value(_) => false,
        Input::Link(link) => is_named || walk.kind(name, link) == LinkKind::Text,
    }
}

//! Cursor in the prompt, and the name being typed: of a wildcard or an embedding.
//!
//! Counts letters like the text field.

const MAX_OFFERED: usize = 8;
/// More letters are no beginning of a name.
const MAX_BEGINNING: usize = 60;

#[derive(Clone, Default)]
pub struct PromptCursor {
    /// Letters before it, when it was last seen.
    pub cursor: Option<usize>,
    /// Cursor position that is requested, in characters.
    pub wanted_cursor: Option<usize>,
    /// The names that are offered, and which of them the keyboard chose.
    pub offer: Option<NameOffer>,
    /// A name is begun and not ended, whether anything is offered for it or not.
    pub is_naming: bool,
    pub is_stale: bool,
    /// The pointer is over what is offered: a click there takes the focus from the field before it is one.
    pub is_pointer_over: bool,
    pub is_focus_wanted: bool,
    /// An offer that was declined: where its name begins.
    pub declined: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameOffer {
    /// Number of characters before the mark that begins the name.
    pub start: usize,
    pub names: Vec<String>,
    pub chosen: usize,
    /// Text that is written before and after the name.
    marks: [&'static str; 2],
}

impl NameOffer {
    pub fn written(&self, name: &str) -> String {
        let [before, after] = self.marks;
        format!("{before}{name}{after}")
    }

    pub fn is_of_wildcards(&self) -> bool {
        self.marks == WILDCARD
    }
}

const WILDCARD: [&str; 2] = ["__"; 2];
/// Begins the name of an embedding, and is left out again where A1111's bare names are read.
const EMBEDDING: &str = "embedding:";

/// Embeddings to choose from.
pub struct EmbeddingNames<'a> {
    pub names: Vec<&'a str>,
    /// As A1111 has them.
    pub are_bare: bool,
}

impl PromptCursor {
    /// Writes something where the cursor is, with what keeps it apart from the word before it.
    pub(super) fn insert(&mut self, prompt: &mut String, text: &str) {
        let length = prompt.chars().count();
        let cursor = self.cursor.unwrap_or(length).min(length);
        let at = byte_of(prompt, cursor);
        let before = prompt[..at].chars().next_back();
        let is_apart = before.is_none_or(|it| it.is_whitespace() || "{|$(\"'".contains(it));
        let behind = prompt[at..].chars().next();
        let is_word_behind = behind.is_some_and(|it| it.is_alphanumeric() || it == '_');
        let start = if is_apart { "" } else { " " };
        let end = if is_word_behind { " " } else { "" };
        let written = format!("{start}{text}{end}");
        prompt.insert_str(at, &written);
        self.cursor = Some(cursor + written.chars().count());
        self.wanted_cursor = self.cursor;
    }

    /// Looks whether a name of a wildcard or an embedding is being written, and which there are.
    pub fn update<'a>(
        &mut self,
        prompt: &str,
        wildcards: impl Iterator<Item = &'a str>,
        embeddings: &EmbeddingNames<'_>,
    ) {
        let cursor = self.cursor;
        let of_wildcard = cursor.and_then(|cursor| beginning(prompt, cursor));
        let of_embedding = cursor.filter(|_| !embeddings.names.is_empty());
        let of_embedding = of_embedding.and_then(|cursor| embedding_beginning(prompt, cursor));
        let beginning = of_wildcard.or(of_embedding);
        let wanted = beginning.filter(|(start, _)| self.declined != Some(*start));
        self.is_naming = wanted.is_some();
        let Some((start, begun)) = wanted else {
            if beginning.is_none() {
                self.declined = None;
            }
            self.offer = None;
            return;
        };
        let (names, marks) = if of_wildcard.is_some() {
            (matching(begun, wildcards), WILDCARD)
        } else {
            let mark = if embeddings.are_bare { "" } else { EMBEDDING };
            (
                matching(begun, embeddings.names.iter().copied()),
                [mark, ""],
            )
        };
        let before = self.offer.take().filter(|offer| offer.start == start);
        let chosen = before.map_or(0, |offer| offer.chosen);
        self.offer = (!names.is_empty()).then(|| NameOffer {
            start,
            chosen: chosen.min(names.len() - 1),
            names,
            marks,
        });
    }

    pub fn accept(&mut self, prompt: &mut String, index: usize) {
        let Some(offer) = self.offer.take() else {
            return;
        };
        self.is_naming = false;
        let (Some(name), Some(cursor)) = (offer.names.get(index), self.cursor) else {
            return;
        };
        let length = prompt.chars().count();
        let (start, end) = (offer.start.min(length), cursor.min(length));
        let range = byte_of(prompt, start)..byte_of(prompt, end.max(start));
        let written = offer.written(name);
        prompt.replace_range(range, &written);
        self.cursor = Some(start + written.chars().count());
        self.wanted_cursor = self.cursor;
    }

    pub fn decline(&mut self) {
        self.declined = self.offer.take().map(|offer| offer.start);
        self.is_naming = false;
    }

    pub fn leave(&mut self) {
        self.offer = None;
        self.is_naming = false;
    }
}

/// Names that begin so, then those that contain it.
fn matching<'a>(begun: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let begun = begun.to_lowercase();
    let found = names.filter_map(|name| Some((name.to_lowercase().find(&begun)?, name)));
    let mut found: Vec<(usize, &str)> = found.collect();
    found.sort_by_key(|(at, _)| *at > 0);
    found.truncate(MAX_OFFERED);
    found.iter().map(|(_, name)| (*name).to_owned()).collect()
}

/// Number of letters before `embedding:`, and the text between it and the cursor.
fn embedding_beginning(prompt: &str, cursor: usize) -> Option<(usize, &str)> {
    let before = &prompt[..byte_of(prompt, cursor)];
    let at = before.rfind(EMBEDDING)?;
    let begun = &before[at + EMBEDDING.len()..];
    let is_apart = before[..at]
        .chars()
        .next_back()
        .is_none_or(|it| !it.is_alphanumeric());
    let is_name = begun
        .chars()
        .all(|it| it.is_alphanumeric() || "-_./".contains(it));
    let is_sound = is_apart && is_name && begun.chars().count() <= MAX_BEGINNING;
    is_sound.then(|| (before[..at].chars().count(), begun))
}

fn byte_of(text: &str, letters: usize) -> usize {
    text.char_indices()
        .nth(letters)
        .map_or(text.len(), |(at, _)| at)
}

/// Number of letters before an open `__`, and the text between it and the cursor.
fn beginning(prompt: &str, cursor: usize) -> Option<(usize, &str)> {
    let before = &prompt[..byte_of(prompt, cursor)];
    let line = &before[before.rfind('\n').map_or(0, |at| at + 1)..];
    let (mut from, mut open) = (0, None);
    while let Some(at) = line[from..].find("__").map(|at| from + at) {
        let behind = &line[at + 2..];
        let name = behind.find("__").map(|end| &behind[..end]);
        (from, open) = name
            .filter(|name| is_name(name))
            .map_or((at + 2, Some(at)), |name| (at + name.len() + 4, None));
    }
    let at = open?;
    let begun = &line[at + 2..];
    let is_escaped = line[..at].ends_with('\\');
    let is_sound = begun.is_empty() || (begun.chars().count() <= MAX_BEGINNING && is_name(begun));
    let start = before.len() - line.len() + at;
    (is_sound && !is_escaped).then(|| (prompt[..start].chars().count(), begun))
}

/// Returns whether a wildcard may be called so, as far as it is written.
fn is_name(text: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || " -_./*+&'~".contains(letter);
    text.starts_with(|first: char| first.is_alphanumeric() || "*./~".contains(first))
        && text.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["animal", "colour", "places/sea", "seasons"];

    fn cursor_at(place: usize) -> PromptCursor {
        PromptCursor {
            cursor: Some(place),
            ..PromptCursor::default()
        }
    }

    const NO_EMBEDDINGS: EmbeddingNames<'_> = EmbeddingNames {
        names: Vec::new(),
        are_bare: false,
    };

    fn offered(prompt: &str) -> Vec<String> {
        let mut typing = cursor_at(prompt.chars().count());
        typing.update(prompt, NAMES.into_iter(), &NO_EMBEDDINGS);
        typing.offer.map(|offer| offer.names).unwrap_or_default()
    }

    #[test]
    fn names_are_offered_where_one_is_begun() {
        assert_eq!(offered("a __an"), ["animal"]);
        assert_eq!(offered("ein Böötchen, __SEA"), ["seasons", "places/sea"]);
        assert_eq!(offered("__animal__ in __"), NAMES);
        for text in [
            "__animal__",
            "__animal__ and",
            "__x",
            "\\__an",
            "__an, then",
        ] {
            assert!(offered(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn an_embedding_is_completed_as_the_prompt_is_read() {
        for (are_bare, expected) in [(false, "(embedding:bad-hands"), (true, "(bad-hands")] {
            let embeddings = EmbeddingNames {
                names: vec!["easy", "bad-hands"],
                are_bare,
            };
            let mut prompt = "(embedding:ba".to_owned();
            let mut typing = cursor_at(prompt.len());
            typing.update(&prompt, NAMES.into_iter(), &embeddings);
            let offer = typing.offer.clone().unwrap();
            assert_eq!(
                (offer.start, offer.names),
                (1, vec!["bad-hands".to_owned()])
            );
            typing.accept(&mut prompt, 0);
            assert_eq!(prompt, expected);
        }
    }

    #[test]
    fn a_declined_offer_comes_back_with_the_next_name() {
        let mut typing = cursor_at(4);
        typing.update("__an", NAMES.into_iter(), &NO_EMBEDDINGS);
        typing.decline();
        typing.update("__an", NAMES.into_iter(), &NO_EMBEDDINGS);
        assert_eq!(typing.offer, None);
        typing.cursor = Some(14);
        typing.update("__an, and __co", NAMES.into_iter(), &NO_EMBEDDINGS);
        assert_eq!(typing.offer.map(|offer| offer.start), Some(10));
    }

    #[test]
    fn words_are_written_at_the_cursor_and_stand_apart() {
        let mut typing = PromptCursor::default();
        let mut prompt = "a boat".to_owned();
        typing.insert(&mut prompt, "__sea__");
        assert_eq!(prompt, "a boat __sea__");
        typing.cursor = Some(2);
        typing.insert(&mut prompt, "red");
        assert_eq!(prompt, "a red boat __sea__");
        assert_eq!(typing.wanted_cursor, Some(6));
        typing.cursor = Some(900);
        typing.insert(&mut prompt, "x");
        assert!(prompt.ends_with("__sea__ x"));
    }
}

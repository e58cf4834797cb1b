//! Prompts as templates: choices, wildcard files and comments, settled by the job's seed.
//!
//! The common ground of ComfyUI, SwarmUI and A1111's Dynamic Prompts:
//!
//! | Written | Read |
//! |---|---|
//! | `{a\|b\|c}` | one of them; they may hold anything of this table, and be empty |
//! | `{3::a\|b}` | `a` three times as often as `b` |
//! | `{2$$a\|b\|c}`, `{1-2$$a\|b}`, `{2$$ and $$a\|b}` | several different ones, joined by `, ` or what is given |
//! | `__name__`, `__folder/name__`, `__folder/*__` | a line of `name.txt` in a folder of wildcards |
//! | `{2$$__name__}` | several different lines |
//! | `\{`, `\}`, `\|`, `\_` | that letter itself |
//! | `/* … */`, ` // …`, `# …` at the start of a line | nothing: a comment |
//! | `[0s-2s: words]`, `[2s: words]` | at these seconds of the video, by models that make it in sections |
//! | `<lora:name:0.8>` | nothing: the LoRA is one of the job's, see [`TaggedPrompt`] |
//! | `(words:1.2)` | stays, see [`BracketUse`] |
//!
//! Braces that hold neither `|` nor `$$`, and those of JSON objects, stay as they are. The same template, seed and
//! files give the same text on every machine. Reads no other files than wildcards, and knows no tokens.

mod a1111_weights;
mod choose;
mod comments;
mod longest;
mod odds;
mod parse;
mod tags;
mod timeline;
mod weights;
mod wildcards;

use std::io;
use std::path::PathBuf;

use thiserror::Error;

pub use a1111_weights::for_comfy;
pub use longest::{LongestText, longest};
pub use tags::{LoraTag, TaggedPrompt, tags};
pub use timeline::{PromptShare, PromptTimeline, SectionPrompts, TimedPrompt};
pub use weights::{BracketUse, PromptWeights, WeightedText, escaped};
pub use wildcards::{WildcardFile, WildcardFolders};

/// Far more than any encoder reads, in bytes: of a template, and of what becomes of it.
pub(crate) const MAX_BYTES: usize = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpandedPrompt {
    /// Text for the text encoders.
    pub prompt: String,
    pub template: Option<String>,
}

#[derive(Debug, Error)]
pub enum PromptError {
    #[error(
        "there is no wildcard file {name}.txt for __{name}__: looked in {folders}. Write \\__ for underscores themselves"
    )]
    MissingWildcard { name: String, folders: String },
    #[error("the wildcard __{name}__ points outside of the wildcard folders")]
    WildcardOutside { name: String },
    #[error("the wildcard file has no lines to choose from: {}", path.display())]
    EmptyWildcard { path: PathBuf },
    #[error("these wildcards include each other in a circle: {}", names.join(" → "))]
    WildcardCircle { names: Vec<String> },
    #[error("cannot read a wildcard file: {source}: {}", path.display())]
    ReadWildcard { source: io::Error, path: PathBuf },
    #[error(
        "the choice that begins with \"{beginning}\" is never closed: expected a }}. Write \\{{ for a brace itself"
    )]
    Unclosed { beginning: String },
    #[error("the choice {choice} has nothing that may be chosen: all of its weights are 0")]
    NoWeight { choice: String },
    #[error("the prompt's choices are nested deeper than {limit}")]
    TooDeep { limit: usize },
    #[error("the prompt has more than {limit} choices")]
    TooManyChoices { limit: usize },
    #[error("the prompt's choices choose more than {limit} options together")]
    TooManyChosen { limit: usize },
    #[error("the tag that begins with \"{beginning}\" is never closed: expected a >")]
    OpenTag { beginning: String },
    #[error("{tag} cannot be read: write it as <lora:name:0.8>, with a strength from -10 to 10")]
    WrongTag { tag: String },
    #[error("the prompt names more than {limit} LoRAs")]
    TooManyTags { limit: usize },
    #[error("the prompt is longer than {limit} bytes")]
    TooLong { limit: usize },
    #[error("the prompt's wildcards choose more than {limit} bytes of text together")]
    TooMuchText { limit: usize },
    #[error("the prompt's wildcard files have more than {limit} lines together")]
    TooManyLines { limit: usize },
    #[error("the prompt's wildcard files have more than {limit} bytes together")]
    TooLargeWildcards { limit: usize },
}

pub fn expand(
    template: &str,
    seed: u64,
    wildcards: &WildcardFolders,
) -> Result<ExpandedPrompt, PromptError> {
    check_length(template)?;
    let prompt = choose::settle(template, seed, wildcards)?;
    Ok(ExpandedPrompt {
        template: (prompt != template).then(|| template.to_owned()),
        prompt,
    })
}

/// Fails for a text that is longer than any encoder reads.
pub fn check_length(text: &str) -> Result<(), PromptError> {
    if text.len() > MAX_BYTES {
        return Err(PromptError::TooLong { limit: MAX_BYTES });
    }
    Ok(())
}

/// Returns whether another seed may choose another text. Text that only resembles a choice may count as one.
pub fn has_choices(template: &str) -> bool {
    template.contains("__") || (template.contains('{') && template.contains(['|', '$']))
}

pub fn is_plain(text: &str) -> bool {
    expand(text, 0, &WildcardFolders::default()).is_ok_and(|it| it.template.is_none())
        && TaggedPrompt::parse(text).is_ok_and(|it| it.text == text)
}

/// The prompts of a text with one a line: without comments and empty lines.
pub fn lines(text: &str) -> Vec<String> {
    literal_lines(&comments::without(text))
}

/// Like [`lines`], but nothing is read as a comment.
pub fn literal_lines(text: &str) -> Vec<String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests;

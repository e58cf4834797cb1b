//! The words of the prompt, of earlier prompts and of wildcards, as whole sentences, so that they can be translated.
//!
//! Nothing is drawn here.

use safelight_core::model::Guidance;
use safelight_core::tokens::PromptCount;

use crate::ui::create::words::of;

// The prompt.
pub(super) const PROMPT: &str = "Prompt";
pub(super) const PROMPT_LINES: &str = "One prompt per line, each line makes a job";
pub(super) const ONE_A_LINE: &str = "One job per line";
pub(super) const ONE_A_LINE_ON: &str =
    "Each line makes a job of its own. Click to use all lines as one prompt";
pub(super) const ONE_A_LINE_OFF: &str = "Make a job of each line";
pub(super) const RANDOM_EXAMPLE: &str = "Random example";
pub(super) const RANDOM_EXAMPLE_HOVER: &str = "Another example prompt";
pub(super) const EXAMPLE_HOVER: &str = "Click to use this prompt";
pub(super) const RIGHT_TO_LEFT: &str = "Right-to-left text is shown in the wrong order here";
pub(super) const RIGHT_TO_LEFT_HOVER: &str = "Safelight cannot display Hebrew and Arabic from right to left yet. The text itself is stored in the right order, and the model reads it as you wrote it";
pub(super) const NO_PROMPT: &str = "The file names no prompt: write one";
pub(super) const LITERAL: &str = "Literal text: choices and wildcards are not expanded";
pub(super) const LITERAL_HOVER: &str =
    "This prompt comes from a finished file. It is used as it is until you edit it";
pub(super) const USE_AS_TEMPLATE: &str = "Use as template";
pub(super) const USE_NEGATIVE_AS_TEMPLATE: &str = "Use negative prompt as template";
pub(super) const NEGATIVE: &str = "Negative prompt";
pub(super) const NEGATIVE_HINT: &str = "Nothing in particular";
pub(super) const NEGATIVE_NEEDED: &str = "Needed: what to keep out";

pub(super) fn prompt_hover(makes_pictures: bool) -> &'static str {
    of(
        makes_pictures,
        "Describe the picture in plain words. {a|b} picks one of them, __name__ a line of a wildcard file",
        "Describe the clip in plain words. {a|b} picks one of them, __name__ a line of a wildcard file",
    )
}

pub(super) fn use_as_template(template: &str) -> String {
    format!("Expand choices, wildcards and comments again:\n{template}")
}

pub(super) fn prompt_hint(makes_pictures: bool) -> &'static str {
    of(makes_pictures, "Describe the picture", "Describe the clip")
}

pub(super) fn negative_hover(makes_pictures: bool) -> &'static str {
    of(
        makes_pictures,
        "What to keep out of the picture. It is used because the guidance is above 1",
        "What to keep out of the clip. It is used because the guidance is above 1",
    )
}

/// Why there is no negative prompt, and what brings it.
pub(super) fn negative_idle(guidance: Guidance, is_empty: bool) -> &'static str {
    match (guidance == Guidance::Cfg, is_empty) {
        (true, true) => "No negative prompt: it needs a guidance above 1 (see Advanced)",
        (true, false) => {
            "The negative prompt is kept but not used: it needs a guidance above 1 (see Advanced)"
        }
        (false, true) => "No negative prompt: it needs a CFG scale above 1 (see Advanced)",
        (false, false) => {
            "The negative prompt is kept but not used: it needs a CFG scale above 1 (see Advanced)"
        }
    }
}

/// `84 of 512 tokens`, and what is left out.
pub(super) fn tokens(count: &PromptCount) -> String {
    let Some(main) = count.encoders.first() else {
        return String::new();
    };
    let (tokens, limit, is_estimate) = (main.tokens, main.limit, main.is_estimate);
    let amount = match (is_estimate, count.varies) {
        (true, _) => format!("about {tokens} of {limit} tokens"),
        (false, true) => format!("up to {tokens} of {limit} tokens"),
        (false, false) => format!("{tokens} of {limit} tokens"),
    };
    let amount = match (count.num_prompts, count.num_parts) {
        (prompts @ 2.., _) => format!("{amount} in the longest of {prompts} prompts"),
        (_, parts @ 2..) => format!("{amount} in the longest of {parts} parts"),
        _ => amount,
    };
    match (main.num_cut(), is_estimate) {
        (0, false) => amount,
        (0, true) => format!("{amount} (estimated: the model's tokenizer cannot be read)"),
        (cut, false) => format!("{amount}: the last {cut} are not read"),
        (cut, true) => format!(
            "{amount}: the last {cut} are not read (estimated: the model's tokenizer cannot be read)"
        ),
    }
}

/// What a second encoder, which gives the mood of the whole, does not read.
pub(super) fn second_encoder(count: &PromptCount) -> Option<String> {
    let [main, others @ ..] = &count.encoders[..] else {
        return None;
    };
    let short = others.iter().find(|encoder| encoder.num_cut() > 0)?;
    let (name, limit, all, other) = (short.name, short.limit, short.tokens, main.name);
    Some(if main.num_cut() > 0 {
        format!(
            "{name} reads only the first {limit} of its {all} tokens, so put what matters most first; {other} reads more"
        )
    } else {
        format!(
            "{name} reads only the first {limit} of its {all} tokens, so put what matters most first; {other} reads all of it"
        )
    })
}

// Earlier prompts and wildcards.
pub(super) const HISTORY: &str = "Earlier prompts";
pub(super) const HISTORY_HOVER: &str =
    "Prompts that you used before (Alt+Up and Alt+Down in the prompt)";
pub(super) const HISTORY_EMPTY: &str = "Prompts that you generate with appear here";
pub(super) const HISTORY_SEARCH: &str = "Search earlier prompts";
pub(super) const READING: &str = "Reading…";
pub(super) const NO_MATCHES: &str = "No matches";
pub(super) const FORGET_HOVER: &str = "Remove it from this list";
pub(super) const WILDCARDS: &str = "Wildcards";
pub(super) const WILDCARDS_HOVER: &str =
    "Lists of words: __name__ in the prompt becomes a line of name.txt, another one for each seed";
pub(super) const WILDCARDS_LOOKING: &str = "Looking…";
pub(super) const WILDCARDS_NONE: &str = "No wildcard files yet. A file colours.txt with one choice per line becomes __colours__ in the prompt";
pub(super) const WILDCARDS_SEARCH: &str = "Search wildcards";
pub(super) const WILDCARDS_FOLDER: &str = "Open wildcard folder";
pub(super) const WILDCARDS_FOLDER_HOVER: &str =
    "Open the folder for your own lists. It is created if it does not exist";
pub(super) const WILDCARDS_MATCHING: &str = "Matching wildcards";
pub(super) const NO_LINES: &str = "This list is empty";

pub(super) fn with_negative(prompt: &str, negative: &str) -> String {
    format!("{prompt}\n\nNegative prompt: {negative}")
}

pub(super) fn lines(count: usize) -> String {
    match count {
        1 => "1 line".to_owned(),
        count => format!("{count} lines"),
    }
}

pub(super) fn more_lines(first: &str, more: usize) -> String {
    format!("{first}\n… and {more} more")
}

pub(super) fn complete(wildcard: &str) -> String {
    format!("Complete {wildcard}")
}

pub(super) fn insert(wildcard: &str) -> String {
    format!("Insert {wildcard}")
}

pub(super) fn forget(prompt: &str) -> String {
    format!("Forget: {prompt}")
}

pub(super) fn use_prompt(prompt: &str) -> String {
    format!("Use: {prompt}")
}

#[cfg(test)]
mod tests {
    use safelight_core::tokens::TokenCount;

    use super::*;

    fn count(tokens: &[(&'static str, usize, usize)]) -> PromptCount {
        let encoder = |&(name, tokens, limit)| TokenCount {
            name,
            tokens,
            limit,
            is_estimate: false,
        };
        PromptCount {
            encoders: tokens.iter().map(encoder).collect(),
            varies: false,
            num_parts: 1,
            num_prompts: 1,
        }
    }

    #[test]
    fn a_count_says_what_is_read_and_what_is_not() {
        let short = count(&[("UMT5", 84, 512)]);
        assert_eq!(tokens(&short), "84 of 512 tokens");
        let long = count(&[("UMT5", 530, 512)]);
        assert_eq!(tokens(&long), "530 of 512 tokens: the last 18 are not read");
        let varied = PromptCount {
            varies: true,
            num_prompts: 3,
            ..short.clone()
        };
        assert_eq!(
            tokens(&varied),
            "up to 84 of 512 tokens in the longest of 3 prompts"
        );
        let timed = PromptCount {
            num_parts: 2,
            ..short
        };
        assert_eq!(tokens(&timed), "84 of 512 tokens in the longest of 2 parts");
    }

    #[test]
    fn what_clip_does_not_hear_is_said_once_it_is_so() {
        assert_eq!(
            second_encoder(&count(&[("T5", 60, 512), ("CLIP", 70, 77)])),
            None
        );
        let text = second_encoder(&count(&[("T5", 90, 512), ("CLIP", 92, 77)])).unwrap();
        assert!(
            text.starts_with("CLIP reads only the first 77 of its 92 tokens"),
            "{text}"
        );
        assert!(text.ends_with("T5 reads all of it"), "{text}");
    }
}

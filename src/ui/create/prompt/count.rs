//! How much of the prompt is read, in words, below it.

use egui::Ui;
use safelight_core::tokens::{PromptCount, TokenCount};

use crate::ui::View;
use crate::ui::widgets::{palette, wide_note};

pub(super) fn count_ui(ui: &mut Ui, view: &View<'_>) {
    let palette = palette(ui);
    match view.app.prompt.counting.prompt() {
        None => {}
        Some(Err(problem)) => wide_note(ui, problem, palette.error),
        Some(Ok(count)) => {
            let Some(main) = count.encoders.first().filter(|_| count.num_prompts > 0) else {
                return;
            };
            let colour = if main.num_cut() > 0 {
                palette.amber
            } else {
                palette.weak
            };
            wide_note(ui, &count_text(count), colour);
            if let Some(text) = second_text(count) {
                wide_note(ui, &text, palette.weak);
            }
        }
    }
}

/// Of the negative prompt only what is wrong with it.
pub(super) fn negative_count_ui(ui: &mut Ui, view: &View<'_>) {
    match view.app.prompt.counting.negative() {
        Some(Err(problem)) => wide_note(ui, problem, palette(ui).error),
        Some(Ok(count))
            if count
                .encoders
                .first()
                .is_some_and(|main| main.num_cut() > 0) =>
        {
            wide_note(ui, &count_text(count), palette(ui).amber);
        }
        _ => {}
    }
}

/// `84 of 512 tokens`, and what is left out.
fn count_text(count: &PromptCount) -> String {
    let Some(main) = count.encoders.first() else {
        return String::new();
    };
    let TokenCount { tokens, limit, .. } = *main;
    let how = match (main.is_estimate, count.varies) {
        (true, _) => "about ",
        (false, true) => "up to ",
        (false, false) => "",
    };
    let mut text = format!("{how}{tokens} of {limit} tokens");
    if count.num_prompts > 1 {
        text = format!("{text} in the longest of {} prompts", count.num_prompts);
    } else if count.num_parts > 1 {
        text = format!("{text} in the longest of {} parts", count.num_parts);
    }
    if main.num_cut() > 0 {
        text = format!("{text}: the last {} are not read", main.num_cut());
    }
    if main.is_estimate {
        text = format!("{text} (a guess: the model's tokenizer cannot be read)");
    }
    text
}

/// What a second encoder, which gives the mood of the whole, does not hear.
fn second_text(count: &PromptCount) -> Option<String> {
    let [main, others @ ..] = &count.encoders[..] else {
        return None;
    };
    let cut = others.iter().find(|encoder| encoder.num_cut() > 0)?;
    let rest = if main.num_cut() > 0 {
        format!("{} reads more", main.name)
    } else {
        format!("{} reads all of it", main.name)
    };
    Some(format!(
        "{} reads only the first {} of its {} tokens, so say what matters most first; {rest}",
        cut.name, cut.limit, cut.tokens
    ))
}

#[cfg(test)]
mod tests {
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
        assert_eq!(count_text(&short), "84 of 512 tokens");
        let long = count(&[("UMT5", 530, 512)]);
        assert_eq!(
            count_text(&long),
            "530 of 512 tokens: the last 18 are not read"
        );
        let varied = PromptCount {
            varies: true,
            num_prompts: 3,
            ..short.clone()
        };
        assert_eq!(
            count_text(&varied),
            "up to 84 of 512 tokens in the longest of 3 prompts"
        );
        let timed = PromptCount {
            num_parts: 2,
            ..short
        };
        assert_eq!(
            count_text(&timed),
            "84 of 512 tokens in the longest of 2 parts"
        );
    }

    #[test]
    fn what_clip_does_not_hear_is_said_once_it_is_so() {
        assert_eq!(
            second_text(&count(&[("T5", 60, 512), ("CLIP", 70, 77)])),
            None
        );
        let text = second_text(&count(&[("T5", 90, 512), ("CLIP", 92, 77)])).unwrap();
        assert!(
            text.starts_with("CLIP reads only the first 77 of its 92 tokens"),
            "{text}"
        );
        assert!(text.ends_with("T5 reads all of it"), "{text}");
    }
}

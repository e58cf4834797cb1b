//! How much of the prompt is read, in words, below it.

use egui::Ui;
use safelight_core::tokens::PromptCount;

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
            wide_note(ui, &tokens_text(count), colour);
            if let Some(text) = second_encoder_text(count) {
                wide_note(ui, &text, palette.weak);
            }
        }
    }
}

/// `84 of 512 tokens`, and what is left out.
fn tokens_text(count: &PromptCount) -> String {
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
        (cut, false) => format!("{amount}: the last {cut} are truncated"),
        (cut, true) => format!(
            "{amount}: the last {cut} are truncated (estimated: the model's tokenizer cannot be \
            read)"
        ),
    }
}

/// Warning that the second text encoder truncates the prompt; `None` if it reads all of it.
fn second_encoder_text(count: &PromptCount) -> Option<String> {
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
            wide_note(ui, &tokens_text(count), palette(ui).amber);
        }
        _ => {}
    }
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
        assert_eq!(tokens_text(&short), "84 of 512 tokens");
        let long = count(&[("UMT5", 530, 512)]);
        assert_eq!(
            tokens_text(&long),
            "530 of 512 tokens: the last 18 are truncated"
        );
        let varied = PromptCount {
            varies: true,
            num_prompts: 3,
            ..short.clone()
        };
        assert_eq!(
            tokens_text(&varied),
            "up to 84 of 512 tokens in the longest of 3 prompts"
        );
        let timed = PromptCount {
            num_parts: 2,
            ..short
        };
        assert_eq!(
            tokens_text(&timed),
            "84 of 512 tokens in the longest of 2 parts"
        );
    }

    #[test]
    fn what_clip_does_not_hear_is_said_once_it_is_so() {
        assert_eq!(
            second_encoder_text(&count(&[("T5", 60, 512), ("CLIP", 70, 77)])),
            None
        );
        let text = second_encoder_text(&count(&[("T5", 90, 512), ("CLIP", 92, 77)])).unwrap();
        assert!(
            text.starts_with("CLIP reads only the first 77 of its 92 tokens"),
            "{text}"
        );
        assert!(text.ends_with("T5 reads all of it"), "{text}");
    }
}

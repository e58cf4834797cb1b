//! The prompt and the negative prompt with their token counts, and example prompts.

mod lists;

use egui::text::{CCursor, CCursorRange};
use safelight_core::job::{LiteralPrompt, random_seed};
use safelight_core::model::GuidanceMode;
use safelight_core::token_count::PromptCount;

use crate::window::layout::prelude::*;
use crate::window::prompt::field_id;

/// Examples that are shown at once; the dice reaches them all.
const NUM_CHIPS: usize = 2;
const USE_AS_TEMPLATE: &str = "Use as template";
const NO_MATCHES: &str = "No matches";

pub(crate) fn prompt_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let examples = view.model().map(|spec| spec.example_prompts.clone());
    let examples = examples.unwrap_or_default();
    let label = heading_ui(ui, view, &examples);
    let hint = if view.form.is_one_a_line {
        "One prompt per line, each line makes a job".to_owned()
    } else {
        format!("Describe the {}", result_word(view.makes_images()))
    };
    field_ui(ui, view, label, &hint);
    let is_empty = view.form.prompt.trim().is_empty();
    // Both take the same line, so that nothing jumps with the first letter.
    reserved(ui, theme::BELOW_PROMPT_HEIGHT, |ui| {
        if is_empty && !examples.is_empty() {
            examples_ui(ui, view, &examples);
        } else {
            count_ui(ui, view);
        }
    });
    let literal = view.form.unedited_prompt();
    if literal.is_some() && is_empty {
        wide_note(ui, "The file names no prompt: write one", NoteTone::Warning);
    }
    if literal_ui(ui, literal, USE_AS_TEMPLATE) {
        view.form.use_prompt_as_template();
        view.set(|app| app.prompt.begin(&mut app.cx));
    }
    if is_right_to_left(&view.form.prompt) {
        let note = "Right-to-left text is shown in the wrong order here";
        let hover = "Safelight cannot display Hebrew and Arabic from right to left yet. The \
                    text itself is stored in the right order, and the model reads it as you \
                    wrote it";
        wide_note(ui, note, NoteTone::Warning).on_hover_text(hover);
    }
    said_ui(ui, view, &["prompt"]);
    let Some(spec) = view.model().cloned() else {
        return;
    };
    if view.form.is_guided(&spec) {
        negative_ui(ui, view, &spec);
    } else {
        let negative = view.form.negative_prompt.as_deref();
        let is_empty = negative.unwrap_or_default().trim().is_empty();
        let text = negative_idle_text(&spec, is_empty);
        wide_note(ui, &text, NoteTone::Hint);
    }
}

fn negative_idle_text(spec: &ModelSpec, is_empty: bool) -> String {
    let scale = match spec.guidance {
        GuidanceMode::Cfg => "guidance",
        GuidanceMode::None if spec.family.guidance_is_cfg => {
            return "This model uses no negative prompt".to_owned();
        }
        _ => "CFG scale",
    };
    let what = if is_empty {
        "No negative prompt"
    } else {
        "The negative prompt is kept but not used"
    };
    format!("{what}: it needs a {scale} above 1 (see Advanced)")
}

/// Examples replace the text of the prompt, so they are shown only while it is empty.
fn examples_ui(ui: &mut Ui, view: &mut UiContext<'_>, examples: &[String]) {
    let shown = examples.get(..NUM_CHIPS).unwrap_or(examples);
    ui.columns(shown.len(), |columns| {
        for (ui, example) in columns.iter_mut().zip(shown) {
            ui.spacing_mut().button_padding.y = 1.0;
            ui.spacing_mut().interact_size.y = 0.0;
            let name = format!("Example: {example}");
            let button = chip(ui, example, &name, "Click to use this prompt");
            let example = example.clone();
            view.on_press(&button, |app| app.prompt.use_example(example, &mut app.cx));
        }
    });
}

/// Returns whether a text has letters of scripts that run from right to left, which egui draws from left to right.
fn is_right_to_left(text: &str) -> bool {
    text.chars().any(|letter| {
        matches!(
            letter,
            '\u{590}'..='\u{8ff}'
                | '\u{fb1d}'..='\u{fdff}'
                | '\u{fe70}'..='\u{fefc}'
                | '\u{10800}'..='\u{10fff}'
                | '\u{1e800}'..='\u{1efff}'
        )
    })
}

/// Label and its buttons; returns the label's id.
fn heading_ui(ui: &mut Ui, view: &mut UiContext<'_>, examples: &[String]) -> Id {
    let hover = format!(
        "Describe the {} in plain words. {{a|b}} picks one of them, __name__ a line of a wildcard file",
        result_word(view.makes_images())
    );
    ui.horizontal(|ui| {
        let label = group_label(ui, "Prompt", &hover);
        at_right(ui, "prompt", |ui| {
            lists::button_ui(ui, view);
            lists::wildcards_button_ui(ui, view);
            let is_on = view.form.is_one_a_line;
            let meaning = if is_on {
                "Each line makes a job of its own. Click to use all lines as one prompt"
            } else {
                "Make a job of each line"
            };
            if word_button(ui, is_on, "Lines", "One job per line", meaning).clicked() {
                view.form.is_one_a_line = !is_on;
            }
            if !examples.is_empty() {
                let (name, hover) = ("Random example", "Another example prompt");
                if word_button(ui, false, "Example", name, hover).clicked() {
                    let pick = another(examples, &view.form.prompt);
                    view.set(|app| app.prompt.use_example(pick, &mut app.cx));
                }
            }
        });
        label.id
    })
    .inner
}

fn field_ui(ui: &mut Ui, view: &mut UiContext<'_>, label: Id, hint: &str) {
    let id = field_id();
    if let Some(cursor) = view.typing.wanted_cursor.take() {
        let mut state = TextEdit::load_state(ui.ctx(), id).unwrap_or_default();
        let range = CCursorRange::one(CCursor::new(cursor));
        state.cursor.set_char_range(Some(range));
        state.store(ui.ctx(), id);
        ui.memory_mut(|memory| memory.request_focus(id));
    }
    // Before the field is drawn, so that keys typed directly after the shortcut count.
    let is_wanted = std::mem::take(&mut view.typing.is_focus_wanted);
    if is_wanted {
        ui.memory_mut(|memory| memory.request_focus(id));
    }
    let has_focus = ui.memory(|memory| memory.has_focus(id));
    if has_focus {
        lists::take_keys(ui, view);
    }
    let edit = |ui: &mut Ui| {
        TextEdit::multiline(&mut view.form.prompt)
            .id(id)
            .hint_text(hint.to_owned())
            .font(TextStyle::Body)
            .desired_rows(3)
            .desired_width(f32::INFINITY)
            .margin(egui::Margin::same(9))
            .lock_focus(view.typing.is_naming)
            .show(ui)
    };
    let output = ScrollArea::vertical()
        .id_salt("prompt-area")
        .max_height(theme::PROMPT_HEIGHT)
        .min_scrolled_height(theme::PROMPT_HEIGHT)
        .show(ui, edit)
        .inner;
    let response = output.response.response.labelled_by(label);
    if is_wanted {
        response.scroll_to_me(None);
    }
    if response.gained_focus() || response.changed() {
        view.set(|app| app.prompt.begin(&mut app.cx));
    }
    let cursor = output.cursor_range.map(|range| range.primary.index.0);
    lists::completion_ui(ui, view, &response, cursor.filter(|_| has_focus));
    let names = view.typing.is_naming && response.changed();
    if response.gained_focus() || names {
        view.set(|app| app.prompt.glance_at_wildcards(&app.cx));
    }
}

/// Shown where it acts: without guidance nothing is steered away from.
fn negative_ui(ui: &mut Ui, view: &mut UiContext<'_>, spec: &ModelSpec) {
    let word = result_word(view.makes_images());
    let hover =
        format!("What to keep out of the {word}. It is used because the guidance is above 1");
    let label = group_label(ui, "Negative prompt", &hover);
    let hint = if spec.guidance == GuidanceMode::Cfg {
        "Nothing in particular"
    } else {
        "Required: what to avoid"
    };
    let negative = &mut view.form.negative_prompt;
    let negative = negative.get_or_insert_with(|| spec.defaults.negative_prompt.clone());
    let edit = TextEdit::multiline(negative)
        .id_salt("negative-prompt")
        .hint_text(RichText::new(hint))
        .desired_rows(1)
        .desired_width(f32::INFINITY)
        .margin(egui::Margin::same(9));
    // Some models come with a long one.
    let response = ScrollArea::vertical()
        .id_salt("negative-prompt-area")
        .max_height(theme::NEGATIVE_HEIGHT)
        .show(ui, |ui| ui.add(edit).labelled_by(label.id));
    if response.inner.gained_focus() {
        // Its own area would scroll alone.
        ui.scroll_to_rect(response.inner_rect, None);
        view.set(|app| app.prompt.begin(&mut app.cx));
    }
    negative_count_ui(ui, view);
    let literal = view.form.unedited_negative();
    if literal_ui(ui, literal, "Use negative prompt as template") {
        view.form.use_negative_as_template();
        view.set(|app| app.prompt.begin(&mut app.cx));
    }
}

/// The line below a literal prompt that looks like a template; true if its button is clicked.
fn literal_ui(ui: &mut Ui, literal: Option<&LiteralPrompt>, name: &str) -> bool {
    let Some(literal) = literal.filter(|literal| literal.differs_from_template()) else {
        return false;
    };
    ui.vertical(|ui| {
        ui.spacing_mut().item_spacing.y = 4.0;
        let text = RichText::new("Literal text: choices and wildcards are not expanded").small();
        ui.label(text.color(palette(ui).amber)).on_hover_text(
            "This prompt comes from a finished file. It is used as it is until you edit it",
        );
        ui.add(Button::new(RichText::new(USE_AS_TEMPLATE).small()))
            .on_hover_text(format!(
                "Expand choices, wildcards and comments again:\n{}",
                literal.template
            ))
            .accessible_name(name)
            .clicked()
    })
    .inner
}

fn another(examples: &[String], current: &str) -> String {
    let mut others: Vec<&String> = examples.iter().filter(|it| *it != current).collect();
    if others.is_empty() {
        others.extend(examples.first());
    }
    let index = random_seed() as usize % others.len().max(1);
    others.get(index).copied().cloned().unwrap_or_default()
}

fn count_ui(ui: &mut Ui, view: &UiContext<'_>) {
    match &view.app.prompt.counting.prompt {
        None => {}
        Some(Err(problem)) => {
            wide_note(ui, problem, NoteTone::Error);
        }
        Some(Ok(count)) => {
            let Some(main) = count.encoders.first().filter(|_| count.num_prompts > 0) else {
                return;
            };
            let tone = if main.num_cut() > 0 {
                NoteTone::Warning
            } else {
                NoteTone::Hint
            };
            wide_note(ui, &tokens_text(count), tone);
            if let Some(text) = second_encoder_text(count) {
                wide_note(ui, &text, NoteTone::Hint);
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
    let mut text = amount;
    if let cut @ 1.. = main.num_cut() {
        text = format!("{text}: the last {cut} are truncated");
    }
    if is_estimate {
        text.push_str(" (estimated: the model's tokenizer cannot be read)");
    }
    text
}

/// Warning that the second text encoder truncates the prompt; `None` if it reads all of it.
fn second_encoder_text(count: &PromptCount) -> Option<String> {
    let [main, others @ ..] = &count.encoders[..] else {
        return None;
    };
    let short = others.iter().find(|encoder| encoder.num_cut() > 0)?;
    let (name, limit, all, other) = (short.name, short.limit, short.tokens, main.name);
    let is_cut = main.num_cut() > 0;
    let rest = if is_cut { "more" } else { "all of it" };
    Some(format!(
        "{name} reads only the first {limit} of its {all} tokens, so put what matters most first; {other} reads {rest}"
    ))
}

/// Of the negative prompt only what is wrong with it.
fn negative_count_ui(ui: &mut Ui, view: &UiContext<'_>) {
    match &view.app.prompt.counting.negative {
        Some(Err(problem)) => {
            wide_note(ui, problem, NoteTone::Error);
        }
        Some(Ok(count)) if count.encoders.first().is_some_and(|it| it.num_cut() > 0) => {
            wide_note(ui, &tokens_text(count), NoteTone::Warning);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use safelight_core::token_count::TokenCount;

    use super::*;

    #[test]
    fn only_right_to_left_scripts_are_detected_as_such() {
        for text in ["שלום", "a boat called سلام"] {
            assert!(is_right_to_left(text), "{text}");
        }
        for text in [
            "",
            "a red boat",
            "Ein Boot – ärgerlich…",
            "한국어 ไทย हिन्दी 日本",
            "🚤",
        ] {
            assert!(!is_right_to_left(text), "{text}");
        }
    }

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
    fn token_count_names_the_limit_and_the_truncated_tokens() {
        let short = count(&[("UMT5", 84, 512)]);
        assert_eq!(tokens_text(&short), "84 of 512 tokens");
        let long = count(&[("UMT5", 530, 512)]);
        let expected = "530 of 512 tokens: the last 18 are truncated";
        assert_eq!(tokens_text(&long), expected);
        let varied = PromptCount {
            varies: true,
            num_prompts: 3,
            ..short.clone()
        };
        let expected = "up to 84 of 512 tokens in the longest of 3 prompts";
        assert_eq!(tokens_text(&varied), expected);
        let timed = PromptCount {
            num_parts: 2,
            ..short
        };
        let expected = "84 of 512 tokens in the longest of 2 parts";
        assert_eq!(tokens_text(&timed), expected);
    }

    #[test]
    fn clip_limit_is_reported_only_when_the_prompt_exceeds_it() {
        let found = second_encoder_text(&count(&[("T5", 60, 512), ("CLIP", 70, 77)]));
        assert_eq!(found, None);
        let text = second_encoder_text(&count(&[("T5", 90, 512), ("CLIP", 92, 77)])).unwrap();
        let start = "CLIP reads only the first 77 of its 92 tokens";
        assert!(text.starts_with(start), "{text}");
        assert!(text.ends_with("T5 reads all of it"), "{text}");
    }
}

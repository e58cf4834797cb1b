//! The prompt, the negative prompt, what helps with writing them, and examples that the model understands.

mod completion;
mod count;
mod history;
mod wildcards;

use egui::text::{CCursor, CCursorRange};
use egui::{Button, Id, RichText, ScrollArea, TextEdit, TextStyle, Ui};
use safelight_core::job::{LiteralPrompt, random_seed};
use safelight_core::model::{Guidance, ModelSpec};

use crate::app::commands::PromptCommand;
use crate::app::prompt::field_id;
use crate::ui::create::advanced::said_ui;
use crate::ui::create::image_or_video;
use crate::ui::widgets::{
    at_right, chip, group_label, icon_button, icon_toggle, palette, reserved, wide_note,
};
use crate::ui::{View, icons, theme};

/// Examples that are shown at once; the dice reaches them all.
const NUM_CHIPS: usize = 2;
const USE_AS_TEMPLATE: &str = "Use as template";
const NO_MATCHES: &str = "No matches";

/// What is typed above the lists.
#[derive(Default)]
pub struct PromptPanel {
    history_search: String,
    wildcard_search: String,
}

pub(super) fn prompt_ui(ui: &mut Ui, view: &mut View<'_>) {
    let examples: Vec<String> = view
        .model()
        .map(|spec| spec.example_prompts.clone())
        .unwrap_or_default();
    let label = heading_ui(ui, view, &examples);
    let hint = if view.form.is_one_a_line {
        "One prompt per line, each line makes a job"
    } else {
        prompt_hint(view.makes_pictures())
    };
    field_ui(ui, view, label, hint);
    let is_empty = view.form.prompt.trim().is_empty();
    // Both take the same line, so that nothing jumps with the first letter.
    reserved(ui, theme::BELOW_PROMPT_HEIGHT, |ui| {
        if is_empty && !examples.is_empty() {
            examples_ui(ui, view, &examples);
        } else {
            count::count_ui(ui, view);
        }
    });
    let literal = view.form.unedited_prompt();
    if literal.is_some() && is_empty {
        wide_note(ui, "The file names no prompt: write one", palette(ui).amber);
    }
    if literal_ui(ui, literal, USE_AS_TEMPLATE) {
        view.form.use_prompt_as_template();
        view.push(PromptCommand::Begin);
    }
    if is_right_to_left(&view.form.prompt) {
        let note = "Right-to-left text is shown in the wrong order here";
        let amber = palette(ui).amber;
        let explanation = "Safelight cannot display Hebrew and Arabic from right to left yet. The \
                          text itself is stored in the right order, and the model reads it as you \
                          wrote it";
        ui.scope(|ui| wide_note(ui, note, amber))
            .response
            .on_hover_text(explanation);
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
        let text = negative_idle_text(spec.guidance, is_empty);
        wide_note(ui, text, palette(ui).weak);
    }
}

fn prompt_hint(makes_pictures: bool) -> &'static str {
    image_or_video(makes_pictures, "Describe the picture", "Describe the clip")
}

/// Reason why the negative prompt is not used, and the remedy.
fn negative_idle_text(guidance: Guidance, is_empty: bool) -> &'static str {
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

/// They take the place of what is written, so they are there while that is nothing.
fn examples_ui(ui: &mut Ui, view: &mut View<'_>, examples: &[String]) {
    let shown = examples.get(..NUM_CHIPS).unwrap_or(examples);
    ui.columns(shown.len(), |columns| {
        for (ui, example) in columns.iter_mut().zip(shown) {
            ui.spacing_mut().button_padding.y = 1.0;
            ui.spacing_mut().interact_size.y = 0.0;
            if chip(ui, example, "Click to use this prompt").clicked() {
                view.push(PromptCommand::UseExample(example.clone()));
            }
        }
    });
}

/// Whether a text has letters of scripts that run from right to left, which egui draws from left to right.
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

/// The label and the buttons behind it; gives the label's id.
fn heading_ui(ui: &mut Ui, view: &mut View<'_>, examples: &[String]) -> Id {
    let explanation = prompt_hover(view.makes_pictures());
    ui.horizontal(|ui| {
        let label = group_label(ui, "Prompt", explanation);
        at_right(ui, "prompt", |ui| {
            history::button_ui(ui, view);
            wildcards::button_ui(ui, view);
            let is_on = view.form.is_one_a_line;
            let meaning = if is_on {
                "Each line makes a job of its own. Click to use all lines as one prompt"
            } else {
                "Make a job of each line"
            };
            if icon_toggle(ui, is_on, icons::ROWS, "One job per line", meaning).clicked() {
                view.form.is_one_a_line = !is_on;
            }
            if !examples.is_empty() {
                let (name, hover) = ("Random example", "Another example prompt");
                let roll = icon_button(ui, icons::DICE, name, hover);
                if roll.clicked() {
                    let pick = another(examples, &view.form.prompt);
                    view.push(PromptCommand::UseExample(pick));
                }
            }
        });
        label.id
    })
    .inner
}

fn prompt_hover(makes_pictures: bool) -> &'static str {
    image_or_video(
        makes_pictures,
        "Describe the picture in plain words. {a|b} picks one of them, __name__ a line of a wildcard file",
        "Describe the clip in plain words. {a|b} picks one of them, __name__ a line of a wildcard file",
    )
}

fn field_ui(ui: &mut Ui, view: &mut View<'_>, label: Id, hint: &str) {
    let id = field_id();
    if let Some(cursor) = view.typing.wanted_cursor.take() {
        let mut state = TextEdit::load_state(ui.ctx(), id).unwrap_or_default();
        let range = CCursorRange::one(CCursor::new(cursor));
        state.cursor.set_char_range(Some(range));
        state.store(ui.ctx(), id);
        ui.memory_mut(|memory| memory.request_focus(id));
    }
    // Before the field is drawn: what was typed right behind the key counts already.
    let is_wanted = std::mem::take(&mut view.typing.is_focus_wanted);
    if is_wanted {
        ui.memory_mut(|memory| memory.request_focus(id));
    }
    let has_focus = ui.memory(|memory| memory.has_focus(id));
    if has_focus {
        completion::take_keys(ui, view);
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
        view.push(PromptCommand::Begin);
    }
    let cursor = output.cursor_range.map(|range| range.primary.index.0);
    completion::completion_ui(ui, view, &response, cursor.filter(|_| has_focus));
    let names = view.typing.is_naming && response.changed();
    if response.gained_focus() || names {
        view.push(PromptCommand::GlanceAtWildcards);
    }
}

/// Shown where it acts: without guidance nothing is steered away from.
fn negative_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let explanation = negative_hover(view.makes_pictures());
    let label = group_label(ui, "Negative prompt", explanation);
    let hint = if spec.guidance == Guidance::Cfg {
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
        view.push(PromptCommand::Begin);
    }
    count::negative_count_ui(ui, view);
    let literal = view.form.unedited_negative();
    if literal_ui(ui, literal, "Use negative prompt as template") {
        view.form.use_negative_as_template();
        view.push(PromptCommand::Begin);
    }
}

fn negative_hover(makes_pictures: bool) -> &'static str {
    image_or_video(
        makes_pictures,
        "What to keep out of the picture. It is used because the guidance is above 1",
        "What to keep out of the clip. It is used because the guidance is above 1",
    )
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

/// Another example than the one in the field.
fn another(examples: &[String], current: &str) -> String {
    let others: Vec<&String> = examples
        .iter()
        .filter(|example| *example != current)
        .collect();
    let index = random_seed() as usize % others.len().max(1);
    others
        .get(index)
        .copied()
        .or_else(|| examples.first())
        .cloned()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_letters_that_run_from_right_to_left_are_told() {
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
}

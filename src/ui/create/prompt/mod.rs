//! The prompt, the negative prompt, what helps with writing them, and examples that the model understands.

mod completion;
mod count;
mod history;
mod wildcards;

use egui::text::{CCursor, CCursorRange};
use egui::{Id, RichText, ScrollArea, TextEdit, TextStyle, Ui};
use safelight_core::job::random_seed;
use safelight_core::model::{Guidance, ModelSpec};

use crate::app::commands::PromptCommand;
use crate::app::prompt::field_id;
use crate::ui::create::advanced::said_ui;
use crate::ui::widgets::{
    at_right, chip, group_label, icon_button, icon_toggle, palette, wide_note,
};
use crate::ui::{View, icons, theme};

/// Examples that are shown at once behind the first, which is the hint; the dice reaches them all.
const NUM_CHIPS: usize = 2;

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
    let hint = match examples.first() {
        _ if view.form.is_one_a_line => "One prompt a line, each a job of its own",
        Some(example) => example,
        None => "What should develop?",
    };
    field_ui(ui, view, label, hint);
    count::count_ui(ui, view);
    said_ui(ui, view, &["prompt"]);
    // They take the place of what is written, so there is nothing yet.
    if !examples.is_empty() && view.form.prompt.trim().is_empty() {
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().button_padding.y = 2.0;
            for example in examples.iter().skip(1).take(NUM_CHIPS) {
                if chip(ui, example, "Click to use this prompt").clicked() {
                    view.push(PromptCommand::UseExample(example.clone()));
                }
            }
        });
    }
    let Some(spec) = view.model().cloned() else {
        return;
    };
    if view.form.is_guided(&spec) {
        negative_ui(ui, view, &spec);
    } else {
        let text = idle_negative_text(view, &spec);
        wide_note(ui, &text, palette(ui).weak);
    }
}

/// The label and the buttons behind it; gives the label's id.
fn heading_ui(ui: &mut Ui, view: &mut View<'_>, examples: &[String]) -> Id {
    let explanation = format!(
        "What the {} should show, in plain words. {{a|b}} stands for one of them, __name__ for a line of a wildcard file",
        view.thing()
    );
    ui.horizontal(|ui| {
        let label = group_label(ui, "Prompt", &explanation);
        at_right(ui, "prompt", |ui| {
            history::button_ui(ui, view);
            wildcards::button_ui(ui, view);
            let is_on = view.form.is_one_a_line;
            let meaning = if is_on {
                "Each line is a job of its own. Click to read all lines as one prompt"
            } else {
                "Make each line a job of its own"
            };
            if icon_toggle(ui, is_on, icons::ROWS, "One job a line", meaning).clicked() {
                view.form.is_one_a_line = !is_on;
            }
            if !examples.is_empty() {
                let roll = icon_button(ui, icons::DICE, "Random example", "Another example prompt");
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
    let output = TextEdit::multiline(&mut view.form.prompt)
        .id(id)
        .hint_text(hint.to_owned())
        .font(TextStyle::Body)
        .desired_rows(3)
        .desired_width(f32::INFINITY)
        .margin(egui::Margin::same(9))
        .lock_focus(view.typing.is_naming)
        .show(ui);
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
    let explanation = format!(
        "What the {} should not show. It counts because the guidance is above 1",
        view.thing()
    );
    let label = group_label(ui, "Negative prompt", &explanation);
    let hint = if spec.guidance == Guidance::Cfg {
        "Nothing in particular"
    } else {
        "Needed: what to steer away from"
    };
    let negative = &mut view.form.negative_prompt;
    let negative = negative.get_or_insert_with(|| spec.defaults.negative_prompt.clone());
    let edit = TextEdit::multiline(negative)
        .id_salt("negative prompt")
        .hint_text(RichText::new(hint))
        .desired_rows(1)
        .desired_width(f32::INFINITY)
        .margin(egui::Margin::same(9));
    // Some models come with a long one.
    let response = ScrollArea::vertical()
        .id_salt("negative prompt area")
        .max_height(theme::NEGATIVE_HEIGHT)
        .show(ui, |ui| ui.add(edit).labelled_by(label.id));
    if response.inner.gained_focus() {
        view.push(PromptCommand::Begin);
    }
    count::negative_count_ui(ui, view);
}

/// Why there is no negative prompt, and what brings it.
fn idle_negative_text(view: &View<'_>, spec: &ModelSpec) -> String {
    let how = if spec.guidance == Guidance::Cfg {
        "it acts with a guidance above 1"
    } else {
        "with this model it acts with a real guidance (CFG) above 1, and each step then takes twice as long"
    };
    let negative = view.form.negative_prompt.as_deref();
    if negative.unwrap_or_default().trim().is_empty() {
        format!("No negative prompt: {how}, see Advanced")
    } else {
        format!("The negative prompt is kept and does not act: {how}, see Advanced")
    }
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

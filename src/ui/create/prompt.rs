//! The prompt, the negative prompt, and examples that the model understands.

use egui::{RichText, ScrollArea, TextEdit, TextStyle, Ui};
use safelight_core::catalog::Guidance;
use safelight_core::job::random_seed;

use crate::app::commands::AppCommand;
use crate::ui::widgets::{chip, group_label, icon_button};
use crate::ui::{View, icons, theme};

/// Examples that are shown at once behind the first, which is the hint; the dice reaches them all.
const NUM_CHIPS: usize = 2;

pub(super) fn prompt_ui(ui: &mut Ui, view: &mut View<'_>) {
    let examples: Vec<String> = view
        .session
        .model(&view.state.form)
        .map(|spec| spec.example_prompts.clone())
        .unwrap_or_default();
    let explanation = format!("What the {} should show, in plain words", view.thing());
    let label = ui
        .horizontal(|ui| {
            let label = group_label(ui, "Prompt", &explanation);
            if !examples.is_empty() {
                ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
                    let roll =
                        icon_button(ui, icons::DICE, "Random example", "Another example prompt");
                    if roll.clicked() {
                        let pick = another(&examples, &view.state.form.prompt);
                        view.push(AppCommand::UseExample(pick));
                    }
                });
            }
            label
        })
        .inner;
    let hint = examples
        .first()
        .map_or("What should develop?", String::as_str)
        .to_owned();
    let field = TextEdit::multiline(&mut view.state.form.prompt)
        .id_salt("prompt")
        .hint_text(hint)
        .font(TextStyle::Body)
        .desired_rows(3)
        .desired_width(f32::INFINITY)
        .margin(egui::Margin::same(9))
        .show(ui)
        .response
        .response;
    if std::mem::take(&mut view.session.desktop.is_prompt_wanted) {
        field.request_focus();
        field.scroll_to_me(None);
    }
    field.labelled_by(label.id);
    if !examples.is_empty() {
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().button_padding.y = 2.0;
            for example in examples.iter().skip(1).take(NUM_CHIPS) {
                if chip(ui, example, "Click to use this prompt").clicked() {
                    view.push(AppCommand::UseExample(example.clone()));
                }
            }
        });
    }
    let is_guided = view
        .session
        .model(&view.state.form)
        .is_none_or(|spec| view.state.form.is_guided(spec));
    if is_guided {
        negative_ui(ui, view);
    }
}

/// Shown where it acts: without guidance nothing is steered away from.
fn negative_ui(ui: &mut Ui, view: &mut View<'_>) {
    let explanation = format!(
        "What the {} should not show. It counts because the guidance is above 1",
        view.thing()
    );
    let label = group_label(ui, "Negative prompt", &explanation);
    let spec = view.session.model(&view.state.form);
    let hint = if spec.is_some_and(|spec| spec.guidance != Guidance::Cfg) {
        "Needed: what to steer away from"
    } else {
        "Nothing in particular"
    };
    let edit = TextEdit::multiline(&mut view.state.form.negative_prompt)
        .id_salt("negative prompt")
        .hint_text(RichText::new(hint))
        .desired_rows(1)
        .desired_width(f32::INFINITY)
        .margin(egui::Margin::same(9));
    // Some models come with a long one.
    ScrollArea::vertical()
        .id_salt("negative prompt area")
        .max_height(theme::NEGATIVE_HEIGHT)
        .show(ui, |ui| ui.add(edit).labelled_by(label.id));
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

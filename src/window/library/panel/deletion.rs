//! The question before a model is deleted: its files with their sizes, and those that stay.

use std::path::Path;

use crate::window::layout::prelude::*;

/// Height of the list of files, in points.
const LIST_HEIGHT: f32 = 220.0;

pub(in crate::window) fn question_ui(ctx: &Context, view: &mut UiContext<'_>) {
    let Some(question) = &view.app.library.deletion.question else {
        return;
    };
    let plan = &question.plan;
    let mut answer = None;
    let response = modal(ctx, "delete-model", (theme::QUESTION_WIDTH, 16), |ui| {
        ui.heading(format!("Move {} to the trash?", question.name));
        ui.add_space(theme::SMALL_GAP);
        ScrollArea::vertical()
            .max_height(LIST_HEIGHT)
            .show(ui, |ui| {
                ui.set_width(ui.available_width());
                for (file, bytes) in &plan.files {
                    file_ui(ui, file, &size_text(*bytes));
                }
                if !plan.kept.is_empty() {
                    ui.add_space(theme::SMALL_GAP);
                    ui.weak("These stay:");
                }
                for (file, why) in &plan.kept {
                    file_ui(ui, file, why);
                }
            });
        ui.add_space(theme::SMALL_GAP);
        let text = format!("Move {} to the trash", size_text(plan.bytes()));
        if main_button(ui, !plan.files.is_empty(), icons::TRASH, &text).clicked() {
            answer = Some(true);
        }
        if second_button(ui, true, icons::X, "Cancel").clicked() {
            answer = Some(false);
        }
    });
    let answer = answer.or_else(|| response.should_close().then_some(false));
    if let Some(is_agreed) = answer {
        view.push(LibraryCommand::AnswerDeletion(is_agreed));
    }
}

fn file_ui(ui: &mut Ui, file: &Path, note: &str) {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    noted_row(ui, note, |ui| ui.label(name)).on_hover_text(file.display().to_string());
}

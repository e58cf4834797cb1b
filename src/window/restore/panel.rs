//! The question about a workflow with several results: what each makes, and whether one goes into the form or all into
//! the queue.

use crate::window::layout::prelude::*;
use crate::window::restore::{WorkflowOutput, WorkflowOutputs};

/// With the margin inside.
const WIDTH: (f32, i8) = (560.0, 16);
/// Share of the window's height for the list.
const LIST_SHARE: f32 = 0.6;

pub(crate) fn outputs_ui(ctx: &Context, view: &mut UiContext<'_>) {
    let Some(offered) = &view.app.restoring.offered else {
        return;
    };
    let response = modal(ctx, "workflow-outputs", WIDTH, |ui| {
        let (name, count) = (file_name(&offered.path), offered.outputs.len());
        ui.heading(format!("{name} makes {count} results"));
        ui.add_space(theme::SMALL_GAP);
        let height = ctx.content_rect().height() * LIST_SHARE;
        ScrollArea::vertical().max_height(height).show(ui, |ui| {
            for (index, output) in offered.outputs.iter().enumerate() {
                if output_ui(ui, index, output) {
                    view.set(move |app| app.restoring.open_output(index, &app.cx));
                }
                ui.add_space(theme::SMALL_GAP);
            }
        });
        let hover = "Add a job for each result. Those that lack a model or an image are left out";
        let is_possible = offered.num_ready() > 0;
        let queue = main_button(ui, is_possible, icons::QUEUE, &queue_text(offered));
        view.on_press(&queue.on_hover_text(hover), |app| {
            app.restoring.queue_outputs(&mut app.cx);
        });
        let cancel = Button::new(with_icon(icons::X, "Cancel"));
        let cancel = across(ui, "Cancel", |ui| ui.add(cancel)).accessible_name("Cancel");
        cancel.clicked()
    });
    if response.inner || response.should_close() {
        view.set(|app| app.restoring.offered = None);
    }
}

fn queue_text(offered: &WorkflowOutputs) -> String {
    let (ready, all) = (offered.num_ready(), offered.outputs.len());
    if ready < all {
        format!("Queue {ready} of {all}")
    } else {
        "Queue all".to_owned()
    }
}

/// One result; returns whether it is to be opened in the form.
fn output_ui(ui: &mut Ui, index: usize, output: &WorkflowOutput) -> bool {
    let palette = palette(ui);
    let mut is_opened = false;
    wide_frame(ui, card(ui, palette.line), |ui| {
        ui.horizontal(|ui| {
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                let hover =
                    "Fill the form with the prompt, the seed and the settings of this result";
                let name = format!("Open {} in form", output.name);
                let button = hint_button(ui, "Open in form", hover).accessible_name(&name);
                is_opened = button.clicked();
                ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                    ui.add(Label::new(RichText::new(&output.name).strong()).truncate());
                });
            });
        });
        let words: Vec<&str> = output.prompt.split_whitespace().collect();
        if !words.is_empty() {
            ui.add(Label::new(words.join(" ")).truncate());
        }
        let model = output.model.as_deref().unwrap_or_default();
        let facts = [model, &output.facts];
        let facts: Vec<&str> = facts.into_iter().filter(|it| !it.is_empty()).collect();
        ui.weak(facts.join(" · "));
        if let Err(why) = &output.jobs {
            ui.label(RichText::new(with_icon(icons::WARNING, &sentence(why))).color(palette.amber));
        }
        if !output.notes.is_empty() {
            let count = counted(output.notes.len(), "1 note", "{} notes");
            ui.push_id(index, |ui| {
                ui.collapsing(RichText::new(count).small().color(palette.weak), |ui| {
                    for note in &output.notes {
                        ui.weak(RichText::new(note).small());
                    }
                });
            });
        }
    });
    is_opened
}

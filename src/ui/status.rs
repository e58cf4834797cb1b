//! The status line: what happens now, how far it is, and how long it will still take.

use egui::accesskit::Live;
use egui::{Align, Button, Label, Layout, ProgressBar, RichText, Ui};
use safelight_core::job::{Recipe, Stage};
use safelight_core::units::duration_text;

use crate::app::queue::RunningJob;
use crate::ui::widgets::{palette, progress_bar};
use crate::ui::{View, icons, theme};

pub(super) fn status_ui(ui: &mut Ui, view: &mut View<'_>) {
    let palette = palette(ui);
    ui.horizontal(|ui| {
        if let Some(job) = &view.app.queue.running {
            let bar = ProgressBar::new(job.progress())
                .desired_width(180.0_f32.min(ui.available_width() * 0.25))
                .desired_height(8.0)
                .fill(palette.accent);
            progress_bar(ui, bar).accessible_name("Progress");
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            memory_button(ui, view);
            ui.add_space(theme::SMALL_GAP);
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                text_ui(ui, view);
                let line = &view.app.queue.device_line;
                if !line.is_empty() && ui.available_width() > theme::LABEL_WIDTH {
                    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                        let text = RichText::new(line).small().color(palette.weak);
                        ui.add(Label::new(text).truncate()).on_hover_text(line);
                    });
                }
            });
        });
    });
}

/// What happens now. Screen readers tell what changes, but not each step of a job.
fn text_ui(ui: &mut Ui, view: &View<'_>) {
    let is_running = view.app.queue.running.is_some();
    let colour = if is_running {
        palette(ui).amber
    } else {
        palette(ui).weak
    };
    let text = RichText::new(status_text(view)).color(colour);
    let response = ui.add(Label::new(text).truncate());
    if !is_running {
        ui.ctx()
            .accesskit_node_builder(response.id, |node| node.set_live(Live::Polite));
    }
}

fn memory_button(ui: &mut Ui, view: &mut View<'_>) {
    let is_open = view.folds.is_graph_open;
    let (icon, name) = if is_open {
        (icons::CARET_DOWN, "Hide memory")
    } else {
        (icons::CARET_RIGHT, "Show memory")
    };
    let text = RichText::new(format!("{icon} Memory")).small();
    let button = ui
        .add(Button::new(text).frame_when_inactive(false))
        .on_hover_text("The memory graph")
        .accessible_name(name);
    if button.clicked() {
        view.folds.is_graph_open = !is_open;
    }
}

/// One line that always says what happens.
fn status_text(view: &View<'_>) -> String {
    if let Some(job) = &view.app.queue.running {
        return running_text(job, view.app.queue.waiting.len());
    }
    if view.app.queue.is_paused {
        return format!("Paused  ·  {} waiting", view.app.queue.waiting.len());
    }
    if view.app.queue.next(view.app.queue.edited()).is_some() {
        return "Preparing the next job…".to_owned();
    }
    if view.app.cx.models.are_loading {
        return "Looking for models…".to_owned();
    }
    if view.app.cx.models.all().is_empty() {
        return "No model to generate with".to_owned();
    }
    if view.app.cx.last_word.is_empty() {
        "Ready".to_owned()
    } else {
        view.app.cx.last_word.clone()
    }
}

fn running_text(job: &RunningJob, num_waiting: usize) -> String {
    if job.cancel.is_paused() {
        return "Pausing…".to_owned();
    }
    if job.cancel.is_cancelled() {
        return "Cancelling…".to_owned();
    }
    let stage = match job.stage {
        None => "Starting the engine…",
        Some(stage) => stage.label(),
    };
    let mut parts = vec![stage.to_owned()];
    let num_sections = job.recipe.as_ref().map_or(1, Recipe::num_sections);
    let is_of_section = matches!(
        job.stage,
        Some(Stage::Denoise | Stage::Unload | Stage::Decode)
    );
    if num_sections > 1 && is_of_section {
        parts.push(format!("section {} of {num_sections}", job.section + 1));
    }
    if let Some((step, num_steps)) = job.step {
        parts.push(format!("{step} of {num_steps}"));
    } else if job.stage == Some(Stage::Decode) && job.num_frames_decoded > 0 {
        let what = if job.request.batch_size > 1 {
            "picture"
        } else {
            "frame"
        };
        parts.push(format!(
            "{what} {} of {}",
            job.num_frames_decoded,
            job.num_frames_of_stage()
        ));
    }
    if job.has_resumed {
        parts.push("resumed after the engine was restarted".to_owned());
    }
    if let Some(secs) = job.secs_left {
        parts.push(format!("about {} left", duration_text(secs.max(1.0))));
    }
    if num_waiting > 0 {
        parts.push(format!("{num_waiting} waiting"));
    }
    parts.join("  ·  ")
}

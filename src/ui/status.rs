//! The status line: what happens now, how far it is, how long it will still take, and whether the next job fits.

use egui::accesskit::Live;
use egui::{Align, Button, Label, Layout, ProgressBar, RichText, Ui};
use safelight_core::job::{Recipe, Stage};
use safelight_core::units::duration_text;

use crate::app::commands::{DesktopCommand, QueueCommand};
use crate::app::queue::RunningJob;
use crate::app::state::PanelPlace;
use crate::ui::runtimes::idle_ui;
use crate::ui::widgets::{caret, palette, progress_bar};
use crate::ui::{View, memory, theme};

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
            memory::summary_ui(ui, view);
            ui.add_space(theme::SMALL_GAP);
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                waiting_ui(ui, view);
                text_ui(ui, view);
                idle_ui(ui, view);
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

/// Lets a job go on that waits for other programs.
fn waiting_ui(ui: &mut Ui, view: &mut View<'_>) {
    let waits = |job: &RunningJob| job.waiting.is_some() && !job.cancel.is_cancelled();
    if !view.app.queue.running.as_ref().is_some_and(waits) {
        return;
    }
    let button = ui
        .small_button("Continue now")
        .on_hover_text("Resume now, even if other programs need the memory");
    if button.clicked() {
        view.push(QueueCommand::WaitNoMore);
    }
}

/// What happens now. Screen readers tell what changes, but not each step of a job.
fn text_ui(ui: &mut Ui, view: &View<'_>) {
    let running = view.app.queue.running.as_ref();
    let is_running = running.is_some();
    // A wait is one change, and no step.
    let is_told = running.is_none_or(|job| job.waiting.is_some());
    let colour = if is_running {
        palette(ui).amber
    } else {
        palette(ui).weak
    };
    let text = RichText::new(status_text(view)).color(colour);
    let response = ui.add(Label::new(text).truncate());
    if is_told {
        ui.ctx()
            .accesskit_node_builder(response.id, |node| node.set_live(Live::Polite));
    }
}

fn memory_button(ui: &mut Ui, view: &mut View<'_>) {
    let is_open = view.app.cx.drawn.memory != PanelPlace::Nowhere;
    let name = if is_open {
        "Hide memory"
    } else {
        "Show memory"
    };
    let text = RichText::new(format!("{} Memory", caret(is_open))).small();
    let button = ui
        .add(Button::new(text).frame_when_inactive(false))
        .on_hover_text(crate::app::shortcuts::explained(
            "What the job needs, and the memory graph",
            "memory",
        ))
        .accessible_name(name);
    if button.clicked() {
        view.push(DesktopCommand::ToggleMemory);
    }
}

/// One line that always says what happens.
fn status_text(view: &View<'_>) -> String {
    let queue = &view.app.queue;
    let cx = &view.app.cx;
    if let Some(job) = &queue.running {
        running_text(job, queue.waiting.len())
    } else if queue.is_paused {
        format!("Paused  ·  {} waiting", queue.waiting.len())
    } else if queue.next(queue.edited()).is_some() {
        "Preparing the next job…".to_owned()
    } else if cx.models.are_loading {
        "Looking for models…".to_owned()
    } else if cx.models.all().is_empty() {
        "No model to generate with".to_owned()
    } else if cx.last_word.is_empty() {
        "Ready".to_owned()
    } else {
        cx.last_word.clone()
    }
}

/// Label of a stage, in the plural for several input images.
pub(super) fn stage_text(job: &RunningJob, stage: Stage) -> &'static str {
    let request = job.request.generate();
    let are_several = request.is_some_and(|request| match stage {
        Stage::EncodeImage => {
            let frames = [&request.image, &request.last_image];
            request.references.len() + frames.into_iter().flatten().count() > 1
        }
        Stage::EncodeVision => request.prompt_pictures.len() > 1,
        _ => false,
    });
    match stage {
        Stage::EncodeImage if are_several => "Reading the pictures",
        Stage::EncodeVision if are_several => "Encoding the images (CLIP vision)",
        stage => stage.label(),
    }
}

/// Facts on the running job, for the status line.
fn running_text(job: &RunningJob, num_waiting: usize) -> String {
    if job.cancel.is_paused() {
        return "Pausing…".to_owned();
    }
    if job.cancel.is_cancelled() {
        return "Cancelling…".to_owned();
    }
    if let Some(crowded) = &job.waiting {
        return crowded.to_string();
    }
    let stage = job
        .stage
        .map_or("Starting the engine…", |stage| stage_text(job, stage));
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
        let (number, count) = (job.num_frames_decoded, job.num_frames_of_stage());
        parts.push(if job.request.batch_size() > 1 {
            format!("picture {number} of {count}")
        } else {
            format!("frame {number} of {count}")
        });
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

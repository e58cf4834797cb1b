//! The button Generate, the buttons around it, and the questions of the queue.

pub(crate) mod list;
mod row;

use crate::window::create::choices::{DropChoice, MultiFilePrompt, QueueEndAction};

use crate::window::create::panel::submit_hint_ui;
use crate::window::layout::prelude::*;
use crate::window::layout::status::stopping_text;
use crate::window::memory;
use crate::window::shortcuts::explained;

const RESUME_QUEUE_EXPLAINED: &str = "Start the waiting jobs, one after the other";

const RESUME: &str = "Resume";
/// With the margin inside.
const WIDTH: (f32, i8) = (theme::QUESTION_WIDTH, 16);

pub(crate) fn go_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    paused_ui(ui, view);
    stop_ui(ui, view);
    memory::panel::warning_ui(ui, view);
    if view.app.queue.editing.is_some() {
        edit_ui(ui, view);
        return;
    }
    let is_running = !view.app.queue.running.is_empty();
    let count = view.model().map_or(1, |spec| view.form.num_results(spec));
    let word = result_word(view.makes_images());
    let name = counted(count, "Generate", &format!("Generate {{}} {word}s"));
    let hover = match (is_running, count) {
        (true, 1) => format!("Add another {word} to the queue, after the running job"),
        (true, _) => format!("Add {count} {word}s to the queue, after the running job"),
        (false, 1) => format!("Make the {word}"),
        (false, _) => format!("Make {count} {word}s"),
    };
    submit_ui(ui, view, icons::SPARKLE, &name, &hover);
}

/// The main button; where the form is wrong it says why.
fn submit_ui(ui: &mut Ui, view: &mut UiContext<'_>, icon: char, name: &str, hover: &str) {
    let has_model = view.model().is_some();
    let mut errors = view.app.cx.field_errors.iter();
    let first_error = errors.next().map(|err| sentence(&err.message));
    let is_enabled = has_model && first_error.is_none();
    submit_hint_ui(ui, view);
    device_ui(ui, view);
    // The first page has a different main button.
    let response = if view.app.cx.page == MainPage::Welcome {
        second_button(ui, is_enabled, icon, name)
    } else {
        main_button(ui, is_enabled, icon, name)
    };
    let reason = first_error.unwrap_or_else(|| "There is no model yet".to_owned());
    let button = response
        .on_hover_text(explained(hover, "generate"))
        .on_disabled_hover_text(reason);
    view.on_click(&button, QueueCommand::Submit);
}

/// Device of the new jobs, where there are several.
fn device_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let choices = view.app.devices.choices();
    let before = view.app.cx.job_device;
    let Some((_, chosen)) = choices.iter().find(|(device, _)| *device == before) else {
        return;
    };
    let hover = "Any device that is free and has room, or one that the jobs wait for";
    ui.horizontal(|ui| {
        let label = ui.weak("Device").on_hover_text(hover);
        let (list, mut device) = (list_box(ui, "job-device", chosen), before);
        let choices = choices.iter().map(|(device, name)| (*device, name, ""));
        choose_from(list, ui, &mut device, choices)
            .labelled_by(label.id)
            .on_hover_text(hover);
        if device != before {
            view.set(move |app| app.cx.job_device = device);
        }
    });
}

fn edit_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let text = RichText::new("You are editing a job of the queue").color(palette(ui).amber);
    ui.add(Label::new(text).truncate());
    let hover = "Back to what was in the form before. The job stays as it was";
    let button = wide_button(ui, icons::X, "Cancel edit", hover);
    view.on_click(&button, QueueCommand::CancelEdit);
    let hover = "The job keeps its place in the queue and starts over with these settings";
    let name = "Save as this job";
    submit_ui(ui, view, icons::CHECK_CIRCLE, name, hover);
}

/// New jobs would only wait: why, and how they do not.
fn paused_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    if !view.app.queue.is_paused {
        return;
    }
    ui.label(RichText::new("The queue is paused").color(palette(ui).amber));
    let button = wide_button(ui, icons::PLAY, "Resume the queue", RESUME_QUEUE_EXPLAINED);
    view.on_click(&button, QueueCommand::GoOn);
}

/// Above the main button, so that a double click on that one cannot cancel what it began.
fn stop_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let Some(job) = view.app.queue.live() else {
        return;
    };
    let (is_stopping, is_paused) = (job.cancel.is_cancelled(), job.cancel.is_paused());
    let (pause, cancel) = match stopping_text(job) {
        Some(pausing) if is_paused => (pausing, "Cancel"),
        Some(cancelling) => ("Pause job", cancelling),
        None => ("Pause job", "Cancel"),
    };
    let hover = "Stop it and free the GPU: no other job starts. What is finished is kept, and it \
                 can be resumed from there";
    let command = QueueCommand::PauseAll;
    let mut buttons = vec![(icons::PAUSE, pause, !is_stopping, hover, command)];
    if !view.app.queue.waiting.is_empty() {
        let hover = "Stop it and go on with the next job. What is finished is kept, and it can be \
                     resumed from there";
        let command = QueueCommand::SetAside(None);
        buttons.push((
            icons::ARROW_RIGHT,
            "Set aside",
            !is_stopping,
            hover,
            command,
        ));
    }
    let hover = explained(
        "Stop the running job for good. Whole sections of a video are kept, unfinished images are \
        not. Waiting jobs continue",
        "cancel",
    );
    let (can_cancel, command) = (!is_stopping || is_paused, QueueCommand::Cancel(None));
    buttons.push((icons::STOP, cancel, can_cancel, &hover, command));
    ui.columns(buttons.len(), |columns| {
        for (ui, (icon, name, is_possible, hover, command)) in columns.iter_mut().zip(buttons) {
            ui.add_enabled_ui(is_possible, |ui| {
                view.on_click(&wide_button(ui, icon, name, hover), command);
            });
        }
    });
    ui.add_space(theme::SMALL_GAP / 2.0);
}

fn wide_button(ui: &mut Ui, icon: char, name: &str, hover: &str) -> Response {
    let button = Button::new(with_icon(icon, name)).truncate();
    across(ui, name, |ui| ui.add(button))
        .on_hover_text(hover)
        .accessible_name(name)
}

pub(crate) fn questions_ui(ctx: &Context, view: &mut UiContext<'_>) {
    if let Some((_, secs)) = view.app.queue.countdown {
        countdown_ui(ctx, view, secs);
    } else if let Some(several) = &view.app.queue.several {
        several_ui(ctx, view, several);
    }
}

fn several_ui(ctx: &Context, view: &mut UiContext<'_>, several: &MultiFilePrompt) {
    let count = several.paths.len();
    let mut choice = None;
    let response = modal(ctx, "several-files", WIDTH, |ui| {
        ui.heading(format!("{count} files at once"));
        let word = result_word(view.makes_images());
        let text = format!(
            "Each can become a {word} of its own, with the settings of the form and a size that fits it."
        );
        ui.weak(text);
        ui.add_space(theme::SMALL_GAP);
        let name = format!("Make {count} jobs, one for each");
        if main_button(ui, true, icons::IMAGES, &name).clicked() {
            choice = Some(DropChoice::Each);
        }
        let form = match (several.takes, count) {
            (1, _) => "Put only the first into the form".to_owned(),
            (2, 2) => "Put both into the form".to_owned(),
            (2, _) => "Put the first two into the form".to_owned(),
            (takes, _) => format!("Put the first {takes} into the form"),
        };
        for (icon, name, meant) in [
            (icons::IMAGE, form.as_str(), DropChoice::Form),
            (icons::X, "Cancel", DropChoice::None),
        ] {
            let button = Button::new(with_icon(icon, name));
            let button = across(ui, name, |ui| ui.add(button)).accessible_name(name);
            choice = button.clicked().then_some(meant).or(choice);
        }
    });
    if response.should_close() {
        choice = choice.or(Some(DropChoice::None));
    }
    if let Some(choice) = choice {
        view.set(move |app| {
            app.queue
                .take_several(choice, &app.inputs, &app.loras, &mut app.cx);
        });
    }
}

fn countdown_ui(ctx: &Context, view: &mut UiContext<'_>, secs: u32) {
    let mut is_stopped = false;
    let response = modal(ctx, "after-the-queue", WIDTH, |ui| {
        let (text, name) = match view.app.queue.after {
            QueueEndAction::Suspend => (
                format!("The computer goes to sleep in {secs} s"),
                "Stay awake",
            ),
            QueueEndAction::Quit | QueueEndAction::Nothing => {
                (format!("Safelight quits in {secs} s"), "Stay open")
            }
        };
        ui.heading(text);
        let text = match view.app.queue.stopped.len() {
            0 => "The queue is done, and every result is saved.".to_owned(),
            num_stopped => {
                let stopped = counted(num_stopped, "1 stopped job", "{} stopped jobs");
                format!("The queue is done except for {stopped}, kept for the next start.")
            }
        };
        ui.weak(text);
        ui.add_space(theme::SMALL_GAP);
        is_stopped = main_button(ui, true, icons::STOP, name).clicked();
    });
    if is_stopped || response.should_close() {
        view.set(|app| {
            (app.queue.after, app.queue.countdown) = (QueueEndAction::Nothing, None);
        });
    }
}

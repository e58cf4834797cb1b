//! What the queue asks in the middle of the window: what several files are for, and whether it may really quit.

use egui::{Button, Context, RichText, Ui};

use crate::app::commands::{AppCommand, QueueCommand};
use crate::app::queue::choices::{AfterQueue, Countdown};
use crate::app::queue::choices::{Choice, Several};
use crate::ui::dialog::modal;
use crate::ui::widgets::{across, main_button, palette, with_icon};
use crate::ui::{View, icons, theme};

/// With the margin inside.
const WIDTH: (f32, i8) = (theme::QUESTION_WIDTH, 16);

pub(in crate::ui) fn questions_ui(ctx: &Context, view: &mut View<'_>) {
    if let Some(countdown) = view.app.queue.countdown {
        countdown_ui(ctx, view, countdown);
    } else if let Some(several) = &view.app.queue.several {
        several_ui(ctx, view, several);
    }
}

fn several_ui(ctx: &Context, view: &mut View<'_>, several: &Several) {
    let count = several.paths.len();
    let mut choice = None;
    let asked = modal(ctx, "several-files", WIDTH, |ui| {
        ui.heading(format!("{count} files at once"));
        let weak = palette(ui).weak;
        let spec = view.model();
        let text = files_explained(spec.is_some_and(|spec| spec.family.makes_pictures));
        ui.label(RichText::new(text).color(weak));
        ui.add_space(theme::SMALL_GAP);
        let name = format!("Make {count} jobs, one for each");
        if main_button(ui, true, icons::IMAGES, &name).clicked() {
            choice = Some(Choice::Each);
        }
        let form = into_form_text(several.takes, count);
        if button_ui(ui, icons::IMAGE, &form) {
            choice = Some(Choice::Form);
        }
        if button_ui(ui, icons::X, "Cancel") {
            choice = Some(Choice::None);
        }
    });
    if asked.should_close() {
        choice = choice.or(Some(Choice::None));
    }
    let take = choice.map(|choice| AppCommand::Queue(QueueCommand::Take(choice)));
    view.commands.extend(take);
}

fn files_explained(makes_pictures: bool) -> &'static str {
    if makes_pictures {
        "Each can become a picture of its own, with the settings of the form and a size that fits it."
    } else {
        "Each can become a clip of its own, with the settings of the form and a size that fits it."
    }
}

/// `takes`: the form has places for so many of the files.
fn into_form_text(takes: usize, count: usize) -> String {
    match (takes, count) {
        (1, _) => "Put only the first into the form".to_owned(),
        (2, 2) => "Put both into the form".to_owned(),
        (2, _) => "Put the first two into the form".to_owned(),
        _ => format!("Put the first {takes} into the form"),
    }
}

fn countdown_ui(ctx: &Context, view: &mut View<'_>, countdown: Countdown) {
    let mut is_stopped = false;
    let asked = modal(ctx, "after-the-queue", WIDTH, |ui| {
        let secs = countdown.secs_left;
        let (text, name) = match countdown.action {
            AfterQueue::Suspend => (
                format!("The computer goes to sleep in {secs} s"),
                "Stay awake",
            ),
            AfterQueue::Quit | AfterQueue::Nothing => {
                (format!("Safelight quits in {secs} s"), "Stay open")
            }
        };
        ui.heading(text);
        let weak = palette(ui).weak;
        let text = queue_done_text(view.app.queue.stopped.len());
        ui.label(RichText::new(text).color(weak));
        ui.add_space(theme::SMALL_GAP);
        is_stopped = main_button(ui, true, icons::STOP, name).clicked();
    });
    if is_stopped || asked.should_close() {
        view.push(QueueCommand::StopCountdown);
    }
}

fn queue_done_text(num_stopped: usize) -> String {
    match num_stopped {
        0 => "The queue is done, and every result is saved.".to_owned(),
        1 => "The queue is done except for 1 stopped job, which is kept for the next start."
            .to_owned(),
        count => format!(
            "The queue is done except for {count} stopped jobs, which are kept for the next start."
        ),
    }
}

fn button_ui(ui: &mut Ui, icon: char, name: &str) -> bool {
    let button = Button::new(with_icon(icon, name));
    across(ui, name, |ui| ui.add(button))
        .accessible_name(name)
        .clicked()
}

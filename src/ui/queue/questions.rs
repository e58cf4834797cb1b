//! What the queue asks in the middle of the window: what several files are for, and whether it may really quit.

use egui::{Button, Context, RichText, Ui};

use crate::app::commands::{AppCommand, QueueCommand};
use crate::app::queue::choices::{AfterQueue, Countdown};
use crate::app::queue::choices::{Choice, Several};
use crate::ui::dialog::modal;
use crate::ui::queue::words;
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
        ui.heading(words::files_at_once(count));
        let weak = palette(ui).weak;
        let spec = view.model();
        let text = words::files_explained(spec.is_some_and(|spec| spec.family.makes_pictures));
        ui.label(RichText::new(text).color(weak));
        ui.add_space(theme::SMALL_GAP);
        let name = words::job_for_each(count);
        if main_button(ui, true, icons::IMAGES, &name).clicked() {
            choice = Some(Choice::Each);
        }
        let form = words::into_form(several.takes, count);
        if button_ui(ui, icons::IMAGE, &form) {
            choice = Some(Choice::Form);
        }
        if button_ui(ui, icons::X, words::NOTHING_WITH_FILES) {
            choice = Some(Choice::None);
        }
    });
    if asked.should_close() {
        choice = choice.or(Some(Choice::None));
    }
    let take = choice.map(|choice| AppCommand::Queue(QueueCommand::Take(choice)));
    view.commands.extend(take);
}

fn countdown_ui(ctx: &Context, view: &mut View<'_>, countdown: Countdown) {
    let mut is_stopped = false;
    let asked = modal(ctx, "after-the-queue", WIDTH, |ui| {
        let secs = countdown.secs_left;
        let (text, name) = match countdown.action {
            AfterQueue::Suspend => (words::suspends_in(secs), words::STAY_AWAKE),
            AfterQueue::Quit | AfterQueue::Nothing => (words::quits_in(secs), words::STAY_OPEN),
        };
        ui.heading(text);
        let weak = palette(ui).weak;
        let text = words::queue_done(view.app.queue.stopped.len());
        ui.label(RichText::new(text).color(weak));
        ui.add_space(theme::SMALL_GAP);
        is_stopped = main_button(ui, true, icons::STOP, name).clicked();
    });
    if is_stopped || asked.should_close() {
        view.push(QueueCommand::StopCountdown);
    }
}

fn button_ui(ui: &mut Ui, icon: char, name: &str) -> bool {
    let button = Button::new(with_icon(icon, name));
    across(ui, name, |ui| ui.add(button))
        .accessible_name(name)
        .clicked()
}

//! One job of the queue as a row: running, waiting or stopped. What they are drawn with is [`super::parts`]'s.

use egui::{CornerRadius, Rect, Response, RichText, Sense, Ui, pos2, vec2};
use safelight_core::units::duration_text;

use crate::app::commands::QueueCommand;
use crate::app::notices::sentence;
use crate::app::player::Viewing;
use crate::app::queue::{RunningJob, Stopped, StoppedJob, WaitingJob};
use crate::ui::queue::parts::{
    Line, background, buttons_ui, facts_ui, row_id, row_rect, short_facts, thumb_rect, thumb_ui,
    words_ui,
};
use crate::ui::queue::reach::{drag, keys, menu_button, menu_ui};
use crate::ui::queue::{CANCELLING, PAUSING, RESUME};
use crate::ui::status::stage_text;
use crate::ui::theme::Palette;
use crate::ui::widgets::{icon_button, palette, text_at, texture_ui};
use crate::ui::{View, icons, theme};

pub(super) fn running_ui(ui: &mut Ui, view: &View<'_>, job: &RunningJob) {
    let palette = palette(ui);
    let text = if job.cancel.is_paused() {
        PAUSING.to_owned()
    } else if job.cancel.is_cancelled() {
        CANCELLING.to_owned()
    } else if job.waiting.is_some() {
        "Waiting for memory".to_owned()
    } else {
        let left = job.secs_left;
        let left = left.map(|secs| format!("about {} left", duration_text(secs.max(1.0))));
        let stage = job
            .stage
            .map_or("Starting the engine…", |it| stage_text(job, it));
        left.unwrap_or_else(|| stage.to_owned())
    };
    let text = match view.app.queue.grid_of(&job.request) {
        Some((grid, index)) => format!("Cell {} of {}: {text}", index + 1, grid.num_cells()),
        None => text,
    };
    let (rect, _) =
        ui.allocate_exact_size(vec2(ui.available_width(), theme::QUEUE_ROW), Sense::hover());
    background(ui, rect, Some(palette.accent), palette.field);
    let thumb = thumb_rect(rect);
    if job.request.picture().is_some() {
        thumb_ui(ui, view, &job.request, thumb);
    } else {
        ui.painter()
            .rect_filled(thumb, CornerRadius::same(4), palette.stage);
        let live = view.app.watch.screen.texture();
        if let Some((texture, _)) = live.filter(|_| view.app.watch.viewing == Viewing::Live) {
            texture_ui(ui, texture, thumb, f32::INFINITY);
        }
    }
    progress_ui(ui, thumb, job.progress());
    let line = Line {
        text,
        colour: palette.amber,
    };
    let response = ui.interact(rect, row_id(job.id), Sense::hover());
    let name = format!("Running: {}", job.request.title());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Label, true, &name));
    words_ui(ui, rect, &job.request.title(), line, 0.0);
    response.on_hover_ui(|ui| facts_ui(ui, view, &job.request, &[]));
}

/// How much is done, over the picture: the rest lies in the dark.
fn progress_ui(ui: &Ui, thumb: Rect, progress: f32) {
    let palette = palette(ui);
    let done = pos2(thumb.left() + thumb.width() * progress, thumb.top());
    let rest = Rect::from_min_max(done, thumb.max);
    let radius = CornerRadius::same(4);
    for (rect, strength) in [(thumb, 0.45), (rest, 0.5)] {
        let shade = palette.stage.gamma_multiply(strength);
        ui.painter().rect_filled(rect, radius, shade);
    }
    let text = format!("{:.0} %", progress * 100.0);
    text_at(ui, thumb.center(), text, 13.0, palette.text);
}

pub(super) fn waiting_ui(ui: &mut Ui, view: &mut View<'_>, job: &WaitingJob, index: usize) {
    let line = waiting_line(view, job, palette(ui));
    let name = format!("{}. {}", index + 1, job.request.title());
    let (rect, response) = idle_ui(ui, view, job, None, (&name, line));
    drag(ui, view, &response, rect, (job.id, index));
    response.on_hover_ui(|ui| facts_ui(ui, view, &job.request, &job.missing));
}

pub(super) fn stopped_ui(ui: &mut Ui, view: &mut View<'_>, stopped: &StoppedJob) {
    let job = &stopped.job;
    let (word, line) = stopped_line(ui, stopped);
    let again = if job.resume.is_some() {
        RESUME
    } else {
        "Try again"
    };
    let name = format!("{word}. {}", job.request.title());
    let (_, response) = idle_ui(ui, view, job, Some(again), (&name, line));
    response.on_hover_ui(|ui| {
        if let Stopped::Failed(err) = &stopped.why {
            ui.label(RichText::new(sentence(&err.summary)).color(palette(ui).error));
            ui.label(&err.advice);
        }
        facts_ui(ui, view, &job.request, &job.missing);
    });
}

/// A job that does not run, which keys, a menu and buttons reach; `again` lets one that has stopped run.
fn idle_ui(
    ui: &mut Ui,
    view: &mut View<'_>,
    job: &WaitingJob,
    again: Option<&'static str>,
    (name, line): (&str, Line),
) -> (Rect, Response) {
    let (rect, response) = row_rect(ui, job.id);
    let palette = palette(ui);
    let edge = if view.app.queue.edited() == Some(job.id) {
        Some(palette.amber)
    } else {
        response.has_focus().then_some(palette.text)
    };
    let fill = if response.hovered() {
        palette.raised
    } else {
        palette.field
    };
    background(ui, rect, edge, fill);
    thumb_ui(ui, view, &job.request, thumb_rect(rect));
    let room = if again.is_some() { 84.0 } else { 56.0 };
    words_ui(ui, rect, &job.request.title(), line, room);
    buttons_ui(ui, rect, job.id.0, |ui| idle_buttons(ui, view, job, again));
    response.context_menu(|ui| menu_ui(ui, view, job.id, again));
    keys(ui, view, &response, job.id, again);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, name));
    if response.double_clicked() {
        view.push(QueueCommand::Edit(job.id));
    } else if response.clicked() {
        response.request_focus();
    }
    (rect, response)
}

fn idle_buttons(ui: &mut Ui, view: &mut View<'_>, job: &WaitingJob, again: Option<&'static str>) {
    let prompt = &job.request.title();
    let (removing, more) = match again {
        None => (
            "Remove it from the queue (Delete)",
            "Move, edit or duplicate it",
        ),
        Some(_) => (
            "Remove it from the queue (Delete). What is finished of it is kept for a week in its \
            folder",
            "Edit or duplicate it",
        ),
    };
    let name = format!("Remove from queue: {prompt}");
    if icon_button(ui, icons::X, &name, removing).clicked() {
        view.push(QueueCommand::Remove(job.id));
    }
    let name = format!("More for: {prompt}");
    menu_button(ui, &name, more, |ui| menu_ui(ui, view, job.id, again));
    let (name, explanation) = match again {
        None => return,
        Some(_) if job.resume.is_some() => {
            (format!("Resume: {prompt}"), "Continue where it stopped")
        }
        Some(_) => (
            format!("Try again: {prompt}"),
            "Start over from the beginning",
        ),
    };
    if icon_button(ui, icons::PLAY, &name, explanation).clicked() {
        view.push(QueueCommand::Restart(job.id));
    }
}

fn waiting_line(view: &View<'_>, job: &WaitingJob, palette: &Palette) -> Line {
    let is_edited = view.app.queue.edited() == Some(job.id);
    let missing = job.missing.first();
    let text = if is_edited {
        "Its settings are in the form".to_owned()
    } else if let Some(path) = missing {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        missing_text(&name, job.missing.len())
    } else if job.resume.is_some() {
        "Resumes where it stopped".to_owned()
    } else if job.is_held {
        "From last time".to_owned()
    } else {
        short_facts(view, &job.request)
    };
    let is_special = is_edited || missing.is_some();
    Line {
        text,
        colour: if is_special {
            palette.amber
        } else {
            palette.weak
        },
    }
}

fn missing_text(first: &str, count: usize) -> String {
    match count {
        1 => format!("{first} is missing"),
        count => format!("{first} and {} more are missing", count - 1),
    }
}

/// Why it stopped, in a word and in a line.
fn stopped_line(ui: &Ui, stopped: &StoppedJob) -> (&'static str, Line) {
    let palette = palette(ui);
    let (word, colour) = match &stopped.why {
        Stopped::Failed(_) => ("Failed", palette.error),
        Stopped::Paused => ("Paused", palette.amber),
        Stopped::Unfinished => ("Interrupted", palette.amber),
    };
    let text = match &stopped.why {
        Stopped::Failed(err) => format!("{word}: {}", err.summary),
        _ if stopped.progress.is_empty() => word.to_owned(),
        _ => format!("{word}, {}", stopped.progress),
    };
    (word, Line { text, colour })
}

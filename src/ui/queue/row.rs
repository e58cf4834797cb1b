//! One job of the queue as a row: running, waiting or stopped. What they are drawn with is [`super::parts`]'s.

use egui::{Align2, Color32, CornerRadius, FontId, Rect, RichText, Sense, Ui, pos2, vec2};
use safelight_core::units::duration_text;

use crate::app::commands::QueueCommand;
use crate::app::notices::sentence;
use crate::app::player::Viewing;
use crate::app::queue::picture_of;
use crate::app::queue::{RunningJob, Stopped, StoppedJob, WaitingJob};
use crate::ui::queue::parts::{
    Line, background, buttons_ui, facts_ui, row_id, row_rect, short_facts, texture_ui, thumb_rect,
    thumb_ui, words_ui,
};
use crate::ui::queue::reach::{drag, keys, menu_button, stopped_menu, waiting_menu};
use crate::ui::widgets::{icon_button, palette};
use crate::ui::{View, icons, theme};

pub(super) fn running_ui(ui: &mut Ui, view: &mut View<'_>, job: &RunningJob) {
    let palette = palette(ui);
    let text = if job.cancel.is_paused() {
        "Pausing…".to_owned()
    } else if job.cancel.is_cancelled() {
        "Cancelling…".to_owned()
    } else {
        let left = job.secs_left;
        let left = left.map(|secs| format!("about {} left", duration_text(secs.max(1.0))));
        let stage = job.stage.map_or("Starting the engine…", |it| it.label());
        left.unwrap_or_else(|| stage.to_owned())
    };
    let (rect, _) =
        ui.allocate_exact_size(vec2(ui.available_width(), theme::QUEUE_ROW), Sense::hover());
    background(ui, rect, Some(palette.accent), palette.field);
    let thumb = thumb_rect(rect);
    if picture_of(&job.request).is_some() {
        thumb_ui(ui, view, &job.request, thumb);
    } else {
        ui.painter()
            .rect_filled(thumb, CornerRadius::same(4), palette.stage);
        let live = view.app.watch.screen.texture();
        if let Some((texture, _)) = live.filter(|_| view.app.watch.viewing == Viewing::Live) {
            texture_ui(ui, texture, thumb);
        }
    }
    progress_ui(ui, thumb, job.progress());
    let line = Line {
        text,
        colour: palette.amber,
    };
    let response = ui.interact(rect, row_id(job.id), Sense::hover());
    let name = format!("Running: {}", job.request.prompt);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Label, true, &name));
    words_ui(ui, rect, &job.request.prompt, line, 0.0);
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
    ui.painter().text(
        thumb.center(),
        Align2::CENTER_CENTER,
        format!("{:.0} %", progress * 100.0),
        FontId::proportional(13.0),
        palette.text,
    );
}

pub(super) fn waiting_ui(ui: &mut Ui, view: &mut View<'_>, job: &WaitingJob, index: usize) {
    let (rect, response) = row_rect(ui, job.id);
    let palette = palette(ui);
    let is_edited = view.app.queue.edited() == Some(job.id);
    let edge = if is_edited {
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
    let line = waiting_line(view, job, is_edited, palette.weak, palette.amber);
    words_ui(ui, rect, &job.request.prompt, line, 56.0);
    buttons_ui(ui, rect, job.id, |ui| {
        let name = format!("Remove from queue: {}", job.request.prompt);
        if icon_button(
            ui,
            icons::X,
            &name,
            "Take this one out of the queue (Delete)",
        )
        .clicked()
        {
            view.push(QueueCommand::Remove(job.id));
        }
        let name = format!("More for: {}", job.request.prompt);
        let explanation = "Move it, change it, or make it twice";
        menu_button(ui, &name, explanation, |ui| {
            waiting_menu(ui, view, job.id);
        });
    });
    response.context_menu(|ui| waiting_menu(ui, view, job.id));
    keys(ui, view, &response, job.id);
    drag(ui, view, &response, rect, (job.id, index));
    let name = format!("{}. {}", index + 1, job.request.prompt);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &name));
    if response.double_clicked() {
        view.push(QueueCommand::Edit(job.id));
    } else if response.clicked() {
        response.request_focus();
    }
    response.on_hover_ui(|ui| facts_ui(ui, view, &job.request, &job.missing));
}

fn waiting_line(
    view: &View<'_>,
    job: &WaitingJob,
    is_edited: bool,
    weak: Color32,
    amber: Color32,
) -> Line {
    let missing = job.missing.first();
    let text = if is_edited {
        "Its settings are in the form".to_owned()
    } else if let Some(path) = missing {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match job.missing.len() {
            1 => format!("{name} is gone"),
            count => format!("{name} and {} more are gone", count - 1),
        }
    } else if job.resume.is_some() {
        "Goes on where it stopped".to_owned()
    } else if job.is_held {
        "From last time".to_owned()
    } else {
        short_facts(view, &job.request)
    };
    let is_special = is_edited || missing.is_some();
    Line {
        text,
        colour: if is_special { amber } else { weak },
    }
}

pub(super) fn stopped_ui(ui: &mut Ui, view: &mut View<'_>, stopped: &StoppedJob) {
    let job = &stopped.job;
    let prompt = &job.request.prompt;
    let (rect, response) = row_rect(ui, job.id);
    let palette = palette(ui);
    let is_edited = view.app.queue.edited() == Some(job.id);
    let focus = response.has_focus().then_some(palette.text);
    let edge = if is_edited {
        Some(palette.amber)
    } else {
        focus
    };
    background(ui, rect, edge, palette.field);
    thumb_ui(ui, view, &job.request, thumb_rect(rect));
    let (word, line) = stopped_line(ui, stopped);
    words_ui(ui, rect, prompt, line, 84.0);
    buttons_ui(ui, rect, job.id, |ui| stopped_buttons(ui, view, stopped));
    response.context_menu(|ui| stopped_menu(ui, view, stopped));
    keys(ui, view, &response, job.id);
    let name = format!("{word}. {prompt}");
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &name));
    if response.clicked() {
        response.request_focus();
    }
    response.on_hover_ui(|ui| {
        if let Stopped::Failed(err) = &stopped.why {
            ui.label(RichText::new(sentence(&err.summary)).color(palette.error));
            ui.label(&err.advice);
        }
        facts_ui(ui, view, &job.request, &job.missing);
    });
}

/// Why it stopped, in a word and in a line.
fn stopped_line(ui: &Ui, stopped: &StoppedJob) -> (&'static str, Line) {
    let palette = palette(ui);
    let (word, colour) = match &stopped.why {
        Stopped::Failed(_) => ("Failed", palette.error),
        Stopped::Paused => ("Paused", palette.amber),
        Stopped::Unfinished => ("Unfinished", palette.amber),
    };
    let text = match &stopped.why {
        Stopped::Failed(err) => format!("{word}: {}", err.summary),
        _ if stopped.progress.is_empty() => word.to_owned(),
        _ => format!("{word}, {}", stopped.progress),
    };
    (word, Line { text, colour })
}

fn stopped_buttons(ui: &mut Ui, view: &mut View<'_>, stopped: &StoppedJob) {
    let job = &stopped.job;
    let prompt = &job.request.prompt;
    let (again, explanation) = if job.resume.is_some() {
        ("Go on with", "Go on where it stopped")
    } else {
        ("Try again", "Make it from its beginning")
    };
    let name = format!("Remove from queue: {prompt}");
    let removing =
        "Take it from this list (Delete). What is finished of it is kept for a week in its folder";
    if icon_button(ui, icons::X, &name, removing).clicked() {
        view.push(QueueCommand::Remove(job.id));
    }
    let name = format!("More for: {prompt}");
    menu_button(ui, &name, "Change it, or make it twice", |ui| {
        stopped_menu(ui, view, stopped);
    });
    let name = format!("{again}: {prompt}");
    if icon_button(ui, icons::PLAY, &name, explanation).clicked() {
        view.push(QueueCommand::Restart(job.id));
    }
}

//! One job of the queue as a row: running, waiting or stopped.

use egui::containers::menu::MenuButton;
use safelight_core::job::JobRequest;

use crate::window::layout::prelude::*;
use crate::window::layout::status::{job_text, left_text, stopping_text};
use crate::window::queue::panel::RESUME;
use crate::window::queue::panel::list::{JobAgain, drag, keys, menu_ui};
use crate::window::queue::{RunningJob, StopReason, StoppedJob, WaitingJob};
use crate::window::viewer::ViewerMode;

/// The longer side of a row's image, sharp on a screen of double density.
const THUMB_PX: u32 = 112;

pub(super) fn running_ui(ui: &mut Ui, view: &mut UiContext<'_>, job: &RunningJob) {
    let palette = palette(ui);
    let queue = &view.app.queue;
    let are_several = queue.running.len() > 1;
    let is_live = queue.live().is_some_and(|live| live.id == job.id);
    let mut text = if let Some(text) = stopping_text(job) {
        text.to_owned()
    } else if job.waiting.is_some() {
        "Waiting for memory".to_owned()
    } else {
        job.secs_left.map_or_else(|| job_text(job), left_text)
    };
    if let Some((grid, index)) = queue.grid_of(&job.request) {
        text = format!("Cell {} of {}: {text}", index + 1, grid.num_cells());
    }
    if are_several {
        text = format!("{}: {text}", job.device_name);
    }
    let sense = if are_several {
        Sense::click()
    } else {
        Sense::hover()
    };
    let (rect, response) = row_rect(ui, row_id(job.id), sense);
    background(ui, rect, is_live.then_some(palette.accent), palette.field);
    let thumb = thumb_rect(rect);
    if job.request.image().is_some() {
        thumb_ui(ui, view, &job.request, thumb);
    } else {
        ui.painter()
            .rect_filled(thumb, CornerRadius::same(4), palette.stage);
        let live = view.app.watch.texture.handle();
        let live = live.filter(|_| view.app.watch.mode == ViewerMode::Live && is_live);
        let thumbs = &view.app.cx.thumbs;
        let is_ready = |it: &ThumbSource| thumbs.get(it.clone(), THUMB_PX).is_some();
        let own = job.thumb(is_ready).filter(|_| !is_live);
        if let Some((texture, _)) = live {
            texture_ui(ui, texture, thumb, f32::INFINITY);
        } else if let Some(Ok(texture)) = own.and_then(|own| thumbs.get(own, THUMB_PX)) {
            texture_ui(ui, texture, thumb, f32::INFINITY);
        }
    }
    progress_ui(ui, thumb, job.progress());
    let name = format!("Running: {}", job.request.title());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Label, true, &name));
    let room = if are_several { 56.0 } else { 0.0 };
    words_ui(ui, rect, &job.request.title(), (text, palette.amber), room);
    if are_several {
        buttons_ui(ui, rect, job.id.0, |ui| running_buttons(ui, view, job));
        if response.clicked() {
            view.push(PlayerCommand::Watch(job.device_name.clone()));
        }
    }
    response.on_hover_ui(|ui| facts_ui(ui, view, &job.request, &[]));
}

fn running_buttons(ui: &mut Ui, view: &mut UiContext<'_>, job: &RunningJob) {
    ui.add_enabled_ui(!job.cancel.is_cancelled(), |ui| {
        for (icon, verb, hover, command) in [
            (
                icons::STOP,
                "Cancel",
                "Stop this job for good. The others continue",
                QueueCommand::Cancel(Some(job.id)),
            ),
            (
                icons::PAUSE,
                "Set aside",
                "Stop this job. What is finished is kept, and it can be resumed from there",
                QueueCommand::SetAside(Some(job.id)),
            ),
        ] {
            let name = format!("{verb}: {}", job.request.title());
            let button = icon_button(ui, icon, &name, hover);
            view.on_click(&button, command);
        }
    });
}

/// Progress over the image: the rest is darkened.
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

pub(super) fn waiting_ui(ui: &mut Ui, view: &mut UiContext<'_>, job: &WaitingJob, index: usize) {
    let line = waiting_line(ui, view, job);
    let name = format!("{}. {}", index + 1, job.request.title());
    let (rect, response) = idle_ui(ui, view, job, None, (&name, line));
    drag(ui, view, &response, rect, (job.id, index));
    response.on_hover_ui(|ui| facts_ui(ui, view, &job.request, &job.missing));
}

pub(super) fn stopped_ui(ui: &mut Ui, view: &mut UiContext<'_>, stopped: &StoppedJob) {
    let job = &stopped.job;
    let (word, line) = stopped_line(ui, stopped);
    let can_resume = job.resume.is_some();
    let again = if can_resume { RESUME } else { "Try again" };
    let name = format!("{word}. {}", job.request.title());
    let (_, response) = idle_ui(ui, view, job, Some(again), (&name, line));
    response.on_hover_ui(|ui| {
        if let StopReason::Failed(err) = &stopped.why {
            ui.label(RichText::new(sentence(&err.summary)).color(palette(ui).error));
            ui.label(&err.advice);
        }
        facts_ui(ui, view, &job.request, &job.missing);
    });
}

/// A job that does not run, which keys, a menu and buttons reach; `again` lets one that has stopped run.
fn idle_ui(
    ui: &mut Ui,
    view: &mut UiContext<'_>,
    job: &WaitingJob,
    again: JobAgain,
    (name, line): (&str, RowLine),
) -> (Rect, Response) {
    let (rect, response) = row_rect(ui, row_id(job.id), Sense::click_and_drag());
    let edited = (view.app.queue.edited() == Some(job.id)).then_some(palette(ui).amber);
    idle_background(ui, &response, edited);
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

fn idle_buttons(ui: &mut Ui, view: &mut UiContext<'_>, job: &WaitingJob, again: JobAgain) {
    let prompt = &job.request.title();
    let remove = "Remove it from the queue (Delete)";
    let kept = ". What is finished of it is kept for a week in its folder";
    let (kept, more) = match again {
        None => ("", "Move, edit or duplicate it"),
        Some(_) => (kept, "Edit or duplicate it"),
    };
    let hover = &format!("{remove}{kept}");
    let name = format!("Remove from queue: {prompt}");
    let button = icon_button(ui, icons::X, &name, hover);
    view.on_click(&button, QueueCommand::Remove(job.id));
    let dots = Button::new(RichText::new(icons::DOTS).size(theme::ICON));
    let dots = MenuButton::from_button(dots.frame_when_inactive(false));
    let (menu, _) = dots.ui(ui, |ui| menu_ui(ui, view, job.id, again));
    menu.on_hover_text(more)
        .accessible_name(format!("More for: {prompt}"));
    if let Some(again) = again {
        let hover = match job.resume {
            Some(_) => "Continue where it stopped",
            None => "Start over from the beginning",
        };
        let button = icon_button(ui, icons::PLAY, &format!("{again}: {prompt}"), hover);
        view.on_click(&button, QueueCommand::Restart(job.id));
    }
}

fn waiting_line(ui: &Ui, view: &UiContext<'_>, job: &WaitingJob) -> RowLine {
    let is_edited = view.app.queue.edited() == Some(job.id);
    let missing = job.missing.first();
    let text = if is_edited {
        "Its settings are in the form".to_owned()
    } else if let Some(path) = missing {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match job.missing.len() - 1 {
            0 => format!("{name} is missing"),
            more => format!("{name} and {more} more are missing"),
        }
    } else if job.resume.is_some() {
        "Resumes where it stopped".to_owned()
    } else if job.is_held {
        "From last time".to_owned()
    } else {
        short_facts(view, &job.request)
    };
    // The device that it waits for, where there are several.
    let mut pins = view.app.devices.choices().into_iter().skip(1);
    let text = match pins.find(|(device, _)| *device == job.device) {
        Some((_, name)) => format!("On {name} · {text}"),
        None => text,
    };
    (text, alert_ink(ui, is_edited || missing.is_some()))
}

fn stopped_line(ui: &Ui, stopped: &StoppedJob) -> (&'static str, RowLine) {
    let palette = palette(ui);
    let word = match &stopped.why {
        StopReason::Failed(err) => {
            let text = format!("Failed: {}", err.summary);
            return ("Failed", (text, palette.error));
        }
        StopReason::Paused => "Paused",
        StopReason::Unfinished => "Interrupted",
    };
    let text = match stopped.progress.as_str() {
        "" => word.to_owned(),
        progress => format!("{word}, {progress}"),
    };
    (word, (text, palette.amber))
}

/// The small line of a row.
type RowLine = (String, Color32);

pub(super) fn row_id(id: JobId) -> egui::Id {
    egui::Id::unique(("queued-job", id.0))
}

/// Place of a row. Its id goes by its job or grid, so that the focus moves with it.
pub(super) fn row_rect(ui: &mut Ui, id: egui::Id, sense: Sense) -> (Rect, Response) {
    let size = vec2(ui.available_width(), theme::QUEUE_ROW);
    let rect = ui.allocate_space(size).1;
    (rect, ui.interact(rect, id, sense))
}

pub(super) fn thumb_rect(row: Rect) -> Rect {
    let margin = (theme::QUEUE_ROW - theme::QUEUE_THUMB.y) / 2.0;
    Rect::from_min_size(row.min + vec2(margin, margin), theme::QUEUE_THUMB)
}

pub(super) fn background(ui: &Ui, rect: Rect, edge: Option<Color32>, fill: Color32) {
    let radius = CornerRadius::same(theme::RADIUS);
    ui.painter().rect_filled(rect, radius, fill);
    if let Some(colour) = edge {
        let stroke = Stroke::new(1.0, colour);
        ui.painter()
            .rect_stroke(rect, radius, stroke, StrokeKind::Inside);
    }
}

/// Of a row that does not run; `edge` instead of that of the focus.
pub(super) fn idle_background(ui: &Ui, response: &Response, edge: Option<Color32>) {
    let palette = palette(ui);
    let focused = response.has_focus().then_some(palette.text);
    let fill = if response.hovered() {
        palette.raised
    } else {
        palette.field
    };
    background(ui, response.rect, edge.or(focused), fill);
}

pub(super) fn thumb_ui(ui: &Ui, view: &UiContext<'_>, request: &JobRequest, rect: Rect) {
    let shown = request.image().map(|path| ThumbSource::Input(path.clone()));
    let shown = shown.and_then(|shown| view.app.cx.thumbs.get(shown, THUMB_PX));
    if let Some(Ok(texture)) = shown {
        texture_ui(ui, texture, rect, f32::INFINITY);
        return;
    }
    let is_video = request.num_frames() > 1;
    sign_ui(ui, rect, if is_video { icons::FILM } else { icons::IMAGE });
}

pub(super) fn sign_ui(ui: &Ui, rect: Rect, icon: char) {
    let palette = palette(ui);
    ui.painter()
        .rect_filled(rect, CornerRadius::same(4), palette.stage);
    text_at(ui, rect.center(), icon, theme::QUEUE_SIGN, palette.weak);
}

/// The prompt, and a line below it; `room` is kept free at the right.
pub(super) fn words_ui(ui: &mut Ui, row: Rect, prompt: &str, line: RowLine, room: f32) {
    let left = thumb_rect(row).right() + 8.0;
    let rect = Rect::from_min_max(
        pos2(left, row.top() + 9.0),
        pos2(row.right() - room - 4.0, row.bottom()),
    );
    let builder = UiBuilder::new()
        .max_rect(rect)
        .layout(Layout::top_down(Align::LEFT));
    let mut ui = ui.new_child(builder);
    ui.spacing_mut().item_spacing.y = 2.0;
    let first_line = prompt.lines().next().unwrap_or_default();
    ui.add(Label::new(RichText::new(first_line).strong()).truncate());
    let (text, colour) = line;
    ui.add(Label::new(RichText::new(text).small().color(colour)).truncate());
}

/// At the right of the row. Their ids go by the number of the job or grid, so that an open menu stays with it.
pub(super) fn buttons_ui(ui: &mut Ui, row: Rect, number: u64, contents: impl FnOnce(&mut Ui)) {
    let builder = UiBuilder::new()
        .max_rect(row.shrink2(vec2(4.0, 8.0)))
        .id_salt(number)
        .layout(Layout::right_to_left(Align::Center));
    let mut ui = ui.new_child(builder);
    ui.spacing_mut().button_padding.x = theme::ICON_PADDING;
    ui.spacing_mut().item_spacing.x = 2.0;
    contents(&mut ui);
}

/// `Little World · 256×256 · 2.1 s`.
pub(super) fn short_facts(view: &UiContext<'_>, request: &JobRequest) -> String {
    let length = match request.num_frames() {
        0 | 1 if request.batch_size() == 0 => "image".to_owned(),
        0 | 1 => counted(request.batch_size() as usize, "image", "{} images"),
        frames => seconds_text(f64::from(frames) / request.fps().max(f64::EPSILON)),
    };
    let (id, (width, height)) = (request.model(), request.size());
    let model = view.app.cx.models.get(&id);
    let model = model.map_or(&*id, |spec| &spec.name);
    format!("{model} · {width}×{height} · {length}")
}

pub(super) fn facts_ui(
    ui: &mut Ui,
    view: &UiContext<'_>,
    request: &JobRequest,
    missing: &[std::path::PathBuf],
) {
    ui.set_max_width(theme::CARD_WIDTH);
    ui.label(request.title());
    let short = short_facts(view, request);
    ui.label(match request.generate() {
        Some(request) => {
            let num_steps = request.sampling.num_steps as usize;
            let steps = counted(num_steps, "1 step", "{} steps");
            format!("{short} · seed {} · {steps}", request.seed)
        }
        None => short,
    });
    for path in missing {
        let text = format!("This file is missing: {}", path.display());
        ui.label(RichText::new(text).color(palette(ui).amber));
    }
}

//! One job of the queue: its picture, what it will be, and what can be done with it by button, menu, key and drag.

use egui::{
    Align, Align2, Button, Color32, CornerRadius, FontId, Key, Label, Layout, Modifiers, Rect,
    Response, RichText, Sense, Stroke, StrokeKind, Ui, UiBuilder, pos2, vec2,
};
use safelight_core::job::{GenerateRequest, JobId};

use crate::app::commands::AppCommand;
use crate::app::queue::commands::QueueCommand;
use crate::app::queue::list::{Place, picture_of};
use crate::app::queue::{RunningJob, Stopped, StoppedJob, WaitingJob};
use crate::app::state::Viewing;
use crate::ui::widgets::{duration_text, icon_button, palette, seconds_text, sentence, with_icon};
use crate::ui::{View, icons, theme};

/// A job that is dragged to another place.
struct Dragged(JobId);

/// What stands in a row's second line.
struct Line {
    text: String,
    colour: Color32,
}

pub(super) fn running_ui(ui: &mut Ui, view: &mut View<'_>, job: &RunningJob) {
    let palette = palette(ui);
    let percent = job.progress() * 100.0;
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
    let live = view.session.screen.texture();
    let live = live.filter(|_| view.session.viewing == Viewing::Live);
    if picture_of(&job.request).is_some() || live.is_none() {
        thumb_ui(ui, view, &job.request, thumb);
    } else if let Some((texture, _)) = live {
        texture_ui(ui, texture, thumb);
    }
    let veil = Rect::from_min_max(
        pos2(thumb.left() + thumb.width() * job.progress(), thumb.top()),
        thumb.max,
    );
    let shade = palette.stage.gamma_multiply(0.65);
    ui.painter().rect_filled(veil, CornerRadius::same(4), shade);
    ui.painter().text(
        thumb.center(),
        Align2::CENTER_CENTER,
        format!("{percent:.0} %"),
        FontId::proportional(13.0),
        palette.text,
    );
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

pub(super) fn waiting_ui(ui: &mut Ui, view: &mut View<'_>, job: &WaitingJob, index: usize) {
    let (rect, response) = row_rect(ui, job.id);
    let palette = palette(ui);
    let is_edited = view.session.queue.edited() == Some(job.id);
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
            view.commands
                .push(AppCommand::Queue(QueueCommand::Remove(job.id)));
        }
        let name = format!("More for: {}", job.request.prompt);
        let menu = ui.menu_button(RichText::new(icons::DOTS).size(17.0), |ui| {
            waiting_menu(ui, view, job.id);
        });
        menu.response
            .on_hover_text("Move it, change it, or make it twice")
            .accessible_name(name);
    });
    response.context_menu(|ui| waiting_menu(ui, view, job.id));
    keys(ui, view, &response, job.id);
    drag(ui, view, &response, rect, (job.id, index));
    let name = format!("{}. {}", index + 1, job.request.prompt);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &name));
    if response.double_clicked() {
        view.push(AppCommand::Queue(QueueCommand::Edit(job.id)));
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
    let is_edited = view.session.queue.edited() == Some(job.id);
    let edge = if is_edited {
        Some(palette.amber)
    } else {
        response.has_focus().then_some(palette.text)
    };
    background(ui, rect, edge, palette.field);
    thumb_ui(ui, view, &job.request, thumb_rect(rect));
    let (word, colour) = match &stopped.why {
        Stopped::Failed(_) => ("Failed", palette.error),
        Stopped::Paused => ("Paused", palette.amber),
        Stopped::Unfinished => ("Unfinished", palette.amber),
    };
    let mut text = word.to_owned();
    match &stopped.why {
        Stopped::Failed(err) => text = format!("{word}: {}", err.summary),
        _ if !stopped.progress.is_empty() => text = format!("{word}, {}", stopped.progress),
        _ => {}
    }
    words_ui(ui, rect, prompt, Line { text, colour }, 84.0);
    let (again, explanation) = if job.resume.is_some() {
        ("Go on with", "Go on where it stopped")
    } else {
        ("Try again", "Make it from its beginning")
    };
    buttons_ui(ui, rect, job.id, |ui| {
        let name = format!("Remove from queue: {prompt}");
        let explanation_x = "Take it from this list (Delete). What is finished of it is kept for a week in its folder";
        if icon_button(ui, icons::X, &name, explanation_x).clicked() {
            view.commands
                .push(AppCommand::Queue(QueueCommand::Remove(job.id)));
        }
        let name = format!("More for: {prompt}");
        let menu = ui.menu_button(RichText::new(icons::DOTS).size(17.0), |ui| {
            stopped_menu(ui, view, stopped);
        });
        menu.response
            .on_hover_text("Change it, or make it twice")
            .accessible_name(name);
        let name = format!("{again}: {prompt}");
        if icon_button(ui, icons::PLAY, &name, explanation).clicked() {
            view.commands
                .push(AppCommand::Queue(QueueCommand::Restart(job.id)));
        }
    });
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

fn waiting_menu(ui: &mut Ui, view: &mut View<'_>, id: JobId) {
    let items = [
        (
            icons::ARROW_TO_TOP,
            "Move to the top",
            "Alt+Home",
            QueueCommand::Move(id, Place::Top),
        ),
        (
            icons::ARROW_UP,
            "Move up",
            "Alt+Up",
            QueueCommand::Move(id, Place::Up),
        ),
        (
            icons::ARROW_DOWN,
            "Move down",
            "Alt+Down",
            QueueCommand::Move(id, Place::Down),
        ),
        (icons::PENCIL, "Edit", "Enter", QueueCommand::Edit(id)),
        (
            icons::COPY,
            "Duplicate",
            "Ctrl+D",
            QueueCommand::Duplicate(id),
        ),
        (icons::TRASH, "Remove", "Delete", QueueCommand::Remove(id)),
    ];
    menu_ui(ui, view, items);
}

fn stopped_menu(ui: &mut Ui, view: &mut View<'_>, stopped: &StoppedJob) {
    let id = stopped.job.id;
    let again = if stopped.job.resume.is_some() {
        "Go on"
    } else {
        "Try again"
    };
    let items = [
        (icons::PLAY, again, "", QueueCommand::Restart(id)),
        (icons::PENCIL, "Edit", "Enter", QueueCommand::Edit(id)),
        (
            icons::COPY,
            "Duplicate",
            "Ctrl+D",
            QueueCommand::Duplicate(id),
        ),
        (icons::TRASH, "Remove", "Delete", QueueCommand::Remove(id)),
    ];
    menu_ui(ui, view, items);
}

fn menu_ui<const N: usize>(
    ui: &mut Ui,
    view: &mut View<'_>,
    items: [(char, &str, &str, QueueCommand); N],
) {
    for (icon, name, keys, command) in items {
        let button = Button::new(with_icon(icon, name)).shortcut_text(keys);
        if ui.add(button).accessible_name(name).clicked() {
            view.push(AppCommand::Queue(command));
            ui.close();
        }
    }
}

/// What the keys do to the job that has the focus.
fn keys(ui: &Ui, view: &mut View<'_>, response: &Response, id: JobId) {
    if !response.has_focus() {
        return;
    }
    let keys = [
        (
            Modifiers::ALT,
            Key::ArrowUp,
            QueueCommand::Move(id, Place::Up),
        ),
        (
            Modifiers::ALT,
            Key::ArrowDown,
            QueueCommand::Move(id, Place::Down),
        ),
        (
            Modifiers::ALT,
            Key::Home,
            QueueCommand::Move(id, Place::Top),
        ),
        (Modifiers::NONE, Key::Enter, QueueCommand::Edit(id)),
        (Modifiers::COMMAND, Key::D, QueueCommand::Duplicate(id)),
        (Modifiers::NONE, Key::Delete, QueueCommand::Remove(id)),
    ];
    for (modifiers, key, command) in keys {
        if ui.input_mut(|input| input.consume_key(modifiers, key)) {
            view.push(AppCommand::Queue(command));
        }
    }
}

/// A job is dragged between two others; a line shows where it would go.
fn drag(
    ui: &Ui,
    view: &mut View<'_>,
    response: &Response,
    rect: Rect,
    (id, index): (JobId, usize),
) {
    response.dnd_set_drag_payload(Dragged(id));
    let pointer = ui.input(|input| input.pointer.latest_pos());
    let Some(pos) = pointer.filter(|_| response.dnd_hover_payload::<Dragged>().is_some()) else {
        return;
    };
    let is_below = pos.y > rect.center().y;
    let y = if is_below {
        rect.bottom() + theme::QUEUE_GAP / 2.0
    } else {
        rect.top() - theme::QUEUE_GAP / 2.0
    };
    let stroke = Stroke::new(2.0, palette(ui).accent);
    ui.painter().hline(rect.x_range(), y, stroke);
    if let Some(dragged) = response.dnd_release_payload::<Dragged>() {
        let place = Place::Before(index + usize::from(is_below));
        view.push(AppCommand::Queue(QueueCommand::Move(dragged.0, place)));
    }
}

fn row_id(id: JobId) -> egui::Id {
    egui::Id::unique(("queued job", id.0))
}

/// The row's id goes by its job, so that the focus moves with it.
fn row_rect(ui: &mut Ui, id: JobId) -> (Rect, Response) {
    let size = vec2(ui.available_width(), theme::QUEUE_ROW);
    let (_, rect) = ui.allocate_space(size);
    (rect, ui.interact(rect, row_id(id), Sense::click_and_drag()))
}

fn thumb_rect(row: Rect) -> Rect {
    let margin = (theme::QUEUE_ROW - theme::QUEUE_THUMB.y) / 2.0;
    Rect::from_min_size(row.min + vec2(margin, margin), theme::QUEUE_THUMB)
}

fn background(ui: &Ui, rect: Rect, edge: Option<Color32>, fill: Color32) {
    let radius = CornerRadius::same(theme::RADIUS);
    ui.painter().rect_filled(rect, radius, fill);
    if let Some(colour) = edge {
        let stroke = Stroke::new(1.0, colour);
        ui.painter()
            .rect_stroke(rect, radius, stroke, StrokeKind::Inside);
    }
}

/// The start picture, else the sign of what the model makes.
fn thumb_ui(ui: &Ui, view: &mut View<'_>, request: &GenerateRequest, rect: Rect) {
    let palette = palette(ui);
    let path = picture_of(request);
    if let Some(path) = path.filter(|path| view.session.queue.thumbs.is_unknown(path)) {
        let want = QueueCommand::WantThumb(path.clone());
        view.commands.push(AppCommand::Queue(want));
    }
    if let Some(texture) = path.and_then(|path| view.session.queue.thumbs.get(path)) {
        texture_ui(ui, texture, rect);
        return;
    }
    ui.painter()
        .rect_filled(rect, CornerRadius::same(4), palette.stage);
    let icon = if request.num_frames > 1 {
        icons::FILM
    } else {
        icons::IMAGE
    };
    ui.painter().text(
        rect.center(),
        Align2::CENTER_CENTER,
        icon,
        FontId::proportional(theme::QUEUE_SIGN),
        palette.weak,
    );
}

/// In the middle of its place, with its shape kept.
fn texture_ui(ui: &Ui, texture: &egui::TextureHandle, rect: Rect) {
    let size = texture.size_vec2();
    let scale = (rect.width() / size.x.max(1.0)).min(rect.height() / size.y.max(1.0));
    let shown = Rect::from_center_size(rect.center(), size * scale);
    let uv = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
    ui.painter().image(texture.id(), shown, uv, Color32::WHITE);
}

/// The prompt, and a line below it; `room` is kept free at the right.
fn words_ui(ui: &mut Ui, row: Rect, prompt: &str, line: Line, room: f32) {
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
    let text = RichText::new(line.text).small().color(line.colour);
    ui.add(Label::new(text).truncate());
}

/// At the right of the row. Their ids go by the job, so that an open menu stays with it.
fn buttons_ui(ui: &mut Ui, row: Rect, id: JobId, contents: impl FnOnce(&mut Ui)) {
    let builder = UiBuilder::new()
        .max_rect(row.shrink2(vec2(4.0, 8.0)))
        .id_salt(id.0)
        .layout(Layout::right_to_left(Align::Center));
    let mut ui = ui.new_child(builder);
    ui.spacing_mut().button_padding.x = theme::ICON_PADDING;
    ui.spacing_mut().item_spacing.x = 2.0;
    contents(&mut ui);
}

/// `Little World  ·  256 × 256  ·  2.1 s`.
fn short_facts(view: &View<'_>, request: &GenerateRequest) -> String {
    let length = match (request.num_frames, request.batch_size) {
        (0 | 1, 0 | 1) => "picture".to_owned(),
        (0 | 1, count) => format!("{count} pictures"),
        (frames, _) => seconds_text(f64::from(frames) / request.fps.max(f64::EPSILON)),
    };
    let (width, height) = (request.width, request.height);
    format!(
        "{}  ·  {width} × {height}  ·  {length}",
        model_name(view, request)
    )
}

fn model_name<'a>(view: &'a View<'_>, request: &'a GenerateRequest) -> &'a str {
    let mut specs = view.session.models.all().iter();
    let spec = specs.find(|spec| spec.id == request.model);
    spec.map_or(&request.model, |spec| &spec.name)
}

fn facts_ui(
    ui: &mut Ui,
    view: &View<'_>,
    request: &GenerateRequest,
    missing: &[std::path::PathBuf],
) {
    ui.set_max_width(theme::CARD_WIDTH);
    ui.label(&request.prompt);
    ui.label(format!(
        "{}  ·  seed {}  ·  {} steps",
        short_facts(view, request),
        request.seed,
        request.num_steps
    ));
    for path in missing {
        let amber = palette(ui).amber;
        let text = format!("This file is gone: {}", path.display());
        ui.label(RichText::new(text).color(amber));
    }
}

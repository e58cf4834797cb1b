//! What can be done with a job of the queue: by its menu, by keys, and by dragging it.

use egui::containers::menu::MenuButton;
use egui::style::ScrollAnimation;
use egui::{Button, Key, Modifiers, Rect, Response, RichText, Stroke, Ui, vec2};
use safelight_core::job::JobId;

use crate::app::commands::QueueCommand;
use crate::app::queue::StoppedJob;
use crate::app::queue::choices::Place;
use crate::ui::widgets::{palette, with_icon};
use crate::ui::{View, icons, theme};

/// A job that is dragged to another place.
struct Dragged(JobId);

pub(super) fn menu_button(
    ui: &mut Ui,
    name: &str,
    explanation: &str,
    contents: impl FnOnce(&mut Ui),
) {
    let button = Button::new(RichText::new(icons::DOTS).size(17.0)).frame_when_inactive(false);
    let (response, _) = MenuButton::from_button(button).ui(ui, contents);
    response.on_hover_text(explanation).accessible_name(name);
}

pub(super) fn waiting_menu(ui: &mut Ui, view: &mut View<'_>, id: JobId) {
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

pub(super) fn stopped_menu(ui: &mut Ui, view: &mut View<'_>, stopped: &StoppedJob) {
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
            view.push(command);
            ui.close();
        }
    }
}

/// What the keys do to the job that has the focus.
pub(super) fn keys(ui: &Ui, view: &mut View<'_>, response: &Response, id: JobId) {
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
            if let QueueCommand::Move(_, place) = command {
                follow(ui, view, response.rect, id, place);
            }
            view.push(command);
        }
    }
}

/// Scrolls to where the job will stand: out of sight it would lose the focus, and the keys with it.
fn follow(ui: &Ui, view: &View<'_>, rect: Rect, id: JobId, place: Place) {
    let Some(index) = view.app.queue.waiting.iter().position(|job| job.id == id) else {
        return;
    };
    let rows = match place {
        Place::Up => -1.0,
        Place::Down => 1.0,
        Place::Top | Place::Before(_) => -(index as f32),
    };
    let way = vec2(0.0, rows * (theme::QUEUE_ROW + theme::QUEUE_GAP));
    ui.scroll_to_rect_animation(rect.translate(way), None, ScrollAnimation::none());
}

/// A job is dragged between two others; a line shows where it would go.
pub(super) fn drag(
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
        view.push(QueueCommand::Move(dragged.0, place));
    }
}

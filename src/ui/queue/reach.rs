//! What can be done with a job of the queue: by its menu, by keys, and by dragging it.

use egui::containers::menu::MenuButton;
use egui::style::ScrollAnimation;
use egui::{Button, Key, KeyboardShortcut, Rect, Response, RichText, Stroke, Ui, vec2};
use safelight_core::job::JobId;

use crate::app::commands::QueueCommand;
use crate::app::queue::choices::Place;
use crate::app::shortcuts::{alt, ctrl, key, keys_text};
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

/// Something that can be done with a job.
struct Deed {
    icon: char,
    name: &'static str,
    keys: Option<KeyboardShortcut>,
    command: QueueCommand,
}

/// All that can be done with a job; `again` is what letting a stopped one run is called.
fn deeds(id: JobId, again: Option<&'static str>) -> Vec<Deed> {
    let deed = |icon, name, keys, command| Deed {
        icon,
        name,
        keys,
        command,
    };
    let (edit, copy) = (QueueCommand::Edit(id), QueueCommand::Duplicate(id));
    let (up, down) = (Key::ArrowUp, Key::ArrowDown);
    let to = |place| QueueCommand::Move(id, place);
    let mut deeds = match again {
        Some(again) => vec![deed(icons::PLAY, again, None, QueueCommand::Restart(id))],
        None => vec![
            deed(
                icons::ARROW_TO_TOP,
                "Move to the top",
                Some(alt(Key::Home)),
                to(Place::Top),
            ),
            deed(icons::ARROW_UP, "Move up", Some(alt(up)), to(Place::Up)),
            deed(
                icons::ARROW_DOWN,
                "Move down",
                Some(alt(down)),
                to(Place::Down),
            ),
        ],
    };
    let delete = Some(key(Key::Delete));
    deeds.extend([
        deed(icons::PENCIL, "Edit", Some(key(Key::Enter)), edit),
        deed(icons::COPY, "Duplicate", Some(ctrl(Key::D)), copy),
        deed(icons::TRASH, "Remove", delete, QueueCommand::Remove(id)),
    ]);
    deeds
}

pub(super) fn menu_ui(ui: &mut Ui, view: &mut View<'_>, id: JobId, again: Option<&'static str>) {
    for deed in deeds(id, again) {
        let keys = deed.keys.map(keys_text).unwrap_or_default();
        let button = Button::new(with_icon(deed.icon, deed.name)).shortcut_text(keys);
        if ui.add(button).accessible_name(deed.name).clicked() {
            view.push(deed.command);
            ui.close();
        }
    }
}

/// What the keys do to the job that has the focus.
pub(super) fn keys(
    ui: &Ui,
    view: &mut View<'_>,
    response: &Response,
    id: JobId,
    again: Option<&'static str>,
) {
    if !response.has_focus() {
        return;
    }
    for Deed { keys, command, .. } in deeds(id, again) {
        if keys.is_some_and(|keys| ui.input_mut(|input| input.consume_shortcut(&keys))) {
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

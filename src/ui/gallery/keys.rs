//! The gallery's keys: arrows choose, Enter plays, Delete throws away, F makes a favourite.
//!
//! Whoever types into a field keeps all of them.

use egui::{Event, Key, Modifiers, Popup, Ui};

use crate::app::commands::{AppCommand, GalleryCommand, PlayerCommand};
use crate::ui::View;
use crate::ui::gallery::actions::{favour_command, trash_command};

/// The id of the search field, below its parent's.
pub(super) const SEARCH_FIELD: &str = "gallery-search";

pub(super) fn take_keys(ui: &Ui, view: &mut View<'_>) {
    if view.app.palette.is_covered(ui.ctx()) {
        return;
    }
    let pressed = |modifiers, key| ui.input_mut(|input| input.consume_key(modifiers, key));
    if pressed(Modifiers::COMMAND, Key::F) {
        view.panels.gallery.is_search_wanted = true;
    }
    let focused = ui.memory(|memory| memory.focused());
    let is_elsewhere = focused.is_some() && !view.panels.gallery.is_cell_focused;
    // The key that leaves a field is still the field's.
    let was_elsewhere = std::mem::replace(&mut view.panels.gallery.is_typing, is_elsewhere);
    if is_elsewhere || was_elsewhere || Popup::is_any_open(ui.ctx()) {
        return;
    }
    choose(ui, view);
    let page = &view.app.gallery;
    if page.selection.is_empty() {
        return;
    }
    if pressed(Modifiers::NONE, Key::Enter)
        && let Some(current) = page.current()
    {
        let play = AppCommand::Player(PlayerCommand::PlayFile(current.path.clone()));
        view.push(play);
    }
    // A key that is held throws one batch away, not one after the other.
    let is_fresh = is_pressed_anew(ui, Key::Delete);
    if pressed(Modifiers::NONE, Key::Delete) && is_fresh {
        let trash = trash_command(view);
        view.commands.extend(trash);
    }
    if pressed(Modifiers::NONE, Key::F) {
        let favour = favour_command(view);
        view.commands.extend(favour);
    }
}

/// Whether the key went down just now, and is not repeated by being held.
fn is_pressed_anew(ui: &Ui, wanted: Key) -> bool {
    let is_it = |event: &Event| matches!(event, Event::Key { key, pressed: true, repeat: false, .. } if *key == wanted);
    ui.input(|input| input.events.iter().any(is_it))
}

fn choose(ui: &Ui, view: &mut View<'_>) {
    let pressed = |modifiers, key| ui.input_mut(|input| input.consume_key(modifiers, key));
    let Some(listing) = &view.app.gallery.listing else {
        return;
    };
    let columns = view.panels.gallery.num_columns.max(1).cast_signed();
    let far = listing.items.len().cast_signed();
    for (key, by) in [
        (Key::ArrowLeft, -1),
        (Key::ArrowRight, 1),
        (Key::ArrowUp, -columns),
        (Key::ArrowDown, columns),
        (Key::PageUp, -columns * 4),
        (Key::PageDown, columns * 4),
        (Key::Home, -far),
        (Key::End, far),
    ] {
        // The one with the shift key first: the other is pressed with it too.
        let extends = pressed(Modifiers::SHIFT, key);
        if extends || pressed(Modifiers::NONE, key) {
            view.push(GalleryCommand::Step(by, extends));
            // The keyboard goes with the choice.
            if let Some(id) = ui.memory(|memory| memory.focused()) {
                ui.memory_mut(|memory| memory.surrender_focus(id));
            }
        }
    }
    // Escape is the window's: it unchooses first.
    if pressed(Modifiers::COMMAND, Key::A) {
        view.push(GalleryCommand::ChooseAll);
    }
}

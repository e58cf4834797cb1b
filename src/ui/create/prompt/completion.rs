//! Names of wildcards, offered below the prompt while one is being written.
//!
//! What is offered is decided by [`crate::app::prompt::typing`].

use egui::{Align, Key, Layout, Modifiers, Popup, PopupCloseBehavior, Response, Ui};

use crate::ui::View;
use crate::ui::create::prompt::wildcards::lines_text;

/// Up and down choose, Tab and Enter take, Escape declines.
pub(super) fn take_keys(ui: &Ui, view: &mut View<'_>) {
    let pressed = |key| ui.input_mut(|input| input.consume_key(Modifiers::NONE, key));
    let typing = &mut *view.typing;
    let Some(offer) = &mut typing.offer else {
        // Who wants a name completed that nobody knows does not want to leave the field.
        if typing.is_naming {
            pressed(Key::Tab);
        }
        return;
    };
    let last = offer.names.len().saturating_sub(1);
    if pressed(Key::ArrowDown) {
        offer.chosen = if offer.chosen < last {
            offer.chosen + 1
        } else {
            0
        };
    }
    if pressed(Key::ArrowUp) {
        offer.chosen = offer.chosen.checked_sub(1).unwrap_or(last);
    }
    let chosen = offer.chosen;
    if pressed(Key::Tab) || pressed(Key::Enter) {
        let typing = &mut *view.typing;
        typing.accept(&mut view.form.prompt, chosen);
    } else if pressed(Key::Escape) {
        view.typing.decline();
    }
}

/// `cursor`: letters before it, while the field has the focus.
pub(super) fn completion_ui(ui: &Ui, view: &mut View<'_>, field: &Response, cursor: Option<usize>) {
    let typing = &mut *view.typing;
    if cursor.is_none() && !typing.is_pointer_over {
        typing.leave();
    }
    if let Some(cursor) = cursor {
        let has_moved = typing.cursor != Some(cursor) && typing.wanted_cursor.is_none();
        let is_stale = std::mem::take(&mut typing.is_stale);
        if has_moved || is_stale || field.changed() {
            typing.cursor = Some(cursor);
            let names = view.app.prompt.wildcards.iter();
            let names = names.flat_map(|all| all.iter().map(|found| found.name.as_str()));
            typing.look(&view.form.prompt, names);
        }
    }
    typing.is_pointer_over &= typing.offer.is_some();
    let Some(offer) = &typing.offer else {
        return;
    };
    let files = view.app.prompt.wildcards.as_ref();
    let mut accepted = None;
    let shown = Popup::from_response(field)
        .id(egui::Id::unique("wildcard-completion"))
        .open(true)
        .close_behavior(PopupCloseBehavior::IgnoreClicks)
        .width(field.rect.width())
        .layout(Layout::top_down_justified(Align::Min))
        .accessible_name("Matching wildcards")
        .show(|ui| {
            for (index, name) in offer.names.iter().enumerate() {
                let file = files.and_then(|all| all.iter().find(|file| file.name == *name));
                let entry = ui
                    .selectable_label(index == offer.chosen, format!("__{name}__"))
                    .on_hover_text(file.map_or_else(String::new, lines_text))
                    .accessible_name(format!("Complete {name}"));
                if entry.clicked() {
                    accepted = Some(index);
                }
            }
        });
    let typing = &mut *view.typing;
    typing.is_pointer_over = shown.is_some_and(|shown| shown.response.contains_pointer());
    if let Some(index) = accepted {
        typing.accept(&mut view.form.prompt, index);
        ui.ctx().request_repaint();
    }
}

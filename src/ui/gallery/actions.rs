//! What can be done with the chosen results: beside the details as buttons, and as a menu under the right mouse button.
//!
//! What can be done with one is [`crate::ui::results`]'s, the same as in the viewer and the strip.

use egui::Ui;
use safelight_core::gallery::Entry;

use crate::app::commands::{AppCommand, PlayerCommand};
use crate::ui::results::{
    self, Action, Subject, delete_action, favourite_action, file_actions, main_actions, wish_of,
};
use crate::ui::widgets::{icon_button, icon_toggle};
use crate::ui::{View, icons};

/// What is done with what the chosen ones show; `entry` is the one with details.
fn main_of(view: &View<'_>, entry: &Entry) -> Vec<Action> {
    let chosen = view.app.gallery.chosen();
    match &chosen[..] {
        [] | [_] => main_actions(view, &Subject::of_entry(entry)),
        [one, other] => {
            let (a, b) = (one.path.clone(), other.path.clone());
            let (name, explanation) = ("Compare", "Show both beside each other");
            let compare = PlayerCommand::CompareFiles(a, b);
            vec![Action::new(icons::COLUMNS, name, explanation, compare)]
        }
        _ => Vec::new(),
    }
}

/// What is done with their files. Favourites come first.
fn files_of(view: &View<'_>, entry: &Entry) -> Vec<Action> {
    if view.app.gallery.selection.len() > 1 {
        vec![favour(view), trash(view)]
    } else {
        file_actions(&Subject::of_entry(entry))
    }
}

fn are_favourites(view: &View<'_>) -> bool {
    let chosen = view.app.gallery.chosen();
    chosen.iter().all(|entry| entry.is_favourite)
}

/// Makes the chosen ones favourites, or not any more when all of them are.
fn favour(view: &View<'_>) -> Action {
    let chosen = view.app.gallery.chosen();
    let paths = chosen.iter().map(|entry| entry.path.clone()).collect();
    favourite_action(paths, are_favourites(view))
}

/// Throws the chosen ones away.
fn trash(view: &View<'_>) -> Action {
    let chosen = view.app.gallery.chosen();
    delete_action(chosen.iter().map(|entry| wish_of(entry)).collect(), 1)
}

/// By key.
pub(super) fn favour_command(view: &View<'_>) -> Option<AppCommand> {
    favour(view).command()
}

/// By key.
pub(super) fn trash_command(view: &View<'_>) -> Option<AppCommand> {
    trash(view).command()
}

/// The buttons that say what they do.
pub(super) fn actions_ui(ui: &mut Ui, view: &mut View<'_>, entry: &Entry) {
    for action in main_of(view, entry) {
        action.wide_ui(ui, view);
    }
}

/// Those that are signs alone.
pub(super) fn file_actions_ui(ui: &mut Ui, view: &mut View<'_>, entry: &Entry) {
    let is_favourite = are_favourites(view);
    ui.horizontal(|ui| {
        for action in files_of(view, entry) {
            let (icon, name) = (action.icon, action.name.as_str());
            let is_clicked = if icon == icons::STAR {
                icon_toggle(ui, is_favourite, icon, name, action.explanation).clicked()
            } else {
                icon_button(ui, icon, name, action.explanation).clicked()
            };
            if let Some(command) = action.command().filter(|_| is_clicked) {
                view.push(command);
            }
        }
    });
}

/// All of them, below the pointer.
pub(super) fn menu_ui(ui: &mut Ui, view: &mut View<'_>, entry: &Entry) {
    let networks = results::network_actions(view, entry.is_clip());
    let groups = vec![main_of(view, entry), networks, files_of(view, entry)];
    results::menu_ui(ui, |ui| results::entries_ui(ui, view, groups));
}

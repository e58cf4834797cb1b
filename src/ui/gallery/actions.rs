//! What can be done with the chosen results: beside the details as buttons, and as a menu under the right mouse button.
//!
//! Does nothing by itself: buttons push commands.

use egui::{Button, Response, Ui, vec2};
use safelight_core::gallery::{Entry, Reading};

use crate::app::commands::{
    AppCommand, DesktopCommand, GalleryCommand, InputsCommand, PlayerCommand, RestoreCommand,
};
use crate::app::gallery::wishes::TrashWish;
use crate::app::inputs::{Placing, Slot};
use crate::ui::widgets::{icon_button, icon_toggle, with_icon};
use crate::ui::{View, icons, theme};

/// One of them.
struct Action {
    icon: char,
    name: &'static str,
    explanation: &'static str,
    /// Why not.
    obstacle: Option<&'static str>,
    command: AppCommand,
}

impl Action {
    fn new(icon: char, name: &'static str, explanation: &'static str, command: AppCommand) -> Self {
        Self {
            icon,
            name,
            explanation,
            obstacle: None,
            command,
        }
    }

    fn unless(self, obstacle: Option<&'static str>) -> Self {
        Self { obstacle, ..self }
    }

    /// A button with its name over the whole width.
    fn ui(&self, ui: &mut Ui) -> Response {
        let size = vec2(ui.available_width(), 0.0);
        let button = Button::new(with_icon(self.icon, self.name)).min_size(size);
        ui.add_enabled(self.obstacle.is_none(), button)
            .on_hover_text(self.explanation)
            .on_disabled_hover_text(self.obstacle.unwrap_or_default())
            .accessible_name(self.name)
    }
}

/// With one result.
fn actions_of(view: &View<'_>, entry: &Entry) -> Vec<Action> {
    let path = || entry.path.clone();
    let is_broken = matches!(entry.reading, Reading::Broken(_));
    let unreadable = is_broken.then_some("The file cannot be read");
    let is_silent = entry.facts().is_some_and(|facts| !facts.has_settings);
    let silent = is_silent.then_some("The file does not say how it was made");
    let play = AppCommand::Player(PlayerCommand::PlayFile(path()));
    let take_over = AppCommand::Restore(RestoreCommand::Use(path()));
    let mut actions = vec![
        Action::new(icons::PLAY, "Play", "Show it large (Enter)", play).unless(unreadable),
        Action::new(
            icons::RESET,
            "Use these settings",
            "Put the prompt, the seed and the settings that it carries into the form",
            take_over,
        )
        .unless(unreadable.or(silent)),
    ];
    for (slot, name, explanation) in places(view, entry) {
        let placing = Placing {
            slot: Some(slot),
            ..Placing::default()
        };
        let command = if entry.is_clip() {
            AppCommand::Inputs(InputsCommand::ContinueFrom(path()))
        } else {
            AppCommand::Inputs(InputsCommand::Open(vec![path()], placing))
        };
        let action = Action::new(icons::ARROW_RIGHT, name, explanation, command);
        actions.push(action.unless(unreadable));
    }
    actions
}

/// Where the chosen model takes a picture.
fn places(view: &View<'_>, entry: &Entry) -> Vec<(Slot, &'static str, &'static str)> {
    let Some(spec) = view.model() else {
        return Vec::new();
    };
    let mut places = Vec::new();
    if spec.start_image.is_possible() {
        places.push(if entry.is_clip() {
            let explanation = "Its last frame begins the next part";
            (Slot::Start, "Continue from last frame", explanation)
        } else {
            (
                Slot::Start,
                "Use as start picture",
                "Begin with this picture",
            )
        });
    }
    if entry.is_clip() {
        return places;
    }
    if spec.end_image.is_possible() {
        places.push((Slot::End, "Use as end picture", "End with this picture"));
    }
    if spec.mask.is_possible() {
        let explanation = "White is made anew, black stays";
        places.push((Slot::Mask, "Use as mask", explanation));
    }
    places
}

/// What several chosen results have in common is what can be done with them.
fn actions_of_several(view: &View<'_>) -> Vec<Action> {
    let chosen = view.app.gallery.chosen();
    let [one, other] = &chosen[..] else {
        return Vec::new();
    };
    let compare = AppCommand::Player(PlayerCommand::CompareFiles(
        one.path.clone(),
        other.path.clone(),
    ));
    let explanation = "Both beside each other";
    vec![Action::new(icons::COLUMNS, "Compare", explanation, compare)]
}

/// What is done with files: one of them, or all that are chosen. Favourites come first.
fn file_actions(view: &View<'_>, entry: &Entry, num_chosen: usize) -> Vec<Action> {
    let (name, explanation) = if are_favourites(view) {
        ("Not a favourite", "Take the star away (F)")
    } else {
        ("Favourite", "Give it a star, to find it again (F)")
    };
    let mut actions = vec![Action::new(icons::STAR, name, explanation, favour(view))];
    if num_chosen == 1 {
        let open = GalleryCommand::OpenFolder(entry.path.clone());
        actions.push(Action::new(
            icons::FOLDER_OPEN,
            "Open folder",
            "Show it in the file manager",
            AppCommand::Gallery(open),
        ));
        actions.push(Action::new(
            icons::COPY,
            "Copy path",
            "Put the file's path on the clipboard",
            AppCommand::Desktop(DesktopCommand::CopyText(entry.path.display().to_string())),
        ));
    }
    actions.push(Action::new(
        icons::TRASH,
        "Delete",
        "Move it to the desktop's trash, from where it can come back (Delete)",
        trash(view),
    ));
    actions
}

fn are_favourites(view: &View<'_>) -> bool {
    let chosen = view.app.gallery.chosen();
    chosen.iter().all(|entry| entry.is_favourite)
}

/// Makes the chosen ones favourites, or not any more when all of them are.
pub(super) fn favour(view: &View<'_>) -> AppCommand {
    let chosen = view.app.gallery.chosen();
    let paths = chosen.iter().map(|entry| entry.path.clone()).collect();
    AppCommand::Gallery(GalleryCommand::Favour(paths, !are_favourites(view)))
}

/// Throws the chosen ones away.
pub(super) fn trash(view: &View<'_>) -> AppCommand {
    let chosen = view.app.gallery.chosen();
    let wishes = chosen.iter().map(|entry| TrashWish {
        path: entry.path.clone(),
        is_frame: entry.facts().is_some_and(|facts| facts.is_frame),
    });
    AppCommand::Gallery(GalleryCommand::Trash(wishes.collect()))
}

fn main_actions(view: &View<'_>, entry: &Entry, num_chosen: usize) -> Vec<Action> {
    if num_chosen > 1 {
        actions_of_several(view)
    } else {
        actions_of(view, entry)
    }
}

/// The buttons that say what they do.
pub(super) fn actions_ui(ui: &mut Ui, view: &mut View<'_>, entry: &Entry, num_chosen: usize) {
    for action in main_actions(view, entry, num_chosen) {
        if action.ui(ui).clicked() {
            view.push(action.command);
        }
    }
}

/// Those that are signs alone.
pub(super) fn file_actions_ui(ui: &mut Ui, view: &mut View<'_>, entry: &Entry, num_chosen: usize) {
    let is_favourite = are_favourites(view);
    ui.horizontal(|ui| {
        for action in file_actions(view, entry, num_chosen) {
            let Action {
                icon,
                name,
                explanation,
                command,
                ..
            } = action;
            let is_clicked = if icon == icons::STAR {
                icon_toggle(ui, is_favourite, icon, name, explanation).clicked()
            } else {
                icon_button(ui, icon, name, explanation).clicked()
            };
            if is_clicked {
                view.push(command);
            }
        }
    });
}

/// All of them, below the pointer.
pub(super) fn menu_ui(ui: &mut Ui, view: &mut View<'_>, entry: &Entry) {
    ui.set_width(theme::MENU_WIDTH);
    let num_chosen = view.app.gallery.selection.len();
    let main = main_actions(view, entry, num_chosen);
    let files = file_actions(view, entry, num_chosen);
    let num_main = main.len();
    for (index, action) in main.into_iter().chain(files).enumerate() {
        if index == num_main && num_main > 0 {
            ui.separator();
        }
        if action.ui(ui).clicked() {
            view.push(action.command);
            ui.close();
        }
    }
}

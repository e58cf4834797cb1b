//! What is done with a finished result as a whole, and what is told of it.
//!
//! The frame that is shown is the bar's.

use egui::{Button, RichText, Ui};
use safelight_core::units::duration_text;

use crate::app::commands::{AppCommand, PlayerCommand};
use crate::app::queue::ResultItem;
use crate::ui::watch::bar::Told;
use crate::ui::watch::compare::compare_menu;
use crate::ui::widgets::{palette, with_icon};
use crate::ui::{View, icons};

pub(super) fn result_ui(ui: &mut Ui, view: &mut View<'_>, item: &ResultItem) {
    let id = item.id;
    ui.horizontal_wrapped(|ui| {
        let buttons = [
            (
                icons::FOLDER_OPEN,
                "Open folder",
                "Show the file in the file manager",
                AppCommand::Player(PlayerCommand::OpenFolderOf(id)),
            ),
            (
                icons::COPY,
                "Copy path",
                "Put the file's path on the clipboard",
                AppCommand::Player(PlayerCommand::CopyPathOf(id)),
            ),
            (
                icons::RESET,
                "Use these settings",
                "Put its prompt, seed and settings back into the form",
                AppCommand::Player(PlayerCommand::UseSettingsOf(id)),
            ),
        ];
        for (icon, name, explanation, command) in buttons {
            if button(ui, icon, name, explanation) {
                view.push(command);
            }
        }
        continue_button(ui, view, item);
        compare_menu(ui, view);
        live_button(ui, view);
    });
}

/// Size, length, seed and name.
pub(super) fn told(item: &ResultItem, shown: usize) -> Told {
    let path = item.path_of(shown);
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    Told {
        line: format!("{}  ·  {file}", facts(item, shown)),
        more: format!("{}\n{}", item.request.prompt, path.display()),
    }
}

/// A button with its name in words.
pub(super) fn button(ui: &mut Ui, icon: char, name: &str, explanation: &str) -> bool {
    ui.add(Button::new(with_icon(icon, name)))
        .on_hover_text(explanation)
        .accessible_name(name)
        .clicked()
}

/// The clip's last frame begins the next part; a picture begins a clip or is made anew.
fn continue_button(ui: &mut Ui, view: &mut View<'_>, item: &ResultItem) {
    let is_clip = !item.is_pictures() && item.output.clip.frames.len() > 1;
    if start_button(ui, view, is_clip) {
        view.push(PlayerCommand::ContinueFrom(item.id));
    }
}

/// Whether it was pressed.
pub(super) fn start_button(ui: &mut Ui, view: &View<'_>, is_clip: bool) -> bool {
    let spec = view.model();
    let makes_pictures = spec.is_some_and(|spec| spec.family.makes_pictures);
    let (name, explanation) = if is_clip {
        (
            "Continue from last frame",
            "Go on from this clip: its last frame begins the next part, and both are written as one",
        )
    } else if makes_pictures {
        (
            "Use as start picture",
            "Make the next picture from this one",
        )
    } else {
        (
            "Use as start picture",
            "Make a clip that begins with this picture",
        )
    };
    let can_start = spec.is_some_and(|spec| spec.start_image.is_possible());
    let button = Button::new(with_icon(icons::ARROW_RIGHT, name));
    ui.add_enabled(can_start, button)
        .on_hover_text(explanation)
        .on_disabled_hover_text("The chosen model cannot start from a picture")
        .accessible_name(name)
        .clicked()
}

/// Back to the running job, while something else is looked at.
pub(super) fn live_button(ui: &mut Ui, view: &mut View<'_>) {
    if view.app.queue.running.is_none() {
        return;
    }
    let accent = palette(ui).accent;
    let button = Button::new(RichText::new("Back to the live preview").color(accent));
    if ui
        .add(button)
        .on_hover_text("Another one is being made right now")
        .clicked()
    {
        view.push(PlayerCommand::ShowLive);
    }
}

/// In a batch, of the picture that is looked at.
fn facts(item: &ResultItem, shown: usize) -> String {
    let request = item.request.of_one(shown);
    let length = if item.is_batch() {
        format!("picture {} of {}", shown + 1, item.request.batch_size)
    } else if request.num_frames == 1 {
        "picture".to_owned()
    } else {
        format!("{} frames", request.num_frames)
    };
    format!(
        "{} × {}  ·  {length}  ·  seed {}  ·  {}",
        request.width,
        request.height,
        request.seed,
        duration_text(item.output.secs)
    )
}

//! What is done with a file from disk that is watched, and what is told of it.
//!
//! The frame that is shown is the bar's.

use egui::Ui;

use crate::app::commands::{AppCommand, InputsCommand, PlayerCommand, RestoreCommand};
use crate::app::inputs::{Placing, Slot};
use crate::app::player::PlayedFile;
use crate::ui::watch::bar::Told;
use crate::ui::watch::compare::compare_menu;
use crate::ui::watch::result::{button, live_button, start_button};
use crate::ui::{View, icons};

pub(super) fn file_ui(ui: &mut Ui, view: &mut View<'_>) {
    let Some(file) = view.app.watch.file.clone() else {
        return;
    };
    let shown = view.app.watch.shown_of_batch();
    buttons_ui(ui, view, &file, shown);
}

/// Size, length, what its settings say, and its name.
pub(super) fn told(file: &PlayedFile, shown: usize) -> Told {
    let path = file.path_of(shown).display().to_string();
    Told {
        line: file.line(shown),
        more: match file.prompt(shown) {
            Some(prompt) => format!("{prompt}\n{path}"),
            None => path,
        },
    }
}

fn buttons_ui(ui: &mut Ui, view: &mut View<'_>, file: &PlayedFile, shown: usize) {
    let path = file.path_of(shown).to_path_buf();
    ui.horizontal_wrapped(|ui| {
        let buttons = [
            (
                icons::FOLDER_OPEN,
                "Open folder",
                "Show the file in the file manager",
                AppCommand::Player(PlayerCommand::OpenFolderOfFile),
            ),
            (
                icons::COPY,
                "Copy path",
                "Put the file's path on the clipboard",
                AppCommand::Player(PlayerCommand::CopyPathOfFile),
            ),
            (
                icons::RESET,
                "Use these settings",
                "Put what the file says of its making back into the form",
                AppCommand::Restore(RestoreCommand::Use(path.clone())),
            ),
        ];
        for (icon, name, explanation, command) in buttons {
            if button(ui, icon, name, explanation) {
                view.push(command);
            }
        }
        if start_button(ui, view, file.is_clip) {
            let placing = Placing {
                slot: Some(Slot::Start),
                ..Placing::default()
            };
            view.push(if file.is_clip {
                AppCommand::Inputs(InputsCommand::ContinueFrom(path))
            } else {
                AppCommand::Inputs(InputsCommand::Open(vec![path], placing))
            });
        }
        compare_menu(ui, view);
        live_button(ui, view);
    });
}

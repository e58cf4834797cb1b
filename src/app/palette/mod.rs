//! The command palette: everything that can be done or opened by name, found by a few letters of it.
//!
//! It only finds and remembers; what is chosen is pushed as any other command.

mod fuzzy;

use egui::{Context, Popup};
use safelight_core::settings::table;

use crate::app::commands::{
    AppCommand, DesktopCommand, LibraryCommand, PaletteCommand, PresetsCommand, RestoreCommand,
    SettingsCommand,
};
use crate::app::cx::Cx;
use crate::app::presets::OwnPresets;
use crate::app::settings::SettingsKeeping;
use crate::app::shortcuts::{Shortcut, keys_text};

/// Of what was used, so many stand first.
const MAX_RECENT: usize = 8;
const PRESET: &str = "Preset";

/// The list of all commands, and that of their keys.
#[derive(Default)]
pub struct Palette {
    /// Everything that can be chosen, while the list is open.
    pub entries: Option<Vec<Entry>>,
    pub are_shortcuts_shown: bool,
    /// The commands that were used last, newest first.
    pub recent: Vec<String>,
}

/// Something that can be chosen.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Tells it from others between runs of the program.
    pub id: String,
    pub name: String,
    pub kind: &'static str,
    /// Its keys, when it has any.
    pub keys: String,
    pub command: AppCommand,
}

impl Palette {
    pub fn new(recent: Vec<String>) -> Self {
        Self {
            recent,
            ..Self::default()
        }
    }

    /// Something lies over the pages and has the keys, Escape above all: a list, a menu or a question.
    pub fn is_covered(&self, ctx: &Context) -> bool {
        self.entries.is_some()
            || self.are_shortcuts_shown
            || Popup::is_any_open(ctx)
            || ctx.memory(|memory| memory.top_modal_layer().is_some())
    }

    /// What matches a query, best first.
    pub fn found(&self, query: &str) -> Vec<&Entry> {
        let query = query.trim().to_lowercase();
        let entries = self.entries.iter().flatten();
        let scored = entries.filter_map(|entry| Some((score(&query, entry)?, entry)));
        let mut scored: Vec<(i32, &Entry)> = scored.collect();
        scored.sort_by_key(|(score, _)| -score);
        scored.into_iter().map(|(_, entry)| entry).collect()
    }

    /// `possible` are the commands that would do something now.
    pub fn update(
        &mut self,
        command: PaletteCommand,
        possible: &[&Shortcut],
        presets: &OwnPresets,
        settings: &SettingsKeeping,
        cx: &mut Cx,
    ) {
        match command {
            PaletteCommand::Toggle => {
                self.are_shortcuts_shown = false;
                let is_open = self.entries.take().is_some();
                self.entries = (!is_open).then(|| self.all(possible, presets, settings, cx));
            }
            PaletteCommand::ToggleShortcuts => {
                self.are_shortcuts_shown = !self.are_shortcuts_shown;
                self.entries = None;
            }
            PaletteCommand::Run(id, command) => {
                self.entries = None;
                self.recent.retain(|known| *known != id);
                self.recent.insert(0, id);
                self.recent.truncate(MAX_RECENT);
                cx.push(*command);
            }
        }
    }

    /// Everything that can be done now, with what was used last in front.
    fn all(
        &self,
        possible: &[&Shortcut],
        presets: &OwnPresets,
        settings: &SettingsKeeping,
        cx: &Cx,
    ) -> Vec<Entry> {
        let entry = |id: String, name: &str, kind, command| Entry {
            id,
            name: name.to_owned(),
            kind,
            keys: String::new(),
            command,
        };
        let mut entries = Vec::new();
        for shortcut in possible {
            let name = match shortcut.id {
                "palette" | "back" | "shortcuts-by-question" => continue,
                "undo" => &format!("Undo: {}", cx.undo.last().unwrap_or_default()),
                _ => shortcut.name,
            };
            let (kind, command) = (shortcut.group.name(), (shortcut.command)());
            entries.push(Entry {
                keys: shortcut
                    .keys
                    .first()
                    .copied()
                    .map(keys_text)
                    .unwrap_or_default(),
                ..entry(shortcut.id.to_owned(), name, kind, command)
            });
        }
        if let Some(spec) = cx.model() {
            let presets = presets.choices(spec).into_iter();
            entries.extend(presets.map(|preset| {
                let id = format!("preset:{}", preset.key.id());
                let command = AppCommand::Presets(PresetsCommand::Apply(preset.key));
                entry(id, &preset.name, PRESET, command)
            }));
        }
        entries.push(entry(
            "settings-of-file".to_owned(),
            "Use the settings of a file…",
            PRESET,
            AppCommand::Restore(RestoreCommand::Pick),
        ));
        entries.push(entry(
            "add-to-menu".to_owned(),
            "Add Safelight to the applications menu",
            "Desktop",
            AppCommand::Desktop(DesktopCommand::AddToMenu),
        ));
        entries.extend(cx.models.all().iter().map(|spec| {
            let command = AppCommand::Library(LibraryCommand::Choose(spec.id.clone()));
            entry(format!("model:{}", spec.id), &spec.name, "Model", command)
        }));
        entries.extend(table::settings().map(|row| {
            let command = AppCommand::Settings(SettingsCommand::Show(row.key));
            entry(format!("setting:{}", row.key), row.name, "Setting", command)
        }));
        let settings = settings.recent.iter().map(|key| format!("setting:{key}"));
        let recent: Vec<String> = self.recent.iter().cloned().chain(settings).collect();
        let place = |entry: &Entry| {
            recent
                .iter()
                .position(|id| *id == entry.id)
                .unwrap_or(usize::MAX)
        };
        entries.sort_by_key(place);
        entries
    }
}

/// In its name; less well in what it is.
fn score(query: &str, entry: &Entry) -> Option<i32> {
    let in_name = fuzzy::score(query, &entry.name);
    let in_both =
        || fuzzy::score(query, &format!("{} {}", entry.kind, entry.name)).map(|score| score - 4);
    in_name.or_else(in_both)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::shortcuts::SHORTCUTS;
    use crate::app::state::Page;

    #[test]
    fn what_was_used_last_stands_first_when_the_list_is_opened_again() {
        let mut cx = Cx::alone();
        let mut palette = Palette::default();
        let mut run = |palette: &mut Palette, command| {
            let (presets, settings) = (OwnPresets::default(), SettingsKeeping::default());
            let possible: Vec<&Shortcut> = SHORTCUTS.iter().collect();
            palette.update(command, &possible, &presets, &settings, &mut cx);
            cx.next_command()
        };
        run(&mut palette, PaletteCommand::Toggle);
        assert_ne!(palette.found("")[0].name, "Doctor");
        let Entry { id, command, .. } = palette.found("dctr")[0].clone();
        let pushed = run(&mut palette, PaletteCommand::Run(id, Box::new(command)));
        assert!(matches!(pushed, Some(AppCommand::Show(Page::Doctor))));
        assert!(palette.entries.is_none());
        run(&mut palette, PaletteCommand::Toggle);
        assert_eq!(palette.found("")[0].name, "Doctor");
    }
}

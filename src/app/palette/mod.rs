//! The command palette: everything that can be done or opened by name, found by a few letters of it.
//!
//! It only finds and remembers; what is chosen is pushed as any other command.

mod fuzzy;

use safelight_core::settings::table;

use crate::app::App;
use crate::app::commands::AppCommand;
use crate::app::desktop::DesktopCommand;
use crate::app::presets::PresetsCommand;
use crate::app::restore::RestoreCommand;
use crate::app::settings::SettingsCommand;
use crate::app::shortcuts::{SHORTCUTS, keys_text};

/// Of what was used, so many stand first.
const MAX_RECENT: usize = 8;

/// The open palette.
#[derive(Default)]
pub struct Palette {
    pub query: String,
    /// Of those that are found.
    pub chosen: usize,
    /// The chosen one has to be scrolled to.
    pub is_moved: bool,
    entries: Vec<Entry>,
    found: Vec<usize>,
    /// What `found` was found for.
    found_for: Option<String>,
}

/// Something that can be chosen.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Tells it from others between runs of the program.
    pub id: String,
    pub name: String,
    /// What kind of thing it is.
    pub kind: &'static str,
    /// Its keys, when it has any.
    pub keys: String,
    pub command: AppCommand,
}

impl Palette {
    /// What matches the query, best first.
    pub fn found(&mut self) -> impl Iterator<Item = &Entry> {
        if self.found_for.as_ref() != Some(&self.query) {
            let query = self.query.trim().to_lowercase();
            let mut scored: Vec<(i32, usize)> = self
                .entries
                .iter()
                .enumerate()
                .filter_map(|(index, entry)| Some((score(&query, entry)?, index)))
                .collect();
            scored.sort_by_key(|(score, index)| (-score, *index));
            self.found = scored.into_iter().map(|(_, index)| index).collect();
            self.found_for = Some(self.query.clone());
            self.chosen = 0;
        }
        self.found
            .iter()
            .filter_map(|index| self.entries.get(*index))
    }

    /// How many match.
    pub fn num_found(&mut self) -> usize {
        self.found().count()
    }

    /// The one that Enter runs.
    pub fn chosen_entry(&mut self) -> Option<Entry> {
        let chosen = self.chosen;
        self.found().nth(chosen).cloned()
    }

    /// Up and down, around the ends.
    pub fn step(&mut self, by: isize) {
        let count = self.num_found();
        if count > 0 {
            self.chosen = (self.chosen as isize + by).rem_euclid(count as isize) as usize;
            self.is_moved = true;
        }
    }
}

/// In its name; less well in what it is.
fn score(query: &str, entry: &Entry) -> Option<i32> {
    let in_name = fuzzy::score(query, &entry.name);
    let in_both =
        || fuzzy::score(query, &format!("{} {}", entry.kind, entry.name)).map(|score| score - 4);
    in_name.or_else(in_both)
}

impl App {
    pub(super) fn toggle_palette(&mut self) {
        self.session.are_shortcuts_shown = false;
        self.session.palette = match self.session.palette {
            Some(_) => None,
            None => Some(Palette {
                entries: self.entries(),
                ..Palette::default()
            }),
        };
    }

    /// Everything, with what was used last in front.
    fn entries(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = SHORTCUTS
            .iter()
            .filter(|shortcut| !matches!(shortcut.id, "palette" | "back" | "shortcuts-by-question"))
            .map(|shortcut| Entry {
                id: shortcut.id.to_owned(),
                name: shortcut.name.to_owned(),
                kind: shortcut.group.name(),
                keys: shortcut
                    .keys
                    .first()
                    .map_or_else(String::new, |keys| keys_text(*keys)),
                command: (shortcut.command)(),
            })
            .collect();
        let entry = |id: String, name: &str, kind, command| Entry {
            id,
            name: name.to_owned(),
            kind,
            keys: String::new(),
            command,
        };
        if let Some(spec) = self.session.model(&self.state.form) {
            let presets = self.session.presets.choices(spec).into_iter();
            entries.extend(presets.map(|preset| {
                let id = format!("preset:{}", preset.key.id());
                let command = AppCommand::Presets(PresetsCommand::Apply(preset.key));
                entry(id, &preset.name, "Preset", command)
            }));
        }
        entries.push(entry(
            "settings-of-file".to_owned(),
            "Use the settings of a file…",
            "Preset",
            AppCommand::Restore(RestoreCommand::Pick),
        ));
        entries.push(entry(
            "add-to-menu".to_owned(),
            "Add Safelight to the applications menu",
            "Desktop",
            AppCommand::Desktop(DesktopCommand::AddToMenu),
        ));
        entries.extend(self.session.models.all().iter().map(|spec| {
            let command = AppCommand::ChooseModel(spec.id.clone());
            entry(format!("model:{}", spec.id), &spec.name, "Model", command)
        }));
        entries.extend(table::settings().map(|row| {
            let command = AppCommand::Settings(SettingsCommand::Show(row.key));
            entry(format!("setting:{}", row.key), row.name, "Setting", command)
        }));
        let recent_settings = self
            .state
            .recent_settings
            .iter()
            .map(|key| format!("setting:{key}"));
        let recent: Vec<String> = self
            .state
            .recent_commands
            .iter()
            .cloned()
            .chain(recent_settings)
            .collect();
        let place = |entry: &Entry| {
            recent
                .iter()
                .position(|id| *id == entry.id)
                .unwrap_or(usize::MAX)
        };
        entries.sort_by_key(place);
        entries
    }

    /// Runs what was chosen, and closes the palette.
    pub(super) fn run_entry(&mut self, ctx: &egui::Context, entry: Entry) {
        self.session.palette = None;
        let recent = &mut self.state.recent_commands;
        recent.retain(|id| *id != entry.id);
        recent.insert(0, entry.id);
        recent.truncate(MAX_RECENT);
        self.run_command(ctx, entry.command);
    }
}

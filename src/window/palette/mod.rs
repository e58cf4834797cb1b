//! The command palette: entries for commands, presets and settings, found by a fuzzy search.

pub mod panel;

use egui::Popup;
use safelight_core::settings::table;

use crate::window::prelude::*;
use crate::window::presets::OwnPresets;
use crate::window::settings::SettingsKeeping;
use crate::window::shortcuts::{CommandShortcut, keys_text};

/// Words that people search, by the ids of commands and the keys of settings.
const SYNONYMS: &[(&str, &str)] = &[
    ("paint-mask", "inpaint outpaint extend img2img"),
    (
        "open",
        "img2img image to image inpaint outpaint denoise i2v first frame",
    ),
    ("control", "controlnet canny depth pose"),
    (
        "advanced",
        "hires fix second pass upscale steps cfg sampler scheduler denoise",
    ),
    ("upscale", "upscaler esrgan enlarge"),
    ("interpolate", "rife fps double frames"),
    ("memory", "vram ram"),
    ("models", "checkpoint controlnet upscaler"),
    ("seed", "dice noise"),
    ("memory.preserved_gib", "vram reserve"),
    ("memory.cap_gib", "vram limit"),
];
/// For each letter, as if they stood together in a name.
const AT_SYNONYM: i32 = 40;
const MAX_RECENT: usize = 8;
const PRESET: &str = "Preset";
const AT_WORD: i32 = 8;
const TOGETHER: i32 = 5;
const AT_START: i32 = 6;
/// For each letter that is passed over, up to a limit.
const GAP: i32 = 1;
const MAX_GAP: i32 = 6;

#[derive(Default)]
pub struct CommandPalette {
    /// `None` while the list is closed.
    pub entries: Option<Vec<PaletteEntry>>,
    pub are_shortcuts_shown: bool,
    /// Ids of the most recently used entries, newest first.
    pub recent: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct PaletteEntry {
    /// Tells it from others between runs of the program.
    pub id: String,
    pub name: String,
    pub kind: &'static str,
    /// Empty without a shortcut.
    pub keys: String,
    pub command: AppCommand,
}

impl CommandPalette {
    /// Returns whether a list, menu or dialog covers the pages and has the keyboard, above all Escape.
    pub fn is_covered(&self, ctx: &Context) -> bool {
        self.entries.is_some()
            || self.are_shortcuts_shown
            || Popup::is_any_open(ctx)
            || ctx.memory(|memory| memory.top_modal_layer().is_some())
    }

    pub fn found(&self, query: &str) -> Vec<&PaletteEntry> {
        let query = query.trim().to_lowercase();
        let entries = self.entries.iter().flatten();
        let scored = entries.filter_map(|entry| Some((score(&query, entry)?, entry)));
        let mut scored: Vec<(i32, &PaletteEntry)> = scored.collect();
        scored.sort_by_key(|(score, _)| -score);
        scored.into_iter().map(|(_, entry)| entry).collect()
    }

    /// `possible` are the commands that would do something now.
    pub fn update(
        &mut self,
        command: PaletteCommand,
        possible: &[&CommandShortcut],
        presets: &OwnPresets,
        settings: &SettingsKeeping,
        cx: &mut AppContext,
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
        possible: &[&CommandShortcut],
        presets: &OwnPresets,
        settings: &SettingsKeeping,
        cx: &AppContext,
    ) -> Vec<PaletteEntry> {
        let entry = |id: String, name: &str, kind, command| PaletteEntry {
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
                "redo" => &format!("Redo: {}", cx.undo.last_undone().unwrap_or_default()),
                _ => shortcut.name,
            };
            let (kind, command) = (shortcut.group, (shortcut.command)());
            let keys = shortcut.keys.first().copied().map(keys_text);
            entries.push(PaletteEntry {
                keys: keys.unwrap_or_default(),
                ..entry(shortcut.id.to_owned(), name, kind, command)
            });
        }
        if let Some(spec) = cx.model() {
            entries.extend(presets.choices(spec).into_iter().map(|preset| {
                let id = format!("preset:{}", preset.key.id());
                let command = AppCommand::Presets(PresetsCommand::Apply(preset.key));
                entry(id, &preset.name, PRESET, command)
            }));
        }
        let (id, name) = ("settings-of-file", "Use the settings of a file…");
        entries.push(entry(id.into(), name, PRESET, RestoreCommand::Pick.into()));
        let (id, name) = ("add-to-menu", "Add Safelight to the applications menu");
        entries.push(entry(
            id.into(),
            name,
            "Desktop",
            DesktopCommand::AddToMenu.into(),
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
        let place = |entry: &PaletteEntry| recent.iter().position(|id| *id == entry.id);
        entries.sort_by_key(|entry| place(entry).unwrap_or(usize::MAX));
        entries
    }
}

/// Other words for a command or a setting, by its id or key.
pub fn synonyms(id: &str) -> &'static str {
    let found = SYNONYMS.iter().find(|(known, _)| *known == id);
    found.map_or("", |(_, words)| words)
}

/// In its name; less well in its synonyms or in what it is.
fn score(query: &str, entry: &PaletteEntry) -> Option<i32> {
    let in_name = fuzzy_score(query, &entry.name);
    let id = entry.id.trim_start_matches("setting:");
    let is_synonym = query.len() > 2 && synonyms(id).contains(query);
    let in_synonyms = is_synonym.then_some(query.len() as i32 * AT_SYNONYM);
    let in_both =
        || fuzzy_score(query, &format!("{} {}", entry.kind, entry.name)).map(|score| score - 4);
    in_name.max(in_synonyms).or_else(in_both)
}

/// `None` when a letter of the query (in lower case) is missing. Higher is better; everything matches an empty query.
fn fuzzy_score(query: &str, name: &str) -> Option<i32> {
    let name: Vec<char> = name.chars().flat_map(char::to_lowercase).collect();
    let mut total = 0;
    let mut at = 0;
    let mut last: Option<usize> = None;
    for letter in query.chars().filter(|letter| !letter.is_whitespace()) {
        let places = |is_good: &dyn Fn(usize) -> bool| {
            (at..name.len()).find(|place| name[*place] == letter && is_good(*place))
        };
        let follows = |place: usize| last.is_some_and(|last| place == last + 1);
        let begins = |place: usize| place == 0 || !name[place - 1].is_alphanumeric();
        // A match that continues a word ranks above the beginning of the next word, and both above the middle of one.
        let place = places(&follows)
            .or_else(|| places(&begins))
            .or_else(|| places(&|_| true))?;
        let gap = last.map_or(0, |last| place - last - 1);
        total += 1;
        total += if place == 0 { AT_START } else { 0 };
        total += if begins(place) { AT_WORD } else { 0 };
        total += if follows(place) { TOGETHER } else { 0 };
        total -= (gap as i32 * GAP).min(MAX_GAP);
        last = Some(place);
        at = place + 1;
    }
    if last.is_none() {
        // Without a query they keep their order.
        return Some(0);
    }
    // Of two that match as well, the shorter one is nearer.
    Some(total * 8 - (name.len() as i32).min(64) / 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::shortcuts::SHORTCUTS;
    use crate::window::state::MainPage;

    #[test]
    fn last_used_command_is_first_when_the_palette_is_reopened() {
        let mut cx = AppContext::alone();
        let mut palette = CommandPalette::default();
        let mut run = |palette: &mut CommandPalette, command| {
            let (presets, settings) = (OwnPresets::default(), SettingsKeeping::default());
            let possible: Vec<&CommandShortcut> = SHORTCUTS.iter().collect();
            palette.update(command, &possible, &presets, &settings, &mut cx);
            cx.next_command()
        };
        run(&mut palette, PaletteCommand::Toggle);
        assert_ne!(palette.found("")[0].name, "Doctor");
        let PaletteEntry { id, command, .. } = palette.found("dctr")[0].clone();
        let pushed = run(&mut palette, PaletteCommand::Run(id, Box::new(command)));
        assert!(matches!(pushed, Some(AppCommand::Show(MainPage::Doctor))));
        assert!(palette.entries.is_none());
        run(&mut palette, PaletteCommand::Toggle);
        assert_eq!(palette.found("")[0].name, "Doctor");
    }

    fn best<'a>(query: &str, names: &[&'a str]) -> &'a str {
        let names = names.iter().copied();
        names.max_by_key(|name| fuzzy_score(query, name)).unwrap()
    }

    #[test]
    fn letters_match_in_order_and_not_otherwise() {
        for (letters, name, matches) in [
            ("gnr", "Generate", true),
            ("gz", "Generate", false),
            ("etareneg", "Generate", false),
            ("", "anything", true),
            ("été", "Été à Paris", true),
            ("a b", "A Boat", true),
        ] {
            assert_eq!(fuzzy_score(letters, name).is_some(), matches, "{letters}");
        }
    }

    #[test]
    fn words_and_their_beginnings_are_better_than_scattered_letters() {
        let graph = "Show or hide the memory graph";
        let names = [graph, "Memory cap", "Models that are many"];
        let found = ["mem", "mc", "graph"].map(|query| best(query, &names));
        assert_eq!(found, ["Memory cap", "Memory cap", graph]);
        let sizes = ["Normal size", "Snow on the roof"];
        assert_eq!(best("ns", &sizes), "Normal size");
    }
}

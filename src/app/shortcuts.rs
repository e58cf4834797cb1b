//! Every command that a person can give by name or key: the one table that handling, tooltips, the list of shortcuts
//! and the command palette read from.
//!
//! What a command does is decided where commands are run.

use egui::{Context, Key, KeyboardShortcut, Modifiers};

use crate::app::App;
use crate::app::commands::AppCommand;
use crate::app::desktop::DesktopCommand;
use crate::app::inputs::Slot;
use crate::app::loras::LorasCommand;
use crate::app::prompt::PromptCommand;
use crate::app::settings::SettingsCommand;
use crate::app::state::Page;

/// Where the list of shortcuts shows a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Make,
    Watch,
    Pages,
    Window,
}

impl Group {
    pub const ALL: [Self; 4] = [Self::Make, Self::Watch, Self::Pages, Self::Window];

    pub fn name(self) -> &'static str {
        match self {
            Self::Make => "Make",
            Self::Watch => "Watch",
            Self::Pages => "Pages",
            Self::Window => "Window",
        }
    }
}

/// When its keys count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Anywhere,
    /// Not while a field or button has the keyboard.
    Idle,
    /// The same, and the picture is looked at.
    Watching,
    /// The same, on a page that has no such key of its own.
    OnPage,
}

/// A command with a name and perhaps keys.
#[derive(Clone, Copy)]
pub struct Shortcut {
    pub id: &'static str,
    pub name: &'static str,
    pub group: Group,
    pub scope: Scope,
    /// The first one is shown.
    pub keys: &'static [KeyboardShortcut],
    pub command: fn() -> AppCommand,
}

const CTRL_SHIFT: Modifiers = Modifiers::COMMAND.plus(Modifiers::SHIFT);

const fn key(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(Modifiers::NONE, key)
}

const fn ctrl(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(Modifiers::COMMAND, key)
}

const fn ctrl_shift(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(CTRL_SHIFT, key)
}

const fn alt(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(Modifiers::ALT, key)
}

/// All of them, in the order in which they are listed.
pub const SHORTCUTS: &[Shortcut] = &[
    Shortcut {
        id: "generate",
        name: "Generate",
        group: Group::Make,
        scope: Scope::Anywhere,
        keys: &[ctrl(Key::Enter)],
        command: || AppCommand::Submit,
    },
    Shortcut {
        id: "cancel",
        name: "Cancel the running job",
        group: Group::Make,
        scope: Scope::Anywhere,
        keys: &[ctrl(Key::Period)],
        command: || AppCommand::Cancel,
    },
    Shortcut {
        id: "prompt",
        name: "Write the prompt",
        group: Group::Make,
        scope: Scope::Anywhere,
        keys: &[ctrl(Key::L)],
        command: || AppCommand::Desktop(DesktopCommand::FocusPrompt),
    },
    Shortcut {
        id: "earlier-prompt",
        name: "The prompt that was used before",
        group: Group::Make,
        scope: Scope::Anywhere,
        keys: &[alt(Key::ArrowUp)],
        command: || AppCommand::Prompt(PromptCommand::Older),
    },
    Shortcut {
        id: "later-prompt",
        name: "The prompt that was used after it",
        group: Group::Make,
        scope: Scope::Anywhere,
        keys: &[alt(Key::ArrowDown)],
        command: || AppCommand::Prompt(PromptCommand::Newer),
    },
    Shortcut {
        id: "loras",
        name: "Add a LoRA",
        group: Group::Make,
        scope: Scope::Anywhere,
        keys: &[],
        command: || AppCommand::Loras(LorasCommand::Open),
    },
    Shortcut {
        id: "wildcard-folder",
        name: "Open the folder of wildcards",
        group: Group::Make,
        scope: Scope::Anywhere,
        keys: &[],
        command: || AppCommand::Prompt(PromptCommand::OpenWildcardFolder),
    },
    Shortcut {
        id: "open",
        name: "Choose a start picture",
        group: Group::Make,
        scope: Scope::Anywhere,
        keys: &[ctrl(Key::O)],
        command: || AppCommand::PickInput(Slot::Start),
    },
    Shortcut {
        id: "seed",
        name: "Roll another seed",
        group: Group::Make,
        scope: Scope::Anywhere,
        keys: &[ctrl(Key::R)],
        command: || AppCommand::RollSeed,
    },
    Shortcut {
        id: "swap",
        name: "Swap start and end picture",
        group: Group::Make,
        scope: Scope::Anywhere,
        keys: &[],
        command: || AppCommand::SwapInputs,
    },
    Shortcut {
        id: "reset-form",
        name: "The model's own values for everything but the prompt",
        group: Group::Make,
        scope: Scope::Anywhere,
        keys: &[],
        command: || AppCommand::ResetForm,
    },
    Shortcut {
        id: "reload-models",
        name: "Look for models again",
        group: Group::Make,
        scope: Scope::Anywhere,
        keys: &[key(Key::F5)],
        command: || AppCommand::ReloadModels,
    },
    Shortcut {
        id: "play",
        name: "Play or pause",
        group: Group::Watch,
        scope: Scope::Watching,
        keys: &[key(Key::Space)],
        command: || AppCommand::TogglePlay,
    },
    Shortcut {
        id: "previous-frame",
        name: "One frame back",
        group: Group::Watch,
        scope: Scope::Watching,
        keys: &[key(Key::ArrowLeft)],
        command: || AppCommand::StepFrame(-1),
    },
    Shortcut {
        id: "next-frame",
        name: "One frame on",
        group: Group::Watch,
        scope: Scope::Watching,
        keys: &[key(Key::ArrowRight)],
        command: || AppCommand::StepFrame(1),
    },
    Shortcut {
        id: "live",
        name: "Look at the running job",
        group: Group::Watch,
        scope: Scope::Anywhere,
        keys: &[],
        command: || AppCommand::ShowLive,
    },
    Shortcut {
        id: "memory",
        name: "Show or hide the memory graph",
        group: Group::Watch,
        scope: Scope::Anywhere,
        keys: &[ctrl(Key::M)],
        command: || AppCommand::Desktop(DesktopCommand::ToggleMemory),
    },
    Shortcut {
        id: "watch",
        name: "Picture",
        group: Group::Pages,
        scope: Scope::Anywhere,
        keys: &[ctrl(Key::Num1)],
        command: || AppCommand::ShowPage(Page::Watch),
    },
    Shortcut {
        id: "models",
        name: "Models",
        group: Group::Pages,
        scope: Scope::Anywhere,
        keys: &[ctrl_shift(Key::M)],
        command: || AppCommand::ShowPage(Page::Models),
    },
    Shortcut {
        id: "first-steps",
        name: "First steps",
        group: Group::Pages,
        scope: Scope::Anywhere,
        keys: &[],
        command: || AppCommand::ShowPage(Page::Welcome),
    },
    Shortcut {
        id: "gallery",
        name: "Gallery",
        group: Group::Pages,
        scope: Scope::Anywhere,
        keys: &[ctrl(Key::Num2)],
        command: || AppCommand::ShowPage(Page::Gallery),
    },
    Shortcut {
        id: "settings",
        name: "Settings",
        group: Group::Pages,
        scope: Scope::Anywhere,
        keys: &[ctrl(Key::Comma)],
        command: || AppCommand::ShowPage(Page::Settings),
    },
    Shortcut {
        id: "doctor",
        name: "Doctor",
        group: Group::Pages,
        scope: Scope::Anywhere,
        keys: &[ctrl_shift(Key::D)],
        command: || AppCommand::ShowPage(Page::Doctor),
    },
    Shortcut {
        id: "palette",
        name: "All commands",
        group: Group::Window,
        scope: Scope::Anywhere,
        keys: &[ctrl(Key::K), ctrl_shift(Key::P)],
        command: || AppCommand::Desktop(DesktopCommand::TogglePalette),
    },
    Shortcut {
        id: "shortcuts",
        name: "Keyboard shortcuts",
        group: Group::Window,
        scope: Scope::Anywhere,
        keys: &[key(Key::F1)],
        command: || AppCommand::Desktop(DesktopCommand::ToggleShortcuts),
    },
    Shortcut {
        id: "shortcuts-by-question",
        name: "Keyboard shortcuts, while nothing is typed",
        group: Group::Window,
        scope: Scope::Idle,
        keys: &[key(Key::Questionmark)],
        command: || AppCommand::Desktop(DesktopCommand::ToggleShortcuts),
    },
    Shortcut {
        id: "back",
        name: "Close the page",
        group: Group::Window,
        scope: Scope::OnPage,
        keys: &[key(Key::Escape)],
        command: || AppCommand::Desktop(DesktopCommand::Back),
    },
    Shortcut {
        id: "larger",
        name: "Larger",
        group: Group::Window,
        scope: Scope::Anywhere,
        keys: &[ctrl(Key::Plus), ctrl(Key::Equals)],
        command: || AppCommand::Settings(SettingsCommand::Larger),
    },
    Shortcut {
        id: "smaller",
        name: "Smaller",
        group: Group::Window,
        scope: Scope::Anywhere,
        keys: &[ctrl(Key::Minus)],
        command: || AppCommand::Settings(SettingsCommand::Smaller),
    },
    Shortcut {
        id: "normal-size",
        name: "Normal size",
        group: Group::Window,
        scope: Scope::Anywhere,
        keys: &[ctrl(Key::Num0)],
        command: || AppCommand::Settings(SettingsCommand::NormalSize),
    },
    Shortcut {
        id: "theme",
        name: "Switch between darkroom and daylight",
        group: Group::Window,
        scope: Scope::Anywhere,
        keys: &[ctrl_shift(Key::L)],
        command: || AppCommand::Settings(SettingsCommand::SwitchTheme),
    },
    Shortcut {
        id: "settings-file",
        name: "Open settings file",
        group: Group::Window,
        scope: Scope::Anywhere,
        keys: &[],
        command: || AppCommand::Settings(SettingsCommand::OpenFile),
    },
    Shortcut {
        id: "quit",
        name: "Quit",
        group: Group::Window,
        scope: Scope::Anywhere,
        keys: &[ctrl(Key::Q)],
        command: || AppCommand::Desktop(DesktopCommand::Quit),
    },
];

/// The command of this id.
pub fn of(id: &str) -> Option<&'static Shortcut> {
    SHORTCUTS.iter().find(|shortcut| shortcut.id == id)
}

/// An explanation with the command's keys behind it: `Make the clip (Ctrl+Enter)`.
pub fn explained(explanation: &str, id: &str) -> String {
    match of(id).and_then(|shortcut| shortcut.keys.first()) {
        Some(keys) => format!("{explanation} ({})", keys_text(*keys)),
        None => explanation.to_owned(),
    }
}

/// `Ctrl+Shift+P`, as it stands on keyboards.
pub fn keys_text(keys: KeyboardShortcut) -> String {
    let mut text = String::new();
    for (is_held, name) in [
        (keys.modifiers.command || keys.modifiers.ctrl, "Ctrl+"),
        (keys.modifiers.shift, "Shift+"),
        (keys.modifiers.alt, "Alt+"),
    ] {
        if is_held {
            text.push_str(name);
        }
    }
    text.push_str(match keys.logical_key {
        Key::ArrowLeft => "Left",
        Key::ArrowRight => "Right",
        Key::Plus => "+",
        Key::Minus => "-",
        Key::Comma => ",",
        Key::Period => ".",
        Key::Questionmark => "?",
        other => other.name(),
    });
    text
}

impl App {
    /// Takes the keys of commands away before any field sees them.
    pub(super) fn take_shortcuts(&mut self, ctx: &Context) {
        let is_typing = ctx.memory(|memory| memory.focused().is_some());
        let is_below = self.session.palette.is_some() || self.session.are_shortcuts_shown;
        let is_watching = self.session.page == Page::Watch;
        // Those with Shift first: a key without it counts with it too.
        let mut ordered: Vec<&Shortcut> = SHORTCUTS.iter().collect();
        ordered.sort_by_key(|shortcut| !shortcut.keys.iter().any(|keys| keys.modifiers.shift));
        for shortcut in ordered {
            let is_page = matches!(self.session.page, Page::Settings | Page::Doctor);
            let counts = match shortcut.scope {
                Scope::Anywhere => true,
                Scope::Idle => !is_typing && !is_below,
                Scope::Watching => !is_typing && !is_below && is_watching,
                Scope::OnPage => !is_typing && !is_below && is_page,
            };
            let is_pressed = counts
                && shortcut
                    .keys
                    .iter()
                    .any(|keys| ctx.input_mut(|input| input.consume_shortcut(keys)));
            if !is_pressed {
                continue;
            }
            match (shortcut.command)() {
                // Carried out after the field has taken what was typed just before.
                AppCommand::Submit => self.session.is_submit_wanted = true,
                command => self.commands.push(command),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_commands_have_the_same_keys_or_id() {
        let mut seen = HashSet::new();
        for shortcut in SHORTCUTS {
            assert!(seen.insert(shortcut.id.to_owned()), "{}", shortcut.id);
            for keys in shortcut.keys {
                let text = keys_text(*keys);
                assert!(seen.insert(text.clone()), "{text} of {}", shortcut.name);
            }
        }
    }

    #[test]
    fn keys_are_written_as_they_stand_on_keyboards() {
        assert_eq!(keys_text(ctrl_shift(Key::P)), "Ctrl+Shift+P");
        assert_eq!(keys_text(ctrl(Key::Plus)), "Ctrl++");
        assert_eq!(explained("Make it", "generate"), "Make it (Ctrl+Enter)");
        assert_eq!(explained("Swap", "swap"), "Swap");
    }
}

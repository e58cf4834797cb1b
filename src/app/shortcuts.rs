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
use crate::app::player::commands::PlayerCommand;
use crate::app::prompt::{self, PromptCommand};
use crate::app::queue::commands::QueueCommand;
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
    /// While the prompt is written.
    Prompt,
    /// Not while a field or button has the keyboard.
    Idle,
    /// The same, and the picture is looked at.
    Watching,
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

const fn anywhere(
    group: Group,
    id: &'static str,
    name: &'static str,
    keys: &'static [KeyboardShortcut],
    command: fn() -> AppCommand,
) -> Shortcut {
    Shortcut {
        id,
        name,
        group,
        scope: Scope::Anywhere,
        keys,
        command,
    }
}

/// One that counts while the picture is looked at.
const fn watching(
    id: &'static str,
    name: &'static str,
    keys: &'static [KeyboardShortcut],
    command: fn() -> AppCommand,
) -> Shortcut {
    Shortcut {
        id,
        name,
        group: Group::Watch,
        scope: Scope::Watching,
        keys,
        command,
    }
}

/// All of them, in the order in which they are listed.
pub const SHORTCUTS: &[Shortcut] = &[
    anywhere(
        Group::Make,
        "generate",
        "Generate",
        &[ctrl(Key::Enter)],
        || AppCommand::Submit,
    ),
    anywhere(
        Group::Make,
        "cancel",
        "Cancel the running job",
        &[ctrl(Key::Period)],
        || AppCommand::Cancel,
    ),
    anywhere(
        Group::Make,
        "pause-queue",
        "Pause the queue at once",
        &[],
        || AppCommand::Queue(QueueCommand::PauseAll),
    ),
    anywhere(Group::Make, "go-on", "Go on with the queue", &[], || {
        AppCommand::Queue(QueueCommand::GoOn)
    }),
    anywhere(
        Group::Make,
        "queue",
        "Show or hide the queue",
        &[ctrl_shift(Key::Q)],
        || AppCommand::Queue(QueueCommand::Toggle),
    ),
    anywhere(
        Group::Make,
        "prompt",
        "Write the prompt",
        &[ctrl(Key::L)],
        || AppCommand::Desktop(DesktopCommand::FocusPrompt),
    ),
    Shortcut {
        id: "earlier-prompt",
        name: "The prompt that was used before",
        group: Group::Make,
        scope: Scope::Prompt,
        keys: &[alt(Key::ArrowUp)],
        command: || AppCommand::Prompt(PromptCommand::Older),
    },
    Shortcut {
        id: "later-prompt",
        name: "The prompt that was used after it",
        group: Group::Make,
        scope: Scope::Prompt,
        keys: &[alt(Key::ArrowDown)],
        command: || AppCommand::Prompt(PromptCommand::Newer),
    },
    anywhere(Group::Make, "loras", "Add a LoRA", &[], || {
        AppCommand::Loras(LorasCommand::Open)
    }),
    anywhere(
        Group::Make,
        "wildcard-folder",
        "Open the folder of wildcards",
        &[],
        || AppCommand::Prompt(PromptCommand::OpenWildcardFolder),
    ),
    anywhere(
        Group::Make,
        "open",
        "Choose a start picture",
        &[ctrl(Key::O)],
        || AppCommand::PickInput(Slot::Start),
    ),
    anywhere(
        Group::Make,
        "seed",
        "Roll another seed",
        &[ctrl(Key::R)],
        || AppCommand::RollSeed,
    ),
    anywhere(
        Group::Make,
        "swap",
        "Swap start and end picture",
        &[],
        || AppCommand::SwapInputs,
    ),
    anywhere(
        Group::Make,
        "reset-form",
        "The model's own values for everything but the prompt",
        &[],
        || AppCommand::ResetForm,
    ),
    anywhere(
        Group::Make,
        "reload-models",
        "Look for models again",
        &[key(Key::F5)],
        || AppCommand::ReloadModels,
    ),
    watching("play", "Play or pause", &[key(Key::Space)], || {
        AppCommand::TogglePlay
    }),
    watching(
        "previous-frame",
        "One frame back",
        &[key(Key::ArrowLeft)],
        || AppCommand::StepFrame(-1),
    ),
    watching(
        "next-frame",
        "One frame on",
        &[key(Key::ArrowRight)],
        || AppCommand::StepFrame(1),
    ),
    watching("first-frame", "The first frame", &[key(Key::Home)], || {
        AppCommand::ShowFrame(0)
    }),
    watching("last-frame", "The last frame", &[key(Key::End)], || {
        AppCommand::ShowFrame(usize::MAX)
    }),
    watching(
        "repeat",
        "Loop, back and forth, or play once",
        &[key(Key::L)],
        || AppCommand::Player(PlayerCommand::NextRepeat),
    ),
    watching(
        "full-view",
        "Give the picture the whole window",
        &[key(Key::F)],
        || AppCommand::Player(PlayerCommand::ToggleFull),
    ),
    watching("fit", "All of the picture", &[key(Key::Num0)], || {
        AppCommand::Player(PlayerCommand::Fit)
    }),
    watching(
        "own-size",
        "The picture at 100 %",
        &[key(Key::Num1)],
        || AppCommand::Player(PlayerCommand::OwnSize),
    ),
    watching(
        "more-of-b",
        "Compared: more of B",
        &[key(Key::OpenBracket)],
        || AppCommand::Player(PlayerCommand::MoveDivider(-0.05)),
    ),
    watching(
        "more-of-a",
        "Compared: more of A",
        &[key(Key::CloseBracket)],
        || AppCommand::Player(PlayerCommand::MoveDivider(0.05)),
    ),
    watching("save-frame", "Save this frame", &[key(Key::S)], || {
        AppCommand::Player(PlayerCommand::SaveFrame)
    }),
    watching("copy-frame", "Copy this frame", &[key(Key::C)], || {
        AppCommand::Player(PlayerCommand::CopyFrame)
    }),
    watching(
        "continue-from-frame",
        "Continue from this frame",
        &[],
        || AppCommand::Player(PlayerCommand::UseFrame(Slot::Start)),
    ),
    watching("end-on-frame", "Use this frame as end picture", &[], || {
        AppCommand::Player(PlayerCommand::UseFrame(Slot::End))
    }),
    anywhere(Group::Watch, "live", "Look at the running job", &[], || {
        AppCommand::ShowLive
    }),
    anywhere(
        Group::Watch,
        "memory",
        "Show or hide the memory graph",
        &[ctrl(Key::M)],
        || AppCommand::Desktop(DesktopCommand::ToggleMemory),
    ),
    anywhere(Group::Pages, "watch", "Picture", &[ctrl(Key::Num1)], || {
        AppCommand::ShowPage(Page::Watch)
    }),
    anywhere(
        Group::Pages,
        "models",
        "Models",
        &[ctrl_shift(Key::M)],
        || AppCommand::ShowPage(Page::Models),
    ),
    anywhere(Group::Pages, "first-steps", "First steps", &[], || {
        AppCommand::ShowPage(Page::Welcome)
    }),
    anywhere(
        Group::Pages,
        "gallery",
        "Gallery",
        &[ctrl(Key::Num2)],
        || AppCommand::ShowPage(Page::Gallery),
    ),
    anywhere(
        Group::Pages,
        "settings",
        "Settings",
        &[ctrl(Key::Comma)],
        || AppCommand::ShowPage(Page::Settings),
    ),
    anywhere(
        Group::Pages,
        "doctor",
        "Doctor",
        &[ctrl_shift(Key::D)],
        || AppCommand::ShowPage(Page::Doctor),
    ),
    anywhere(
        Group::Window,
        "palette",
        "All commands",
        &[ctrl(Key::K), ctrl_shift(Key::P)],
        || AppCommand::Desktop(DesktopCommand::TogglePalette),
    ),
    anywhere(
        Group::Window,
        "shortcuts",
        "Keyboard shortcuts",
        &[key(Key::F1)],
        || AppCommand::Desktop(DesktopCommand::ToggleShortcuts),
    ),
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
        name: "Close what lies uppermost",
        group: Group::Window,
        scope: Scope::Idle,
        keys: &[key(Key::Escape)],
        command: || AppCommand::Desktop(DesktopCommand::Back),
    },
    anywhere(
        Group::Window,
        "larger",
        "Larger",
        &[ctrl(Key::Plus), ctrl(Key::Equals)],
        || AppCommand::Settings(SettingsCommand::Larger),
    ),
    anywhere(
        Group::Window,
        "smaller",
        "Smaller",
        &[ctrl(Key::Minus)],
        || AppCommand::Settings(SettingsCommand::Smaller),
    ),
    anywhere(
        Group::Window,
        "normal-size",
        "Normal size",
        &[ctrl(Key::Num0)],
        || AppCommand::Settings(SettingsCommand::NormalSize),
    ),
    anywhere(
        Group::Window,
        "theme",
        "Switch between darkroom and daylight",
        &[ctrl_shift(Key::L)],
        || AppCommand::Settings(SettingsCommand::SwitchTheme),
    ),
    anywhere(
        Group::Window,
        "settings-file",
        "Open settings file",
        &[],
        || AppCommand::Settings(SettingsCommand::OpenFile),
    ),
    anywhere(Group::Window, "quit", "Quit", &[ctrl(Key::Q)], || {
        AppCommand::Desktop(DesktopCommand::Quit)
    }),
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
        Key::OpenBracket => "[",
        Key::CloseBracket => "]",
        other => other.name(),
    });
    text
}

impl App {
    /// Takes the keys of commands away before any field sees them.
    pub(super) fn take_shortcuts(&mut self, ctx: &Context) {
        let is_typing = self.session.had_focus || ctx.memory(|memory| memory.focused().is_some());
        let is_below = self.session.is_covered(ctx);
        let is_watching = self.session.page == Page::Watch;
        // Those with Shift first: a key without it counts with it too.
        let mut ordered: Vec<&Shortcut> = SHORTCUTS.iter().collect();
        ordered.sort_by_key(|shortcut| !shortcut.keys.iter().any(|keys| keys.modifiers.shift));
        for shortcut in ordered {
            let counts = match shortcut.scope {
                Scope::Anywhere => true,
                Scope::Prompt => ctx.memory(|memory| memory.has_focus(prompt::field_id())),
                Scope::Idle => !is_typing && !is_below,
                Scope::Watching => !is_typing && !is_below && is_watching,
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
        assert_eq!(keys_text(key(Key::OpenBracket)), "[");
        assert_eq!(explained("Make it", "generate"), "Make it (Ctrl+Enter)");
        assert_eq!(explained("Swap", "swap"), "Swap");
    }
}

//! Table of all commands with a name or key: used for handling keys, tooltips, the list of shortcuts and the command
//! palette.
//!
//! Commands are executed elsewhere.

use egui::{Event, Key, KeyboardShortcut, Modifiers};
use safelight_core::finish::NewRate;

use crate::window::prelude::*;
use crate::window::prompt;
use crate::window::viewer::zoom::ZoomLevel;

/// Groups of commands, as in the list of shortcuts.
pub const GROUPS: [&str; 4] = [MAKE, WATCH, PAGES, WINDOW];
const MAKE: &str = "Create";
const WATCH: &str = "View";
const PAGES: &str = "Pages";
const WINDOW: &str = "Window";

/// When its keys count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortcutScope {
    Anywhere,
    Prompt,
    /// Not where texts or masks have their own: while a text is written or a mask is painted.
    Whole,
    /// Not while a field or button has the keyboard.
    Idle,
    /// Like the previous one, while the image is shown.
    Watching,
}

#[derive(Clone, Copy)]
pub struct CommandShortcut {
    pub id: &'static str,
    pub name: &'static str,
    pub group: &'static str,
    pub scope: ShortcutScope,
    /// The first one is shown.
    pub keys: &'static [KeyboardShortcut],
    pub command: fn() -> AppCommand,
}

/// Keys in a list that has the keyboard, and the number of rows that each moves.
pub const LIST_STEPS: [(Key, isize); 4] = [
    (Key::ArrowDown, 1),
    (Key::ArrowUp, -1),
    (Key::PageDown, 8),
    (Key::PageUp, -8),
];
const CTRL_SHIFT: Modifiers = Modifiers::COMMAND.plus(Modifiers::SHIFT);

pub const fn key(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(Modifiers::NONE, key)
}

pub const fn ctrl(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(Modifiers::COMMAND, key)
}

const fn ctrl_shift(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(CTRL_SHIFT, key)
}

pub const fn alt(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(Modifiers::ALT, key)
}

macro_rules! shortcuts {
    ($($group:ident $scope:ident $id:literal $name:literal [$($keys:expr),*] => $command:expr;)*) => {
        pub const SHORTCUTS: &[CommandShortcut] = &[$(CommandShortcut {
            id: $id,
            name: $name,
            group: $group,
            scope: ShortcutScope::$scope,
            keys: &[$($keys),*],
            command: || $command.into(),
        }),*];
    };
}

shortcuts! {
    MAKE Anywhere "generate" "Generate" [ctrl(Key::Enter)] => QueueCommand::Submit;
    MAKE Anywhere "cancel" "Cancel the running job" [ctrl(Key::Period)] => QueueCommand::Cancel(None);
    MAKE Anywhere "pause-queue" "Pause the queue" [] => QueueCommand::PauseAll;
    MAKE Anywhere "go-on" "Resume the queue" [] => QueueCommand::GoOn;
    MAKE Anywhere "clear-queue" "Clear the queue" [] => QueueCommand::Clear;
    MAKE Anywhere "queue" "Show or hide the queue" [ctrl_shift(Key::Q)] => QueueCommand::Toggle;
    MAKE Anywhere "prompt" "Go to the prompt" [ctrl(Key::L)] => PromptCommand::Focus;
    MAKE Prompt "earlier-prompt" "Previous prompt" [alt(Key::ArrowUp)] => PromptCommand::Older;
    MAKE Prompt "later-prompt" "Next prompt" [alt(Key::ArrowDown)] => PromptCommand::Newer;
    MAKE Anywhere "loras" "Add a LoRA" [] => LorasCommand::Open;
    MAKE Anywhere "wildcard-folder" "Open wildcard folder" [] => PromptCommand::OpenWildcardFolder;
    MAKE Anywhere "open" "Choose a start image" [ctrl(Key::O)] => InputsCommand::Pick(InputSlot::Start);
    MAKE Anywhere "seed" "New random seed" [ctrl(Key::R)] => QueueCommand::RollSeed;
    MAKE Anywhere "control" "Add a control image" [] => InputsCommand::Pick(InputSlot::Control);
    MAKE Anywhere "advanced" "Show the advanced settings" [] => AppCommand::ShowAdvanced;
    MAKE Anywhere "paint-mask" "Paint a mask" [] => MaskCommand::Open(MaskOf::Start);
    MAKE Anywhere "swap" "Swap start and end image" [] => InputsCommand::Swap;
    MAKE Anywhere "reset-form" "Reset the form to the model's defaults" [] => LibraryCommand::ResetForm;
    MAKE Anywhere "reload-models" "Search for models again" [key(Key::F5)] => LibraryCommand::Reload;
    MAKE Anywhere "new-tab" "New tab" [ctrl(Key::T)] => TabsCommand::New;
    MAKE Anywhere "next-tab" "Next tab" [ctrl(Key::Tab)] => TabsCommand::Next;
    MAKE Anywhere "previous-tab" "Previous tab" [ctrl_shift(Key::Tab)] => TabsCommand::Previous;
    MAKE Anywhere "close-tab" "Close tab" [] => TabsCommand::Close(None);
    MAKE Anywhere "clear-form" "Clear form" [] => AppCommand::ClearForm;
    WATCH Watching "play" "Play or pause" [key(Key::Space)] => PlayerCommand::Toggle;
    WATCH Watching "previous-frame" "Previous frame" [key(Key::ArrowLeft)] => PlayerCommand::Step(-1);
    WATCH Watching "next-frame" "Next frame" [key(Key::ArrowRight)] => PlayerCommand::Step(1);
    WATCH Watching "first-frame" "First frame" [key(Key::Home)] => PlayerCommand::ShowFrame(0);
    WATCH Watching "last-frame" "Last frame" [key(Key::End)] => PlayerCommand::ShowFrame(usize::MAX);
    WATCH Watching "trim-start" "Trim: play from this frame" [key(Key::I)] => PlayerCommand::TrimHere(true);
    WATCH Watching "trim-end" "Trim: play to this frame" [key(Key::O)] => PlayerCommand::TrimHere(false);
    WATCH Watching "reset-trim" "Trim: play all frames again" [] => PlayerCommand::ResetTrim;
    WATCH Watching "export" "Export video to a chosen place" [] => PlayerCommand::Export(None);
    WATCH Watching "repeat" "Change repeat: loop, back and forth, play once" [key(Key::L)] => PlayerCommand::NextRepeat;
    WATCH Watching "mute" "Mute or unmute" [key(Key::M)] => PlayerCommand::ToggleMute;
    WATCH Watching "full-view" "Full screen" [key(Key::F)] => PlayerCommand::ToggleFull;
    WATCH Anywhere "full-screen" "Full screen, also while a field has the keyboard" [key(Key::F11)]
        => PlayerCommand::ToggleFull;
    WATCH Watching "fit" "Zoom to fit" [key(Key::Num0)] => PlayerCommand::Zoom(ZoomLevel::Fit);
    WATCH Watching "own-size" "Zoom to 100 %" [key(Key::Num1)] => PlayerCommand::OwnSize;
    WATCH Watching "more-of-b" "Compare: show more of B" [key(Key::OpenBracket)] => PlayerCommand::MoveDivider(-0.05);
    WATCH Watching "more-of-a" "Compare: show more of A" [key(Key::CloseBracket)] => PlayerCommand::MoveDivider(0.05);
    WATCH Watching "save-frame" "Save this frame" [key(Key::S)] => PlayerCommand::SaveFrame;
    WATCH Watching "copy-frame" "Copy this frame" [key(Key::C)] => PlayerCommand::CopyFrame;
    WATCH Watching "continue-from-frame" "Use frame as start image" [] => PlayerCommand::UseFrame(InputSlot::Start);
    WATCH Watching "end-on-frame" "Use frame as end image" [] => PlayerCommand::UseFrame(InputSlot::End);
    WATCH Watching "start-from-last" "Use last frame as start image" [] => PlayerCommand::UseEnd(InputSlot::Start, true);
    WATCH Watching "end-on-first" "Use first frame as end image" [] => PlayerCommand::UseEnd(InputSlot::End, false);
    WATCH Anywhere "upscale" "Upscale ×2" [] => PlayerCommand::Finish(PostprocessAction::Upscale(2));
    WATCH Anywhere "interpolate" "Interpolate frames ×2" []
        => PlayerCommand::Finish(PostprocessAction::Frames(NewRate::Times(2)));
    WATCH Anywhere "depth" "Depth map" [] => PlayerCommand::Finish(PostprocessAction::Depth);
    WATCH Watching "delete" "Delete what is shown" [key(Key::Delete)] => PlayerCommand::Delete;
    WATCH Anywhere "copy-path" "Copy path" [] => PlayerCommand::CopyPath;
    WATCH Anywhere "live" "Show the running job" [] => PlayerCommand::ShowLive;
    WATCH Anywhere "memory" "Show or hide the memory graph" [ctrl(Key::M)] => DesktopCommand::ToggleMemory;
    PAGES Anywhere "watch" "Image" [ctrl(Key::Num1)] => AppCommand::Show(MainPage::Watch);
    PAGES Anywhere "models" "Models" [ctrl_shift(Key::M)] => AppCommand::Show(MainPage::Models);
    PAGES Anywhere "first-steps" "First steps" [] => AppCommand::Show(MainPage::Welcome);
    PAGES Anywhere "gallery" "Gallery" [ctrl(Key::Num2)] => AppCommand::Show(MainPage::Gallery);
    PAGES Anywhere "downloads" "Downloads" [ctrl(Key::Num3)] => AppCommand::Show(MainPage::Downloads);
    PAGES Anywhere "settings" "Settings" [ctrl(Key::Comma)] => AppCommand::Show(MainPage::Settings);
    PAGES Anywhere "doctor" "Doctor" [ctrl_shift(Key::D)] => AppCommand::Show(MainPage::Doctor);
    WINDOW Anywhere "palette" "All commands" [ctrl(Key::K), ctrl_shift(Key::P)] => PaletteCommand::Toggle;
    WINDOW Anywhere "shortcuts" "Keyboard shortcuts" [key(Key::F1)] => PaletteCommand::ToggleShortcuts;
    WINDOW Idle "shortcuts-by-question" "Keyboard shortcuts, while nothing is typed" [key(Key::Questionmark)]
        => PaletteCommand::ToggleShortcuts;
    WINDOW Whole "undo" "Undo" [ctrl(Key::Z)] => AppCommand::Undo(None);
    WINDOW Whole "redo" "Redo" [ctrl_shift(Key::Z), ctrl(Key::Y)] => AppCommand::Redo;
    WINDOW Idle "back" "Close or go back" [key(Key::Escape)] => DesktopCommand::Back;
    WINDOW Anywhere "larger" "Larger interface" [ctrl(Key::Plus), ctrl(Key::Equals)] => SettingsCommand::Scale(Some(0.1));
    WINDOW Anywhere "smaller" "Smaller interface" [ctrl(Key::Minus)] => SettingsCommand::Scale(Some(-0.1));
    WINDOW Anywhere "normal-size" "Interface at normal size" [ctrl(Key::Num0)] => SettingsCommand::Scale(None);
    WINDOW Anywhere "theme" "Theme: switch between dark and light" [ctrl_shift(Key::L)]
        => SettingsCommand::SwitchTheme;
    WINDOW Anywhere "settings-file" "Open settings file" [] => SettingsCommand::OpenFile;
    WINDOW Anywhere "quit" "Quit" [ctrl(Key::Q)] => DesktopCommand::Quit;
}

pub fn shortcut(id: &str) -> Option<&'static CommandShortcut> {
    SHORTCUTS.iter().find(|shortcut| shortcut.id == id)
}

/// Explanation followed by the command's keys: `Make the video (Ctrl+Enter)`.
pub fn explained(hover: &str, id: &str) -> String {
    match shortcut(id).and_then(|shortcut| shortcut.keys.first()) {
        Some(keys) => format!("{hover} ({})", keys_text(*keys)),
        None => hover.to_owned(),
    }
}

/// `Ctrl+Shift+P`, as labelled on keyboards.
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

/// Takes the keys of commands away before any field sees them. How often Generate was pressed: that is carried out after
/// the field has taken what was typed just before.
pub(super) fn take_shortcuts(is_below: bool, cx: &mut AppContext) -> usize {
    let ctx = cx.ctx.clone();
    let mut num_submits = 0;
    let is_typing = cx.drawn.had_focus || ctx.memory(|memory| memory.focused().is_some());
    let is_watching = cx.page == MainPage::Watch;
    ctx.input_mut(|input| {
        // A key that is held throws one result away, and makes one, not one after the other.
        input.events.retain(|event| {
            !is_repeated(event, Key::Enter) && (is_typing || !is_repeated(event, Key::Delete))
        });
    });
    // Those with Shift first: a key without it counts with it too.
    let mut ordered: Vec<&CommandShortcut> = SHORTCUTS.iter().collect();
    ordered.sort_by_key(|shortcut| !shortcut.keys.iter().any(|keys| keys.modifiers.shift));
    for shortcut in ordered {
        let counts = match shortcut.scope {
            ShortcutScope::Anywhere => true,
            ShortcutScope::Prompt => ctx.memory(|memory| memory.has_focus(prompt::field_id())),
            ShortcutScope::Whole => {
                !ctx.text_edit_focused() && cx.page != MainPage::Mask && !is_below
            }
            ShortcutScope::Idle => !is_typing && !is_below,
            ShortcutScope::Watching => !is_typing && !is_below && is_watching,
        };
        if !counts {
            continue;
        }
        // On a busy machine a frame takes longer than two presses.
        let times: usize = ctx.input_mut(|input| {
            let pressed = |keys: &KeyboardShortcut| {
                input.count_and_consume_key(keys.modifiers, keys.logical_key)
            };
            shortcut.keys.iter().map(pressed).sum()
        });
        for _ in 0..times {
            match (shortcut.command)() {
                AppCommand::Queue(QueueCommand::Submit) => num_submits += 1,
                command => cx.push(command),
            }
        }
    }
    num_submits
}

/// Returns whether it is a repeat of this key. Enter only counts with Ctrl: without, it is text.
fn is_repeated(event: &Event, wanted: Key) -> bool {
    matches!(
        event,
        Event::Key { key, pressed: true, repeat: true, modifiers, .. }
            if *key == wanted && (wanted != Key::Enter || modifiers.command)
    )
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

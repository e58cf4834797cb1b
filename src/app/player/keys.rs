//! The keys of the player.
//!
//! They act while nothing is typed and no dialog is open; what they do is the commands'.

use egui::{Context, Key, Modifiers};

use crate::app::App;
use crate::app::commands::AppCommand;
use crate::app::player::commands::PlayerCommand;
use crate::app::player::zoom::Zoom;
use crate::app::state::{Page, Viewing};

impl App {
    pub(in crate::app) fn take_player_keys(&mut self, ctx: &Context) {
        let is_typing = ctx.memory(|memory| memory.focused().is_some());
        let is_elsewhere = self.session.page != Page::Watch;
        if is_typing || is_elsewhere {
            return;
        }
        let pressed = |key| ctx.input_mut(|input| input.consume_key(Modifiers::NONE, key));
        let mut playback = self.state.playback;
        let playback = pressed(Key::L).then(|| {
            playback.repeat = playback.repeat.next();
            PlayerCommand::SetPlayback(playback)
        });
        let is_full = self.session.watch.is_full;
        let full = pressed(Key::F).then_some(PlayerCommand::ShowFull(!is_full));
        let leave = self.can_leave().filter(|_| pressed(Key::Escape));
        let of_player = [playback, full, leave].into_iter().flatten();
        self.commands.extend(of_player.map(AppCommand::Player));
        let keys = [
            (Key::Home, AppCommand::ShowFrame(0)),
            (Key::End, AppCommand::ShowFrame(usize::MAX)),
        ];
        for (key, command) in keys {
            if pressed(key) {
                self.commands.push(command);
            }
        }
        let watch = &mut self.session.watch;
        if pressed(Key::Num0) {
            watch.zoom = Zoom::Fit;
        }
        if pressed(Key::Num1) {
            watch.zoom = Zoom::own_size(ctx.pixels_per_point());
        }
        if let Some(compare) = &mut watch.compare {
            for (key, by) in [(Key::OpenBracket, -0.05), (Key::CloseBracket, 0.05)] {
                if pressed(key) {
                    compare.divider = (compare.divider + by).clamp(0.0, 1.0);
                }
            }
        }
    }

    /// What Escape leaves.
    fn can_leave(&self) -> Option<PlayerCommand> {
        if self.session.watch.is_full {
            Some(PlayerCommand::ShowFull(false))
        } else if self.session.viewing == Viewing::Compare {
            Some(PlayerCommand::LeaveCompare)
        } else {
            None
        }
    }
}

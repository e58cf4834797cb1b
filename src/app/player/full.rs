//! The picture on the whole screen: what the window is told when that begins and ends.
//!
//! What is shown then is the panels'.

use egui::ViewportCommand;

use crate::app::cx::Cx;
use crate::app::state::Page;

/// What is known of the window's size while the picture has the whole screen.
#[derive(Default)]
pub(super) struct FullScreen {
    is_on: bool,
    /// The window had the whole screen before, and keeps it.
    was_before: bool,
    /// The desktop has made the window that large.
    is_seen: bool,
}

impl FullScreen {
    /// Does to the window what the picture needs. Gives whether the picture has the whole screen still: the desktop's
    /// own keys can end that, and so does another page.
    pub fn follow(&mut self, is_wanted: bool, cx: &Cx) -> bool {
        let is_wanted = is_wanted && cx.page == Page::Watch;
        let has_screen = cx.ctx.input(|input| input.viewport().fullscreen);
        if is_wanted == self.is_on {
            let is_ended = self.is_seen && has_screen == Some(false);
            self.is_seen |= self.is_on && has_screen == Some(true);
            if is_ended {
                *self = Self::default();
            }
            return self.is_on;
        }
        self.is_on = is_wanted;
        self.is_seen = false;
        if is_wanted {
            self.was_before = has_screen == Some(true);
        }
        if !self.was_before {
            let command = ViewportCommand::Fullscreen(is_wanted);
            cx.ctx.send_viewport_cmd(command);
        }
        is_wanted
    }
}

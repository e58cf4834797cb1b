//! Which commands can be carried out at this moment: the palette offers no others.
//!
//! What they do is decided where commands are run.

use safelight_core::model::InputUse;

use crate::app::App;
use crate::app::inputs::{Slot, Source};
use crate::app::player::Viewing;
use crate::app::shortcuts::{Scope, Shortcut};
use crate::app::state::Page;

impl App {
    /// Whether the command would do something now.
    pub(super) fn can_run(&self, shortcut: &Shortcut) -> bool {
        let (cx, queue, watch) = (&self.cx, &self.queue, &self.watch);
        let model = cx.model();
        let is_shown = cx.page == Page::Watch && !watch.is_empty(queue);
        let has_frame = matches!(watch.viewing, Viewing::Result(_) | Viewing::File);
        let is_running = queue.running.is_some();
        let has_idle = !queue.waiting.is_empty() || !queue.stopped.is_empty();
        match shortcut.id {
            "generate" => model.is_some() && cx.field_errors.is_empty(),
            "cancel" | "live" => is_running,
            "pause-queue" => !queue.is_paused && (is_running || has_idle),
            "go-on" => queue.is_paused,
            "clear-queue" => has_idle,
            "loras" | "seed" | "reset-form" => model.is_some(),
            "open" => model.is_some_and(|spec| {
                spec.start_image.is_possible() || spec.clip_strength().is_some()
            }),
            "paint-mask" => {
                let start = self.inputs.get(Slot::Start);
                start.is_some_and(|start| matches!(start.source, Source::Picture(_)))
                    && model.is_some_and(|spec| spec.mask != InputUse::No)
            }
            "swap" => {
                self.inputs.can_swap() && model.is_some_and(|spec| spec.end_image.is_possible())
            }
            "more-of-a" | "more-of-b" => is_shown && watch.viewing == Viewing::Compare,
            "save-frame" | "copy-frame" | "continue-from-frame" | "end-on-frame" | "copy-path" => {
                is_shown && has_frame
            }
            "undo" => cx.undo.last().is_some(),
            "settings-file" => cx.paths.is_some(),
            _ if shortcut.scope == Scope::Watching => is_shown,
            _ => true,
        }
    }
}

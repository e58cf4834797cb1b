//! Which commands can be carried out at this moment: the palette offers no others.
//!
//! What they do is decided where commands are run.

use crate::app::App;
use crate::app::inputs::MaskOf;
use crate::app::player::Viewing;
use crate::app::shortcuts::{Scope, Shortcut};
use crate::app::state::Page;

impl App {
    /// Whether a mask can be painted over this now.
    pub fn can_paint_mask(&self, of: MaskOf) -> bool {
        self.masking.is_free() && self.masking.can_open(of, &self.inputs, &self.cx)
    }

    /// Whether a mask of this is painted and in no place yet: the jobs get it.
    pub fn is_being_masked(&self, of: MaskOf) -> bool {
        let painted = self.masking.pending(&self.inputs, &self.cx);
        painted.is_some_and(|(painted, _)| painted == of)
    }

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
            "paint-mask" => self.can_paint_mask(MaskOf::Start),
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

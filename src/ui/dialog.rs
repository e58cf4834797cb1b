//! What lies over the whole window until it is answered or closed.
//!
//! What it asks is its caller's.

use egui::{Context, Frame, Id, Margin, Modal, ModalResponse, Ui};

use crate::ui::theme;

/// So wide, or as wide as the window has room for a question over it.
pub fn modal_width(ctx: &Context, wanted: f32) -> f32 {
    wanted.min(ctx.content_rect().width() - 4.0 * theme::GAP)
}

/// Something over the window that is to be done or closed before all else, so wide where there is room.
pub fn modal<R>(
    ctx: &Context,
    id: &str,
    (width, margin): (f32, i8),
    contents: impl FnOnce(&mut Ui) -> R,
) -> ModalResponse<R> {
    let frame = Frame::popup(&ctx.global_style()).inner_margin(Margin::same(margin));
    let width = modal_width(ctx, width);
    Modal::new(Id::unique(id)).frame(frame).show(ctx, |ui| {
        ui.set_width(width);
        contents(ui)
    })
}

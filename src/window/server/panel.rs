//! The server's address below its settings: to open, to copy, and as a code for a phone's camera.

use qrcode::{Color, QrCode};

use crate::window::layout::prelude::*;

/// Setting below which the address is shown.
pub(crate) const KEY: &str = "server.reach";
/// Points of a module of the code, and modules around it.
const MODULE: f32 = 4.0;
const QUIET: usize = 4;

pub(crate) fn address_ui(ui: &mut Ui, view: &UiContext<'_>) {
    match &view.app.server.running {
        None => {}
        Some(Err(err)) => {
            wide_note(ui, &err.summary, NoteTone::Warning);
        }
        Some(Ok(server)) => {
            let page = server.page.clone();
            ui.horizontal_wrapped(|ui| {
                ui.weak("Serves at");
                let shown = page.split('?').next().unwrap_or_default();
                ui.hyperlink_to(shown, &page).on_hover_text("Open the page");
                let copy = Button::new(with_icon(icons::COPY, "Copy address"));
                let hover = "With the token, where it needs one";
                if pressed(ui.add(copy), hover, "Copy address") {
                    ui.ctx().copy_text(page.clone());
                }
            });
            if !server.address.ip().is_loopback() {
                code_ui(ui, &page);
                small_line(ui, "Open it on a phone: the code holds the token");
            }
        }
    }
}

/// Dark modules on white, as cameras expect it in both themes.
fn code_ui(ui: &mut Ui, text: &str) {
    let Ok(code) = QrCode::new(text) else {
        return;
    };
    let width = code.width();
    let side = (width + 2 * QUIET) as f32 * MODULE;
    let (area, response) = ui.allocate_exact_size(vec2(side, side), egui::Sense::hover());
    ui.painter().rect_filled(area, 4.0, theme::CODE_LIGHT);
    for (index, colour) in code.to_colors().into_iter().enumerate() {
        if colour == Color::Dark {
            let (column, row) = (index % width + QUIET, index / width + QUIET);
            let at = area.min + vec2(column as f32, row as f32) * MODULE;
            let module = Rect::from_min_size(at, vec2(MODULE, MODULE));
            ui.painter().rect_filled(module, 0.0, theme::CODE_DARK);
        }
    }
    response.on_hover_text("The address with the token, for a phone's camera");
}

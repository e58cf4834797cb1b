//! The header above the form: labelled buttons that lead to the pages, with badges for what goes on there.

use egui::{
    Align2, Color32, CornerRadius, FontId, Galley, Rect, Response, Role, Sense, Ui, WidgetInfo,
    pos2, vec2,
};

use crate::app::commands::{AppCommand, SettingsCommand};
use crate::app::shortcuts;
use crate::app::state::{Page, PanelPlace};
use crate::ui::widgets::{self, palette};
use crate::ui::{View, downloads, icons, queue, theme};

const DOWNLOADS: &str = "Downloads";

pub(super) fn header_ui(ui: &mut Ui, view: &mut View<'_>) {
    ui.horizontal(|ui| {
        let accent = palette(ui).accent;
        widgets::sign(ui, icons::APERTURE, theme::SIGN_SIZE, accent);
        widgets::at_right(ui, "header", |ui| {
            ui.spacing_mut().item_spacing.x = 1.0;
            queue::panel::header_button(ui, view);
            let explanation = "All results: search them, look at them again, make more of them";
            page_button(
                ui,
                view,
                Page::Gallery,
                (icons::IMAGES, "Gallery"),
                explanation,
            );
            downloads_button(ui, view);
            let explanation = "Check this machine: GPU, memory, libtorch, speed, models";
            page_button(
                ui,
                view,
                Page::Doctor,
                (icons::STETHOSCOPE, "Doctor"),
                explanation,
            );
            let explanation = "Device, folders and appearance";
            page_button(
                ui,
                view,
                Page::Settings,
                (icons::GEAR, "Settings"),
                explanation,
            );
            theme_button(ui, view);
        });
    });
}

/// Opens a page; pressed again, it goes back to what is watched.
fn page_button(
    ui: &mut Ui,
    view: &mut View<'_>,
    page: Page,
    (icon, name): (char, &str),
    explanation: &str,
) {
    let is_open = is_open(view, page);
    let explanation = shortcuts::explained(explanation, &name.to_lowercase());
    if button(ui, is_open, (icon, name), name, &explanation).clicked() {
        show(view, page, is_open);
    }
}

fn is_open(view: &View<'_>, page: Page) -> bool {
    let is_covered = [view.drawn.queue, view.app.cx.drawn.memory].contains(&PanelPlace::Over);
    view.app.cx.page == page && !is_covered
}

fn show(view: &mut View<'_>, page: Page, is_open: bool) {
    view.push(AppCommand::Show(if is_open { Page::Watch } else { page }));
}

/// With how far a download is, or how many came to a halt.
fn downloads_button(ui: &mut Ui, view: &mut View<'_>) {
    let (percent, num_stopped) = downloads::state(view);
    let is_open = is_open(view, Page::Downloads);
    let explanation = downloads_hover(percent, num_stopped);
    let explanation = shortcuts::explained(&explanation, "downloads");
    let face = (icons::DOWNLOAD, DOWNLOADS);
    let response = button(ui, is_open, face, DOWNLOADS, &explanation);
    let palette = palette(ui);
    if let Some(percent) = percent {
        let text = format!("{percent}%");
        badge(ui, response.rect, &text, palette.accent);
    } else if num_stopped > 0 {
        let text = num_stopped.min(99).to_string();
        badge(ui, response.rect, &text, palette.accent);
    }
    if response.clicked() {
        show(view, Page::Downloads, is_open);
    }
}

/// Hover text of the button in the header.
fn downloads_hover(percent: Option<u32>, num_stopped: usize) -> String {
    match (percent, num_stopped) {
        (Some(percent), _) => format!("A model is being downloaded: {percent} %"),
        (None, 0) => "Models that are being downloaded".to_owned(),
        (None, 1) => "1 download was paused or has failed".to_owned(),
        (None, count) => format!("{count} downloads were paused or have failed"),
    }
}

fn theme_button(ui: &mut Ui, view: &mut View<'_>) {
    let (face, name, explanation) = if ui.visuals().dark_mode {
        (
            (icons::SUN, "Light"),
            "Light theme",
            "Switch to the light theme",
        )
    } else {
        (
            (icons::MOON, "Dark"),
            "Dark theme",
            "Switch to the dark theme",
        )
    };
    let explanation = shortcuts::explained(explanation, "theme");
    if button(ui, false, face, name, &explanation).clicked() {
        view.push(SettingsCommand::SwitchTheme);
    }
}

/// A button of the header, an icon with its label below. `name` is what a screen reader says.
pub(super) fn button(
    ui: &mut Ui,
    is_on: bool,
    (icon, label): (char, &str),
    name: &str,
    explanation: &str,
) -> Response {
    let palette = palette(ui);
    let colour = if is_on { palette.amber } else { palette.text };
    let of_size = |text: String, size, colour| {
        let font = FontId::proportional(size);
        ui.painter().layout_no_wrap(text, font, colour)
    };
    let label = of_size(
        label.to_owned(),
        theme::HEADER_LABEL,
        if is_on { colour } else { palette.weak },
    );
    let icon = of_size(icon.to_string(), theme::HEADER_ICON, colour);
    let width = label.size().x + 2.0 * theme::HEADER_BUTTON_MARGIN;
    let size = vec2(width, theme::HEADER_BUTTON_HEIGHT);
    let (rect, response) = ui.allocate_exact_size(size, Sense::click());
    response.widget_info(|| WidgetInfo::selected(Role::Button, ui.is_enabled(), is_on, name));
    if is_on || response.hovered() || response.has_focus() {
        let fill = if is_on {
            palette.raised
        } else {
            palette.hovered
        };
        let corners = CornerRadius::same(theme::RADIUS);
        ui.painter().rect_filled(rect, corners, fill);
    }
    let centre = rect.center().x;
    let at = |galley: &Galley, y: f32| pos2(centre - galley.size().x / 2.0, y);
    let (icon_at, label_at) = (
        at(&icon, rect.top() + 3.0),
        at(&label, rect.bottom() - label.size().y - 2.0),
    );
    ui.painter().galley(icon_at, icon, colour);
    ui.painter().galley(label_at, label, colour);
    response.on_hover_text(explanation)
}

/// A few letters in the upper right corner of a button.
pub(super) fn badge(ui: &Ui, button: Rect, text: &str, fill: Color32) {
    let font = FontId::proportional(theme::BADGE_TEXT);
    let ink = palette(ui).on_accent;
    let galley = ui.painter().layout_no_wrap(text.to_owned(), font, ink);
    let width = (galley.size().x + 7.0).max(theme::BADGE_HEIGHT);
    let size = vec2(width, theme::BADGE_HEIGHT);
    let rect = Align2::RIGHT_TOP.align_size_within_rect(size, button);
    let corners = CornerRadius::same((theme::BADGE_HEIGHT / 2.0) as u8);
    ui.painter().rect_filled(rect, corners, fill);
    let at = rect.center() - galley.size() / 2.0;
    ui.painter().galley(at, galley, ink);
}

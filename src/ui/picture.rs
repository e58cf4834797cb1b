//! The start picture: a place to drop one, its thumbnail, and how it is fitted.

use egui::{
    Align2, Area, Color32, ComboBox, CornerRadius, FontId, Frame, Image, Margin, Order, RichText,
    Sense, Stroke, Ui, vec2,
};
use safelight_core::job::Fit;

use super::widgets::{field_error, group_label, icon_button, palette, row, with_icon};
use super::{View, icons, theme};
use crate::app::commands::AppCommand;

const EXPLANATION: &str = "The clip begins with this picture. Drop a file anywhere in the window, paste one, or choose a file";

pub(super) fn picture_ui(ui: &mut Ui, view: &mut View<'_>) {
    let takes_image = view
        .session
        .model(&view.state.form)
        .is_none_or(|spec| spec.start_image.is_possible());
    if !takes_image && view.session.picture.is_none() {
        return;
    }
    group_label(ui, "Start picture", EXPLANATION);
    if view.session.picture.is_some() {
        chosen_ui(ui, view);
    } else {
        drop_zone_ui(ui, view);
    }
    if let Some(message) = view.error_of("image") {
        field_error(ui, &message);
    }
}

fn drop_zone_ui(ui: &mut Ui, view: &mut View<'_>) {
    let palette = palette(ui);
    let text = if view.session.is_opening_picture {
        "Opening the picture…".to_owned()
    } else {
        with_icon(icons::UPLOAD, "Drop a picture here, or choose a file…")
    };
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 46.0), Sense::click());
    let is_busy = view.session.is_picking;
    response.widget_info(|| {
        egui::WidgetInfo::labeled(egui::Role::Button, !is_busy, "Choose a start picture")
    });
    let is_lit = response.hovered() || response.has_focus();
    let colour = if is_lit { palette.amber } else { palette.line };
    ui.painter()
        .rect_filled(rect, CornerRadius::same(theme::RADIUS), palette.field);
    dashed_frame(ui, rect, colour);
    let ink = if is_lit { palette.text } else { palette.weak };
    ui.painter().text(
        rect.center(),
        Align2::CENTER_CENTER,
        text,
        FontId::proportional(13.0),
        ink,
    );
    if response.on_hover_text(EXPLANATION).clicked() && !is_busy {
        view.push(AppCommand::PickPicture);
    }
}

fn dashed_frame(ui: &Ui, rect: egui::Rect, colour: Color32) {
    let rect = rect.shrink(1.0);
    let corners = [
        rect.left_top(),
        rect.right_top(),
        rect.right_bottom(),
        rect.left_bottom(),
        rect.left_top(),
    ];
    ui.painter().extend(egui::Shape::dashed_line(
        &corners,
        Stroke::new(1.0, colour),
        5.0,
        4.0,
    ));
}

fn chosen_ui(ui: &mut Ui, view: &mut View<'_>) {
    let Some(image) = view.session.picture.clone() else {
        return;
    };
    let palette = palette(ui);
    Frame::new()
        .fill(palette.field)
        .corner_radius(CornerRadius::same(theme::RADIUS))
        .inner_margin(Margin::same(8))
        .show(ui, |ui| {
            ui.set_width(ui.available_width());
            ui.horizontal(|ui| {
                let name = image
                    .picture
                    .path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                ui.add(
                    Image::new(&image.thumb)
                        .fit_to_exact_size(egui::Vec2::splat(theme::PICTURE_SIDE))
                        .corner_radius(CornerRadius::same(4))
                        .alt_text(format!("Start picture {name}")),
                );
                ui.vertical(|ui| {
                    ui.add(egui::Label::new(&name).truncate())
                        .on_hover_text(image.picture.path.display().to_string());
                    let size = format!("{} × {} pixels", image.picture.width, image.picture.height);
                    ui.label(RichText::new(size).small().color(palette.weak));
                    ui.horizontal(|ui| {
                        let remove = icon_button(
                            ui,
                            icons::TRASH,
                            "Remove start picture",
                            "Make the clip from the prompt alone",
                        );
                        if remove.clicked() {
                            view.push(AppCommand::RemovePicture);
                        }
                        let other = icon_button(
                            ui,
                            icons::FOLDER_OPEN,
                            "Choose another picture",
                            "Choose another file…",
                        );
                        if other.clicked() && !view.session.is_picking {
                            view.push(AppCommand::PickPicture);
                        }
                    });
                });
            });
        });
    fit_ui(ui, view);
}

fn fit_ui(ui: &mut Ui, view: &mut View<'_>) {
    let explanation = "What happens to a picture of another shape than the clip";
    row(ui, "Fit", explanation, |ui, label| {
        let fit = &mut view.state.form.fit;
        let name = |fit: Fit| match fit {
            Fit::Crop => "Crop around the middle",
            Fit::Stretch => "Stretch to the clip",
        };
        ComboBox::from_id_salt("fit")
            .selected_text(name(*fit))
            .width(ui.available_width())
            .show_ui(ui, |ui| {
                for choice in [Fit::Crop, Fit::Stretch] {
                    ui.selectable_value(fit, choice, name(choice));
                }
            })
            .response
            .labelled_by(label)
            .on_hover_text(explanation);
    });
}

/// While files are held over the window: says what will happen.
pub(super) fn drop_overlay(ui: &Ui, view: &View<'_>) {
    if !view.session.are_files_held {
        return;
    }
    let palette = palette(ui);
    let takes_image = view
        .session
        .model(&view.state.form)
        .is_none_or(|spec| spec.start_image.is_possible());
    let text = if takes_image {
        "Drop it to start the clip from this picture"
    } else {
        "This model makes clips from text alone"
    };
    let rect = ui.ctx().content_rect();
    Area::new(egui::Id::unique("drop overlay"))
        .order(Order::Foreground)
        .fixed_pos(rect.min)
        .interactable(false)
        .show(ui.ctx(), |ui| {
            ui.set_min_size(rect.size());
            let veil = palette.stage.gamma_multiply(0.82);
            ui.painter().rect_filled(rect, CornerRadius::ZERO, veil);
            ui.painter().rect_stroke(
                rect.shrink(14.0),
                CornerRadius::same(theme::CARD_RADIUS),
                Stroke::new(2.0, palette.accent),
                egui::StrokeKind::Inside,
            );
            ui.centered_and_justified(|ui| {
                ui.label(RichText::new(with_icon(icons::IMAGE, text)).size(22.0));
            });
        });
}

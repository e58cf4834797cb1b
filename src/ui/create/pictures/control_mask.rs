//! The place of a control's mask: where it is dropped, chosen, painted and taken away.

use egui::{Align, Button, CornerRadius, Image, Label, Layout, Rect, Sense, Ui, Vec2, vec2};
use safelight_core::gallery::THUMB_SIDE;

use crate::app::commands::{InputsCommand, MaskCommand};
use crate::app::inputs::{Input, MaskOf, Source};
use crate::app::thumbs::Pictured;
use crate::ui::create::pictures::slot::{dashed_frame, tile};
use crate::ui::create::pictures::{
    CLIP_MASK_UNPAINTED, EDIT_MASK_HOVER, REMOVE_PICTURE_HOVER, paint_control_mask_hover,
};
use crate::ui::widgets::{field_hint, field_note, icon_button, palette, row, with_icon};
use crate::ui::{View, icons, theme};

/// Edge of the small picture of a mask.
const MASK_SIDE: f32 = 40.0;
const CONTROL_MASK_HOVER: &str = "Which part of this control is regenerated: white is, black stays. A picture holds for every frame of a clip; a mask that is a clip goes with it frame by frame. Drop a file here, or choose one";

/// Whether a control has a place for a mask: where one counts, or stands there.
fn has_place(view: &View<'_>, index: usize, input: &Input) -> bool {
    let takes = |spec| view.app.inputs.takes_control_mask(index, spec);
    input.control_mask.is_some() || view.model().is_some_and(takes)
}

pub(super) fn control_mask_ui(ui: &mut Ui, view: &mut View<'_>, index: usize, input: &Input) {
    if !has_place(view, index, input) {
        return;
    }
    let hover = CONTROL_MASK_HOVER;
    row(ui, "Mask", hover, |ui, _| {
        let rect = match &input.control_mask {
            Some(mask) => mask_ui(ui, view, index, mask),
            None => empty_ui(ui, view, index),
        };
        let visible = rect.intersect(ui.clip_rect());
        if let Some(place) = view.drawn.control_masks.get_mut(index) {
            *place = visible.is_positive().then_some(visible);
        }
    });
    let is_painted = view.app.is_being_masked(MaskOf::Control(index));
    if input.control_mask.is_none() && is_painted {
        field_hint(ui, "What you painted is used");
    } else if input.control_mask.is_none() && view.app.inputs.needs_control_mask(index) {
        field_note(
            ui,
            "This ControlNet fills a part of its picture: paint which, or drop a mask",
        );
    }
}

/// The mask that there is, with its buttons.
fn mask_ui(ui: &mut Ui, view: &mut View<'_>, index: usize, mask: &Source) -> Rect {
    let drawn = tile(ui).show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.horizontal(|ui| {
            thumb_ui(ui, view, mask);
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                ui.spacing_mut().button_padding.x = theme::ICON_PADDING;
                let number = index + 1;
                let name = format!("Remove the mask of control picture {number}");
                if icon_button(ui, icons::TRASH, &name, REMOVE_PICTURE_HOVER).clicked() {
                    view.push(InputsCommand::RemoveControlMask(index));
                }
                let name = format!("Edit the mask of control picture {number}");
                paint_button(ui, view, index, &name, EDIT_MASK_HOVER);
                ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                    ui.add(Label::new(mask.file_name()).truncate())
                        .on_hover_text(mask.path().display().to_string());
                });
            });
        });
    });
    drawn.response.rect
}

fn thumb_ui(ui: &mut Ui, view: &View<'_>, mask: &Source) {
    let pictured = Pictured::Input(mask.path().to_owned());
    let size = Vec2::splat(MASK_SIDE);
    let Some(Ok(thumb)) = view.app.cx.thumbs.get(pictured, THUMB_SIDE) else {
        ui.allocate_response(size, Sense::hover());
        return;
    };
    let image = Image::new(thumb)
        .fit_to_exact_size(size)
        .corner_radius(CornerRadius::same(4))
        .alt_text(format!("Mask {}", mask.file_name()));
    ui.add(image);
}

/// Where a mask is dropped, or a click asks for its file; beside it the brush.
fn empty_ui(ui: &mut Ui, view: &mut View<'_>, index: usize) -> Rect {
    let number = index + 1;
    let palette = palette(ui);
    let height = ui.spacing().interact_size.y;
    let button = Button::new(with_icon(icons::BRUSH, "Paint"));
    let paint_width = theme::PICTURE_SIDE;
    let place = vec2(
        ui.available_width() - paint_width - ui.spacing().item_spacing.x,
        height,
    );
    let (rect, response) = ui.allocate_exact_size(place, Sense::click());
    let is_busy = view.app.cx.background.is_asking();
    let name = format!("Choose a mask for control picture {number}");
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, !is_busy, &name));
    let is_lit = response.hovered() || response.has_focus();
    let radius = CornerRadius::same(theme::RADIUS);
    ui.painter().rect_filled(rect, radius, palette.field);
    let line = if is_lit { palette.amber } else { palette.line };
    dashed_frame(ui, rect, line);
    let ink = if is_lit { palette.text } else { palette.weak };
    ui.painter().text(
        rect.center(),
        egui::Align2::CENTER_CENTER,
        "Drop a mask…",
        egui::FontId::proportional(theme::DROP_TEXT),
        ink,
    );
    if response.on_hover_text(CONTROL_MASK_HOVER).clicked() && !is_busy {
        view.push(InputsCommand::PickControlMask(index));
    }
    let of = MaskOf::Control(index);
    let can_open = view.app.can_paint_mask(of);
    let painted = ui
        .add_enabled_ui(can_open, |ui| ui.add_sized([paint_width, height], button))
        .inner;
    let explanation = paint_control_mask_hover(view.model());
    let painted = painted
        .on_hover_text(explanation)
        .accessible_name(format!("Paint a mask for control picture {number}"));
    if painted.clicked() {
        view.push(MaskCommand::Open(of));
    }
    rect
}

fn paint_button(ui: &mut Ui, view: &mut View<'_>, index: usize, name: &str, explanation: &str) {
    let of = MaskOf::Control(index);
    let can_open = view.app.can_paint_mask(of);
    ui.add_enabled_ui(can_open, |ui| {
        let button = icon_button(ui, icons::BRUSH, name, explanation);
        let button = button.on_disabled_hover_text(CLIP_MASK_UNPAINTED);
        if button.clicked() {
            view.push(MaskCommand::Open(of));
        }
    });
}

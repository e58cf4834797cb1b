//! The pictures that a clip starts from and ends on: the places that the model has, how pictures are
//! fitted, and what is said while files are held over the window.

use egui::{
    Align, Align2, Area, ComboBox, CornerRadius, Layout, Order, RichText, Stroke, TextStyle, Ui,
    vec2,
};
use safelight_core::catalog::{InputUse, ModelSpec};
use safelight_core::job::Fit;

use super::slot::{Words, slot_ui};
use super::widgets::{group_label, icon_button, palette, row, wide_note, with_icon};
use super::{View, icons, theme};
use crate::app::commands::AppCommand;
use crate::app::inputs::{Slot, takes_both};

pub(super) fn inputs_ui(ui: &mut Ui, view: &mut View<'_>) {
    view.session.inputs.rects = [None; 2];
    let slots: Vec<Slot> = Slot::ALL
        .into_iter()
        .filter(|slot| is_shown(view, *slot))
        .collect();
    match slots.as_slice() {
        [] => return,
        &[slot] => {
            heading_ui(ui, view, slot);
            slot_ui(ui, view, slot, false);
        }
        slots => pair_ui(ui, view, slots),
    }
    if !view.session.inputs.is_empty() {
        fit_ui(ui, view);
    }
    notes_ui(ui, view, &slots);
    ui.add_space(theme::GAP - theme::SMALL_GAP);
}

/// A place is there when the model takes it, or when something stands in it.
fn is_shown(view: &View<'_>, slot: Slot) -> bool {
    view.session.inputs.get(slot).is_some() || input_use(view, slot).is_possible()
}

fn input_use(view: &View<'_>, slot: Slot) -> InputUse {
    let of = |spec: &ModelSpec| match slot {
        Slot::Start => spec.start_image,
        Slot::End => spec.end_image,
    };
    // Before the models are known, a picture can be dropped already.
    let unknown = match slot {
        Slot::Start => InputUse::Optional,
        Slot::End => InputUse::No,
    };
    view.session.model(&view.state.form).map_or(unknown, of)
}

/// The model cannot do without, and there is none.
fn is_missing(view: &View<'_>, slot: Slot) -> bool {
    input_use(view, slot) == InputUse::Required && view.session.inputs.get(slot).is_none()
}

fn heading_ui(ui: &mut Ui, view: &View<'_>, slot: Slot) {
    let words = Words::of(slot);
    let is_clip = slot == Slot::Start && view.session.inputs.clip().is_some();
    let heading = if is_clip {
        "Continue this clip"
    } else {
        words.heading
    };
    ui.horizontal(|ui| {
        group_label(ui, heading, words.explanation);
        if is_missing(view, slot) {
            let amber = palette(ui).amber;
            ui.label(RichText::new("needed").small().color(amber));
        }
    });
}

fn pair_ui(ui: &mut Ui, view: &mut View<'_>, slots: &[Slot]) {
    ui.columns(slots.len(), |columns| {
        for (ui, &slot) in columns.iter_mut().zip(slots) {
            let size = vec2(ui.available_width(), theme::HEADING_HEIGHT);
            ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
                ui.set_min_size(size);
                ui.spacing_mut().button_padding.y = 2.0;
                heading_ui(ui, view, slot);
                if slot == Slot::End {
                    ui.with_layout(Layout::right_to_left(Align::Center), |ui| swap_ui(ui, view));
                }
            });
            slot_ui(ui, view, slot, true);
        }
    });
}

fn swap_ui(ui: &mut Ui, view: &mut View<'_>) {
    let explanation = if view.session.inputs.clip().is_some() {
        "A clip can only stand at the start"
    } else {
        "Let start and end change places"
    };
    let can_swap = view.session.inputs.can_swap();
    ui.add_enabled_ui(can_swap, |ui| {
        let button = icon_button(ui, icons::SWAP, "Swap pictures", explanation);
        if button.on_disabled_hover_text(explanation).clicked() {
            view.push(AppCommand::SwapInputs);
        }
    });
}

/// What is wrong with them or will be done to them; what is only missing yet is no mistake.
fn notes_ui(ui: &mut Ui, view: &View<'_>, slots: &[Slot]) {
    let palette = palette(ui);
    let missing: Vec<&str> = slots
        .iter()
        .filter(|slot| is_missing(view, **slot))
        .map(|slot| field_of(*slot))
        .collect();
    for field in ["image", "extend", "last-image"] {
        if let Some(message) = view.error_of(field) {
            let colour = if missing.contains(&field) {
                palette.amber
            } else {
                palette.error
            };
            wide_note(ui, &message, colour);
        }
        if let Some(message) = view.notice_of(field) {
            wide_note(ui, &message, palette.amber);
        }
    }
}

fn field_of(slot: Slot) -> &'static str {
    match slot {
        Slot::Start => "image",
        Slot::End => "last-image",
    }
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
    if view.session.held.is_none() {
        return;
    }
    let palette = palette(ui);
    let rect = ui.ctx().content_rect();
    Area::new(egui::Id::unique("drop overlay"))
        .order(Order::Foreground)
        .fixed_pos(rect.min)
        .interactable(false)
        .show(ui.ctx(), |ui| {
            ui.set_min_size(rect.size());
            let veil = palette.stage.gamma_multiply(0.82);
            ui.painter().rect_filled(rect, CornerRadius::ZERO, veil);
            let frame = |ui: &Ui, rect, radius| {
                ui.painter().rect_stroke(
                    rect,
                    CornerRadius::same(radius),
                    Stroke::new(2.0, palette.accent),
                    egui::StrokeKind::Inside,
                );
            };
            frame(ui, rect.shrink(14.0), theme::CARD_RADIUS);
            let places = Slot::ALL.into_iter().zip(view.session.inputs.rects);
            for (slot, place) in places {
                let Some(place) = place else {
                    continue;
                };
                let radius = CornerRadius::same(theme::RADIUS);
                ui.painter().rect_filled(place, radius, palette.stage);
                frame(ui, place, theme::RADIUS);
                ui.painter().text(
                    place.center(),
                    Align2::CENTER_CENTER,
                    Words::of(slot).heading,
                    TextStyle::Body.resolve(ui.style()),
                    palette.text,
                );
            }
            ui.centered_and_justified(|ui| {
                let text = with_icon(icons::IMAGE, drop_text(view));
                ui.label(RichText::new(text).size(22.0));
            });
        });
}

fn drop_text(view: &View<'_>) -> &'static str {
    let spec = view.session.model(&view.state.form);
    if spec.is_some_and(|spec| !spec.start_image.is_possible() && !spec.end_image.is_possible()) {
        return "This model makes clips from text alone";
    }
    let are_both_taken = spec.is_some_and(takes_both);
    let inputs = &view.session.inputs;
    let is_end_next =
        are_both_taken && inputs.get(Slot::Start).is_some() && inputs.get(Slot::End).is_none();
    match view.session.held {
        Some(held) if held.num_files > 1 && are_both_taken => {
            "Drop them: the clip starts from the first and ends on the second"
        }
        Some(held) if held.is_clip => "Drop it to go on from this clip",
        _ if is_end_next => "Drop it to end the clip on this picture",
        _ => "Drop it to start the clip from this picture",
    }
}

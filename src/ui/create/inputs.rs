//! The pictures that a result is made from: the places that the model has, how pictures are fitted, how much of one
//! stays, and what is said while files are held over the window.

use egui::{
    Align, Align2, Area, ComboBox, CornerRadius, Layout, Order, RichText, Slider, Stroke,
    TextStyle, Ui, vec2,
};
use safelight_core::job::{Fit, first_step};
use safelight_core::model::{ImageRole, InputUse, ModelSpec};

use crate::app::commands::InputsCommand;
use crate::app::inputs::{Slot, second_slot};
use crate::ui::create::advanced::said_ui;
use crate::ui::create::slot::{Words, paint_button, slot_ui};
use crate::ui::widgets::{
    default_row, field_hint, group_label, icon_button, palette, row, wide_note, wide_slider,
    with_icon,
};
use crate::ui::{View, icons, theme};

pub(super) fn inputs_ui(ui: &mut Ui, view: &mut View<'_>) {
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
        slots => slots.chunks(2).for_each(|pair| pair_ui(ui, view, pair)),
    }
    if !view.app.inputs.is_empty() {
        fit_ui(ui, view);
    }
    strength_ui(ui, view);
    notes_ui(ui, view, &slots);
    ui.add_space(theme::GAP - theme::SMALL_GAP);
}

/// A place is there when the model takes it, or when something stands in it. A mask that is not needed waits for the
/// picture that it lies on.
fn is_shown(view: &View<'_>, slot: Slot) -> bool {
    let inputs = &view.app.inputs;
    let is_idle = slot == Slot::Mask
        && input_use(view, slot) == InputUse::Optional
        && inputs.get(Slot::Start).is_none();
    inputs.get(slot).is_some() || (input_use(view, slot).is_possible() && !is_idle)
}

fn input_use(view: &View<'_>, slot: Slot) -> InputUse {
    let form = &view.form;
    let of = |spec: &ModelSpec| match slot {
        Slot::Start => spec.start_image,
        Slot::End => form.end_image(spec),
        Slot::Mask => spec.mask,
    };
    // Before the models are known, a picture can be dropped already.
    let unknown = match slot {
        Slot::Start => InputUse::Optional,
        Slot::End | Slot::Mask => InputUse::No,
    };
    view.app.cx.models.of(form).map_or(unknown, of)
}

/// The model cannot do without, and there is none.
fn is_missing(view: &View<'_>, slot: Slot) -> bool {
    input_use(view, slot) == InputUse::Required && view.app.inputs.get(slot).is_none()
}

fn heading_ui(ui: &mut Ui, view: &View<'_>, slot: Slot) {
    let words = Words::of(slot, view.model());
    let is_clip = slot == Slot::Start && view.app.inputs.clip().is_some();
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
                if slot == Slot::Mask && view.app.inputs.get(slot).is_none() {
                    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                        paint_button(
                            ui,
                            view,
                            "Paint a mask",
                            "Paint which part of the picture is made anew",
                        );
                    });
                }
                if slot == Slot::End {
                    ui.with_layout(Layout::right_to_left(Align::Center), |ui| swap_ui(ui, view));
                }
            });
            slot_ui(ui, view, slot, true);
        }
    });
}

fn swap_ui(ui: &mut Ui, view: &mut View<'_>) {
    let explanation = if view.app.inputs.clip().is_some() {
        "A clip can only stand at the start"
    } else {
        "Let start and end change places"
    };
    let can_swap = view.app.inputs.can_swap();
    ui.add_enabled_ui(can_swap, |ui| {
        let button = icon_button(ui, icons::SWAP, "Swap pictures", explanation);
        if button.on_disabled_hover_text(explanation).clicked() {
            view.push(InputsCommand::Swap);
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
    for field in ["image", "extend", "last-image", "mask"] {
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
        Slot::Mask => "mask",
    }
}

fn fit_ui(ui: &mut Ui, view: &mut View<'_>) {
    let explanation = format!(
        "What happens to a picture of another shape than the new {}",
        view.thing()
    );
    let stretch = format!("Stretch to the new {}", view.thing());
    row(ui, "Fit", &explanation, |ui, label| {
        let mut fit = view.form.fit.unwrap_or(Fit::Crop);
        let before = fit;
        let name = |fit: Fit| match fit {
            Fit::Crop => "Crop around the middle",
            Fit::Stretch => stretch.as_str(),
        };
        ComboBox::from_id_salt("fit")
            .selected_text(name(fit))
            .width(ui.available_width())
            .show_ui(ui, |ui| {
                for choice in [Fit::Crop, Fit::Stretch] {
                    ui.selectable_value(&mut fit, choice, name(choice));
                }
            })
            .response
            .labelled_by(label)
            .on_hover_text(&explanation);
        if fit != before {
            view.form.fit = Some(fit);
        }
    });
}

/// Where the walk begins on the way to a picture: how far from it.
fn strength_ui(ui: &mut Ui, view: &mut View<'_>) {
    let Some(spec) = view.model().cloned() else {
        return;
    };
    let Some(default) = spec.defaults.sampling.strength else {
        return;
    };
    if view.app.inputs.sources().image.is_none() {
        return;
    }
    let explanation = "How much of the picture is made anew: a little changes its details, a half keeps its composition, 1 leaves nothing of it";
    default_row(
        ui,
        ("Strength", "strength", explanation),
        &mut view.form.sampling.strength,
        (default, format!("{default:.2}")),
        |ui, label, strength| {
            let slider = Slider::new(strength, 0.0..=1.0)
                .step_by(0.01)
                .max_decimals(2);
            wide_slider(ui, slider, explanation).labelled_by(label);
        },
    );
    let sampling = view.form.sampling_for(&spec);
    let num_steps = sampling.num_steps;
    let strength = sampling.strength.unwrap_or(default);
    let num_made = num_steps.saturating_sub(first_step(num_steps, strength));
    field_hint(ui, &format!("{num_made} of {num_steps} steps are made"));
    said_ui(ui, view, &["strength"]);
}

/// While files are held over the window: says what will happen.
pub(in crate::ui) fn drop_overlay(ui: &Ui, view: &View<'_>) {
    if view.app.drops.held.is_none() {
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
            let places = Slot::ALL.into_iter().zip(view.drawn.slots);
            let spec = view.model();
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
                    Words::of(slot, spec).heading,
                    TextStyle::Body.resolve(ui.style()),
                    palette.text,
                );
            }
            ui.centered_and_justified(|ui| {
                let text = with_icon(icons::IMAGE, &drop_text(view));
                ui.label(RichText::new(text).size(22.0));
            });
        });
}

fn drop_text(view: &View<'_>) -> String {
    let spec = view.model();
    let thing = view.thing();
    if spec.is_some_and(|spec| !spec.start_image.is_possible() && !spec.end_image.is_possible()) {
        return format!("This model makes {thing}s from text alone");
    }
    let makes_pictures = spec.is_some_and(|spec| spec.family.makes_pictures);
    let second = spec.and_then(second_slot);
    let next = view.app.inputs.next(second);
    let are_several = view.app.drops.held.is_some_and(|held| held.num_files > 1);
    let is_clip = view.app.drops.held.is_some_and(|held| held.is_clip);
    let num_places = if second.is_some() { 2 } else { 1 };
    let are_many = view
        .app
        .drops
        .held
        .is_some_and(|held| held.num_files > num_places);
    match (second, next) {
        _ if are_many => "Drop them: each can become a job of its own",
        (Some(Slot::End), _) if are_several => {
            "Drop them: the clip starts from the first and ends on the second"
        }
        (Some(Slot::Mask), _) if are_several => {
            "Drop them: the first is the picture, the second its mask"
        }
        _ if is_clip && makes_pictures => "This model starts from a picture, not from a clip",
        _ if is_clip => "Drop it to go on from this clip",
        (_, Slot::End) => "Drop it to end the clip on this picture",
        (_, Slot::Mask) => "Drop it as the mask",
        (_, Slot::Start) => match spec.map(|spec| spec.image_role) {
            Some(ImageRole::FirstFrame) | None => "Drop it to start the clip from this picture",
            Some(ImageRole::Base) => "Drop it to start from this picture",
            Some(ImageRole::Canvas) => "Drop it to fill a part of this picture",
            Some(ImageRole::Reference) => "Drop it to change this picture",
        },
    }
    .to_owned()
}

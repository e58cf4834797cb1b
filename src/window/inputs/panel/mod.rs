//! The images that a result is made from: the places that the model has, how images are fitted, how much of one
//! stays, and what is said while files are held over the window.

pub(crate) mod controls;
pub(crate) mod crop;
mod references;
pub(crate) mod slot;

use egui::{Area, Order};
use safelight_core::job::ResizeMode;
use safelight_core::model::{ImageRole, InputUse};

use crate::window::inputs::SlotRules;
use crate::window::inputs::panel::slot::{paint_button, slot_ui, slot_words};
use crate::window::layout::prelude::*;
use crate::window::viewer::panel::drop_zones::zones_ui;

const FIT_HOVER: &str = "How an image with another aspect ratio is fitted to the output size";
pub(crate) const PAINT_MASK_HOVER: &str = "Paint which part of the image is regenerated";
const EDIT_MASK_HOVER: &str = "Paint over this mask";
const VIDEO_MASK_UNPAINTED: &str = "A mask that is a video cannot be painted on";
const VIDEO_HOVER: &str =
    "Extend it after its last frame, or regenerate it with the given denoising strength";
const REMOVE_IMAGE_HOVER: &str = "Continue without it";
const DROP_IMAGE: &str = "Drop an image here, or choose a file…";

pub(crate) fn inputs_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let slots: Vec<InputSlot> = InputSlot::ALL
        .into_iter()
        .filter(|slot| !slot.is_list() && is_shown(view, *slot))
        .collect();
    let lists = [InputSlot::Reference, InputSlot::Prompt];
    let lists: Vec<InputSlot> = lists
        .into_iter()
        .filter(|slot| is_shown(view, *slot))
        .collect();
    let has_controls = is_shown(view, InputSlot::Control);
    // Required inputs come first.
    let is_controlled = input_use(view, InputSlot::Control) == InputUse::Required;
    if has_controls && is_controlled {
        controls::controls_ui(ui, view);
    }
    match slots.as_slice() {
        [] if lists.is_empty() && !has_controls => return,
        [] => {}
        &[slot] => {
            heading_ui(ui, view, slot);
            slot_ui(ui, view, slot, false);
        }
        slots => slots.chunks(2).for_each(|pair| pair_ui(ui, view, pair)),
    }
    let edits = view.model().is_some_and(ModelSpec::edits_reference);
    let fitted = slots.iter().chain(edits.then_some(&InputSlot::Reference));
    if fitted
        .chain([&InputSlot::Control])
        .any(|slot| view.app.inputs.get(*slot).is_some())
    {
        fit_ui(ui, view);
    }
    crop::notes_ui(ui, view);
    video_ui(ui, view);
    strength_ui(ui, view);
    keep_ui(ui, view);
    notes_ui(ui, view, &slots);
    for slot in lists {
        references::references_ui(ui, view, slot);
    }
    if has_controls && !is_controlled {
        controls::controls_ui(ui, view);
    }
    ui.add_space(theme::GAP - theme::SMALL_GAP);
}

/// A slot is shown when the model accepts it, or when it is filled. An optional mask waits for its image.
fn is_shown(view: &UiContext<'_>, slot: InputSlot) -> bool {
    let inputs = &view.app.inputs;
    let is_idle = slot == InputSlot::Mask
        && input_use(view, slot) == InputUse::Optional
        && inputs.get(InputSlot::Start).is_none();
    inputs.get(slot).is_some() || (input_use(view, slot).is_possible() && !is_idle)
}

fn input_use(view: &UiContext<'_>, slot: InputSlot) -> InputUse {
    let optional = |is_possible| {
        if is_possible {
            InputUse::Optional
        } else {
            InputUse::No
        }
    };
    let form = &view.form;
    let Some(spec) = view.app.cx.models.model_of(form) else {
        // Before the models are known, an image can be dropped already.
        return optional(slot == InputSlot::Start);
    };
    match slot {
        InputSlot::Start if spec.start_image == InputUse::No => {
            optional(spec.video_strength().is_some())
        }
        InputSlot::Start => spec.start_image,
        InputSlot::End => form.end_image(spec),
        InputSlot::Mask if view.inputs().source_video.is_some() => InputUse::Optional,
        InputSlot::Mask => spec.mask,
        InputSlot::Reference => optional(spec.limits.max_references > 0),
        InputSlot::Control if spec.limits.controls.is_required => InputUse::Required,
        InputSlot::Control => optional(spec.limits.controls.is_possible()),
        InputSlot::Prompt => optional(spec.prompt_images.is_some()),
    }
}

/// The model cannot do without, and there is none.
fn is_missing(view: &UiContext<'_>, slot: InputSlot) -> bool {
    input_use(view, slot) == InputUse::Required && view.app.inputs.get(slot).is_none()
}

fn heading_ui(ui: &mut Ui, view: &UiContext<'_>, slot: InputSlot) {
    let words = slot_words(slot, view.model());
    let all = view.inputs();
    let heading = match slot {
        InputSlot::Start if all.extend.is_some() => "Continue this video",
        InputSlot::Start if all.source_video.is_some() => "Change this video",
        _ => words.heading,
    };
    ui.horizontal(|ui| {
        group_label(ui, heading, words.hover);
        if is_missing(view, slot) {
            ui.label(RichText::new("needed").small().color(palette(ui).amber));
        }
    });
}

fn pair_ui(ui: &mut Ui, view: &mut UiContext<'_>, slots: &[InputSlot]) {
    ui.columns(slots.len(), |columns| {
        for (ui, &slot) in columns.iter_mut().zip(slots) {
            let size = vec2(ui.available_width(), theme::HEADING_HEIGHT);
            ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
                ui.set_min_size(size);
                ui.spacing_mut().button_padding.y = 2.0;
                heading_ui(ui, view, slot);
                if slot == InputSlot::Mask && view.app.inputs.get(slot).is_none() {
                    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                        paint_button(ui, view, "Paint a mask", PAINT_MASK_HOVER);
                    });
                }
                if slot == InputSlot::End {
                    ui.with_layout(Layout::right_to_left(Align::Center), |ui| swap_ui(ui, view));
                }
            });
            slot_ui(ui, view, slot, true);
        }
    });
}

fn swap_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let hover = if view.app.inputs.video().is_some() {
        "A video can only be at the start"
    } else {
        "Swap the start and the end image"
    };
    ui.add_enabled_ui(view.app.inputs.can_swap(), |ui| {
        let button = icon_button(ui, icons::SWAP, "Swap images", hover);
        let button = button.on_disabled_hover_text(hover);
        view.on_click(&button, InputsCommand::Swap);
    });
}

/// Problems with the inputs, and deviations; a missing one is not an error yet.
fn notes_ui(ui: &mut Ui, view: &UiContext<'_>, slots: &[InputSlot]) {
    let missing: Vec<&str> = slots
        .iter()
        .filter(|slot| is_missing(view, **slot))
        .map(|slot| field_of(*slot))
        .collect();
    for field in ["image", "extend", "source-video", "last-image", "mask"] {
        if let Some(message) = view.error_of(field) {
            let tone = if missing.contains(&field) {
                NoteTone::Warning
            } else {
                NoteTone::Error
            };
            wide_note(ui, &message, tone);
        }
        if let Some(message) = view.notice_of(field) {
            wide_note(ui, &message, NoteTone::Warning);
        }
    }
}

fn field_of(slot: InputSlot) -> &'static str {
    match slot {
        InputSlot::Start => "image",
        InputSlot::End => "last-image",
        InputSlot::Mask => "mask",
        InputSlot::Reference => "reference",
        InputSlot::Control => "control",
        InputSlot::Prompt => "prompt-image",
    }
}

fn fit_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    row(ui, "Fit", FIT_HOVER, |ui, label| {
        let mut fit = view.form.fit.unwrap_or(ResizeMode::Crop);
        let before = fit;
        let choices = [
            (ResizeMode::Crop, "Crop to the middle"),
            (ResizeMode::Stretch, "Stretch"),
        ];
        choice_list(ui, "fit", &mut fit, choices)
            .labelled_by(label)
            .on_hover_text(FIT_HOVER);
        if fit != before {
            view.form.fit = Some(fit);
        }
    });
}

/// Use of a video, for models that can both extend and regenerate it.
fn video_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let does_both = |spec: &ModelSpec| spec.can_extend() && spec.video_strength().is_some();
    if view.inputs().video().is_none() || !view.model().is_some_and(does_both) {
        return;
    }
    row(ui, "Video", VIDEO_HOVER, |ui, label| {
        let choices = [(false, "Continue it"), (true, "Change it")];
        choice_list(ui, "video", &mut view.form.remakes_video, choices)
            .labelled_by(label)
            .on_hover_text(VIDEO_HOVER);
    });
}

fn strength_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let Some(spec) = view.model().cloned() else {
        return;
    };
    let all = view.inputs();
    let is_base = all.image.is_some() && spec.image_role != ImageRole::FirstFrame;
    let (default, hover) = if is_base {
        (
            spec.defaults.sampling.strength,
            "Denoising strength: low values change details, 0.5 keeps the composition, 1 ignores \
            the image",
        )
    } else {
        let strength = all.source_video.and_then(|_| spec.video_strength());
        (
            strength,
            "How much of the video changes: 0.4 changes the look and keeps every movement, 0.8 \
            keeps the composition, 1 keeps hardly anything",
        )
    };
    let Some(default) = default else {
        return;
    };
    default_row(
        ui,
        ("Denoising strength", "denoising strength", hover),
        &mut view.form.sampling.strength,
        (default, format!("{default:.2}")),
        |ui, label, strength| {
            let slider = Slider::new(strength, 0.0..=1.0)
                .step_by(0.01)
                .max_decimals(2);
            wide_slider(ui, slider, hover).labelled_by(label);
        },
    );
    let sampling = view.form.sampling_for(&spec);
    let num_steps = sampling.num_steps;
    let strength = sampling.strength.unwrap_or(default);
    let num_made = num_steps.saturating_sub(spec.family.first_step(num_steps, strength));
    field_hint(ui, &format!("{num_made} of {num_steps} steps are run"));
    said_ui(ui, view, &["strength"]);
}

/// Models that fill answer for the whole image; others keep what the mask does not cover.
fn keep_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let fills = view
        .model()
        .is_some_and(|spec| spec.image_role == ImageRole::Canvas);
    if fills && view.inputs().mask.is_some() {
        ui.checkbox(
            &mut view.form.keeps_unmasked,
            "Keep unmasked area unchanged",
        )
        .on_hover_text(
            "Restore unmasked pixels exactly. This model fills the whole image and changes the \
            rest a little",
        );
    }
}

/// While files are held over the window: says what will happen.
pub(crate) fn drop_overlay(ui: &Ui, view: &mut UiContext<'_>) {
    if view.app.drops.held.is_none() {
        return;
    }
    let palette = palette(ui);
    let rect = ui.ctx().content_rect();
    Area::new(egui::Id::unique("drop-overlay"))
        .order(Order::Foreground)
        .fixed_pos(rect.min)
        .interactable(false)
        .show(ui.ctx(), |ui| {
            ui.set_min_size(rect.size());
            let veil = palette.stage.gamma_multiply(0.82);
            ui.painter().rect_filled(rect, CornerRadius::ZERO, veil);
            let edge = Stroke::new(2.0, palette.accent);
            let all = rect.shrink(14.0);
            ui.painter()
                .rect_stroke(all, theme::CARD_RADIUS, edge, StrokeKind::Inside);
            let places = InputSlot::ALL.into_iter().zip(view.drawn.slots);
            let spec = view.model();
            let of_controls = view
                .drawn
                .control_masks
                .map(|place| (InputSlot::Mask, place));
            for (slot, place) in places.chain(of_controls) {
                let Some(place) = place else {
                    continue;
                };
                let (radius, fill) = (theme::RADIUS, palette.stage);
                ui.painter()
                    .rect(place, radius, fill, edge, StrokeKind::Inside);
                ui.painter().text(
                    place.center(),
                    Align2::CENTER_CENTER,
                    slot_words(slot, spec).heading,
                    TextStyle::Body.resolve(ui.style()),
                    palette.text,
                );
            }
            if zones_ui(ui, view, rect) {
                return;
            }
            ui.centered_and_justified(|ui| {
                ui.label(RichText::new(with_icon(icons::IMAGE, drop_text(view))).heading());
            });
        });
}

fn drop_text(view: &UiContext<'_>) -> &'static str {
    let spec = view.model();
    let makes_images = spec.is_some_and(|spec| spec.family.makes_images);
    let places = spec.map(SlotRules::from_spec).unwrap_or_default();
    let takes_none = |spec: &ModelSpec| {
        !spec.start_image.is_possible()
            && !spec.end_image.is_possible()
            && places.max_references == 0
            && places.max_controls == 0
    };
    let is_video = view.app.drops.held.is_some_and(|held| held.is_video);
    if is_video && spec.is_some_and(|spec| view.form.changes_video(spec)) {
        return "Drop it to change this video";
    }
    if spec.is_some_and(takes_none) {
        return if makes_images {
            "This model makes images from text only"
        } else {
            "This model makes videos from text only"
        };
    }
    let next = view.app.inputs.next(places);
    let num_files = view.app.drops.held.map_or(0, |held| held.num_files);
    match (places.second, next) {
        _ if num_files > view.app.inputs.room(num_files, None, places) => {
            "Drop to queue one job per file"
        }
        (Some(InputSlot::End), _) if num_files > 1 => {
            "Drop them: the video starts from the first and ends on the second"
        }
        (Some(InputSlot::Mask), _) if num_files > 1 => {
            "Drop them: the first is the image, the second its mask"
        }
        _ if is_video && makes_images => "This model starts from an image, not from a video",
        _ if is_video => "Drop it to extend this video",
        (_, InputSlot::End) => "Drop it to end the video on this image",
        (_, InputSlot::Mask) => "Drop it as the mask",
        (_, InputSlot::Reference) if num_files > 1 => "Drop them as reference images",
        (_, InputSlot::Reference | InputSlot::Prompt) => "Drop it as a reference image",
        (_, InputSlot::Control) => "Drop it as the control image",
        (_, InputSlot::Start) => match spec.map(|spec| spec.image_role) {
            Some(ImageRole::FirstFrame) | None => "Drop it to start the video from this image",
            Some(ImageRole::Base) => "Drop it to start from this image",
            Some(ImageRole::Canvas) => "Drop it to fill a part of this image",
        },
    }
}

pub(crate) fn paint_control_mask_hover(spec: Option<&ModelSpec>) -> &'static str {
    if spec.is_some_and(|spec| spec.limits.controls.can_extend()) {
        "Paint over its first frame which part is regenerated. There, drag an edge outwards to extend the video at its sides (outpainting)"
    } else {
        PAINT_MASK_HOVER
    }
}

fn pixels_text(width: u32, height: u32) -> String {
    format!("{width} × {height} pixels")
}

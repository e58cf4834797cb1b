//! Reference images and image prompts in a row: added, removed and reordered.

use safelight_core::catalog::HelperKind;
use safelight_core::job::{InputMedia, PROMPT_STRENGTHS};

use crate::window::downloads::panel::get_button;
use crate::window::inputs::panel::slot::{
    drop_target, seen, shown_ui, slot_noun, slot_words, thumb_ui,
};
use crate::window::inputs::panel::{DROP_IMAGE, REMOVE_IMAGE_HOVER, field_of};
use crate::window::inputs::{ChosenInput, SlotRules};
use crate::window::layout::prelude::*;

struct DraggedImage(InputSlot, usize);

pub(super) fn references_ui(ui: &mut Ui, view: &mut UiContext<'_>, slot: InputSlot) {
    let places = view.model().map(SlotRules::from_spec).unwrap_or_default();
    let most = match slot {
        InputSlot::Prompt => places.max_prompts,
        _ => places.max_references,
    };
    let references = view.app.inputs.inputs_in(slot).to_vec();
    // Without what reads them there is nothing to fill, only something to get.
    let missing = view.model().filter(|spec| {
        slot == InputSlot::Prompt && references.is_empty() && spec.files.image_prompts.is_none()
    });
    let missing = missing.and_then(|spec| spec.prompt_images.as_deref());
    ui.add_space(theme::SMALL_GAP);
    ui.horizontal(|ui| {
        let words = slot_words(slot, view.model());
        group_label(ui, words.heading, words.hover);
        if missing.is_none() && most > 0 {
            ui.weak(format!("{} of {most}", references.len()));
        }
    });
    if let Some(missing) = missing {
        ui.horizontal(|ui| {
            get_button(ui, view, HelperKind::ImagePrompts);
            explained_sign(ui, missing);
        });
        return;
    }
    let row = ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing = Vec2::splat(theme::SMALL_GAP);
        for (index, input) in references.iter().enumerate() {
            tile_ui(ui, view, (slot, index), references.len(), input);
        }
        if references.len() < most {
            add_ui(ui, view, slot, references.is_empty());
        }
    });
    view.drawn.slots[slot as usize] = seen(ui, row.response.rect);
    said_ui(ui, view, &[field_of(slot)]);
}

fn tile_ui(
    ui: &mut Ui,
    view: &mut UiContext<'_>,
    (slot, index): (InputSlot, usize),
    count: usize,
    input: &ChosenInput,
) {
    let size = vec2(theme::REFERENCE_SIDE, tile_height(ui, slot));
    ui.allocate_ui_with_layout(size, Layout::top_down(Align::Center), |ui| {
        ui.set_min_size(size);
        ui.spacing_mut().item_spacing = Vec2::ZERO;
        let image = image_ui(ui, view, (slot, index), &input.source);
        image.dnd_set_drag_payload(DraggedImage(slot, index));
        if let Some(dragged) = image.dnd_release_payload::<DraggedImage>()
            && dragged.0 == slot
        {
            view.push(InputsCommand::MoveOne(slot, dragged.1, index));
        }
        ui.horizontal(|ui| buttons_ui(ui, view, (slot, index), count));
        if slot == InputSlot::Prompt {
            strength_ui(ui, view, index, input.strength);
        }
    });
}

fn tile_height(ui: &Ui, slot: InputSlot) -> f32 {
    let rows = if slot == InputSlot::Prompt { 2.0 } else { 1.0 };
    theme::REFERENCE_SIDE + rows * ui.spacing().interact_size.y
}

fn strength_ui(ui: &mut Ui, view: &mut UiContext<'_>, index: usize, mut strength: f64) {
    let drag = DragValue::new(&mut strength)
        .range(PROMPT_STRENGTHS)
        .speed(0.01)
        .max_decimals(2);
    let hover = "Weight of this image prompt: 1 as trained, lower favours the text, 0 is off";
    let response = number(ui, theme::REFERENCE_SIDE, drag)
        .on_hover_text(hover)
        .accessible_name(format!("Strength of prompt image {}", index + 1));
    if response.changed() {
        view.set(move |app| {
            app.inputs
                .change(InputSlot::Prompt, index, |input| input.strength = strength);
        });
    }
}

fn image_ui(
    ui: &mut Ui,
    view: &mut UiContext<'_>,
    (slot, index): (InputSlot, usize),
    input: &InputMedia,
) -> Response {
    let palette = palette(ui);
    let side = Vec2::splat(theme::REFERENCE_SIDE);
    let (rect, response) = ui.allocate_exact_size(side, Sense::click_and_drag());
    ui.painter().rect_filled(rect, theme::RADIUS, palette.field);
    let inner = rect.shrink(2.0);
    let mut inside = ui.new_child(
        egui::UiBuilder::new()
            .max_rect(inner)
            .layout(Layout::centered_and_justified(egui::Direction::TopDown)),
    );
    thumb_ui(&mut inside, view, slot, input, inner.size());
    let is_over = response.dnd_hover_payload::<DraggedImage>().is_some();
    if is_over || response.hovered() || response.has_focus() {
        let stroke = Stroke::new(1.5, palette.amber);
        ui.painter()
            .rect_stroke(rect, theme::RADIUS, stroke, StrokeKind::Inside);
    }
    let corner = Rect::from_min_size(rect.min + Vec2::splat(4.0), Vec2::splat(theme::COUNT_SIZE));
    let ink = (theme::COUNT_SIZE * 0.7, palette.on_accent);
    badge(ui, corner, palette.accent, index + 1, ink);
    let (noun, file) = (slot_noun(slot, false), input.file_name());
    let name = sentence(&format!("{noun} {}: {file}", index + 1));
    shown_ui(view, &response, &name, input);
    response
}

fn buttons_ui(
    ui: &mut Ui,
    view: &mut UiContext<'_>,
    (slot, index): (InputSlot, usize),
    count: usize,
) {
    ui.spacing_mut().button_padding.x = theme::ICON_PADDING;
    let (number, kind) = (index + 1, slot_noun(slot, false));
    let moves = [
        (index.wrapping_sub(1), index > 0, icons::CARET_LEFT, "left"),
        (number, number < count, icons::CARET_RIGHT, "right"),
    ];
    for (to, is_possible, icon, side) in moves {
        let name = format!("Move {kind} {number} to the {side}");
        ui.add_enabled_ui(is_possible, |ui| {
            let hover = "The prompt counts the images from the left. They can be dragged, \
                        too";
            let button = icon_button(ui, icon, &name, hover);
            view.on_click(&button, InputsCommand::MoveOne(slot, index, to));
        });
    }
    let name = format!("Remove {kind} {number}");
    let button = icon_button(ui, icons::TRASH, &name, REMOVE_IMAGE_HOVER);
    view.on_click(&button, InputsCommand::RemoveOne(slot, index));
}

pub(super) fn add_ui(ui: &mut Ui, view: &mut UiContext<'_>, slot: InputSlot, is_wide: bool) {
    let words = slot_words(slot, view.model());
    let side = theme::REFERENCE_SIDE;
    let (place, shown) = if is_wide {
        let whole = vec2(ui.available_width(), theme::DROP_HEIGHT);
        (whole, whole)
    } else {
        // As high as the images next to it with their buttons.
        (vec2(side, tile_height(ui, slot)), Vec2::splat(side))
    };
    let (place, _) = ui.allocate_exact_size(place, Sense::hover());
    let rect = Rect::from_min_size(place.min, shown);
    let id = ui.scope_id().with(("add-image", slot as usize));
    let response = ui.interact(rect, id, Sense::click());
    let text = if is_wide {
        let text = drop_text(slot, view.model());
        (with_icon(icons::UPLOAD, text), theme::SMALL_TEXT)
    } else {
        (icons::PLUS.to_string(), theme::COUNT_SIZE)
    };
    let words = (words.choose, words.hover);
    if drop_target(ui, view, response, words, text) {
        view.push(InputsCommand::Pick(slot));
    }
}

fn drop_text(slot: InputSlot, spec: Option<&ModelSpec>) -> &'static str {
    let controls = spec.map(|spec| spec.limits.controls);
    let takes_videos = controls.is_some_and(|takes| takes.takes_videos);
    let is_one = match slot {
        InputSlot::Control => controls.is_some_and(|takes| takes.most == 1),
        InputSlot::Reference => spec.is_some_and(|spec| spec.limits.max_references == 1),
        _ => false,
    };
    match slot {
        InputSlot::Control if takes_videos => "Drop a video or an image here, or choose a file…",
        _ if is_one => DROP_IMAGE,
        _ => "Drop images here, or choose files…",
    }
}

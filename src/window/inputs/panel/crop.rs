//! Used part of a start or end image: drawn over the image while it is shown, and stated below its slot.

use std::collections::BTreeSet;

use safelight_core::job::{ResizeMode, StartImage};

use crate::window::layout::prelude::*;
use crate::window::viewer::ViewerMode;

/// Share of an image below which the crop is stated.
const TOLD_BELOW: f32 = 0.7;
/// Share above which the crop is invisible.
const WHOLE: f32 = 0.995;

/// Shares of the width and height that remain when an image is cropped to another shape.
fn used_part(image: Vec2, size: Vec2) -> Vec2 {
    let (wide, wanted) = (image.x * size.y, image.y * size.x);
    if wide <= 0.0 || wanted <= 0.0 {
        Vec2::splat(1.0)
    } else if wide > wanted {
        vec2(wanted / wide, 1.0)
    } else {
        vec2(1.0, wide / wanted)
    }
}

/// Size of the result in pixels.
fn made_size(view: &UiContext<'_>) -> Option<(u32, u32)> {
    let spec = view.model()?;
    Some(view.form.shown_size(spec, view.inputs().size()))
}

fn part_of(image: &StartImage, (width, height): (u32, u32)) -> Vec2 {
    let size = |width: u32, height: u32| vec2(width as f32, height as f32);
    used_part(size(image.width, image.height), size(width, height))
}

fn fitted_images(view: &UiContext<'_>) -> impl Iterator<Item = StartImage> {
    let inputs = view.inputs();
    let edits = view.model().is_some_and(ModelSpec::edits_reference);
    let seen = inputs.references.into_iter().next().filter(|_| edits);
    [inputs.image, inputs.last_image, seen]
        .into_iter()
        .flatten()
}

fn is_cropped(view: &UiContext<'_>) -> bool {
    view.form.fit.unwrap_or(ResizeMode::Crop) == ResizeMode::Crop
}

/// Below the inputs: what a crop leaves of an odd shape, and parts of the files that are not used.
pub(super) fn notes_ui(ui: &mut Ui, view: &UiContext<'_>) {
    let Some(size) = made_size(view) else {
        return;
    };
    for image in fitted_images(view) {
        let part = part_of(&image, size);
        let share = part.x * part.y;
        if share >= TOLD_BELOW {
            continue;
        }
        let text = if is_cropped(view) {
            format!(
                "Only the middle {} % of the image is used",
                (share * 100.0).round().max(1.0) as u32
            )
        } else {
            format!("The image is stretched to {} × {}", size.0, size.1)
        };
        wide_note(ui, &text, NoteTone::Warning);
    }
    let inputs = [InputSlot::Start, InputSlot::End, InputSlot::Reference]
        .iter()
        .flat_map(|slot| view.app.inputs.inputs_in(*slot));
    let notices: BTreeSet<&str> = inputs
        .flat_map(|input| input.notices.iter().map(String::as_str))
        .collect();
    for notice in notices {
        wide_note(ui, notice, NoteTone::Warning);
    }
}

/// Over a shown image of the form: the cropped part is darkened. `shown`: rectangle of the whole image.
pub(crate) fn crop_ui(ui: &Ui, view: &UiContext<'_>, area: Rect, shown: Rect) {
    if view.app.watch.mode != ViewerMode::File || !is_cropped(view) {
        return;
    }
    let (Some(media), Some(size)) = (view.app.watch.media(), made_size(view)) else {
        return;
    };
    let path = media.path_of(view.app.watch.batch_index());
    let Some(image) = fitted_images(view).find(|image| image.path == path) else {
        return;
    };
    let part = part_of(&image, size);
    if part.x * part.y > WHOLE {
        return;
    }
    let palette = palette(ui);
    let used = Rect::from_center_size(shown.center(), shown.size() * part);
    let painter = ui.painter().with_clip_rect(area.intersect(ui.clip_rect()));
    let veil = palette.stage.gamma_multiply(0.72);
    let corners = [
        Rect::from_min_max(shown.left_top(), used.left_bottom()),
        Rect::from_min_max(used.right_top(), shown.right_bottom()),
        Rect::from_min_max(shown.left_top(), used.right_top()),
        Rect::from_min_max(used.left_bottom(), shown.right_bottom()),
    ];
    for cut in corners.into_iter().filter(Rect::is_positive) {
        painter.rect_filled(cut, CornerRadius::ZERO, veil);
    }
    let stroke = Stroke::new(1.5, palette.amber);
    painter.rect_stroke(used, CornerRadius::ZERO, stroke, StrokeKind::Inside);
    label(
        ui,
        &painter,
        used,
        &format!("Used for {} × {}", size.0, size.1),
    );
}

fn label(ui: &Ui, painter: &egui::Painter, used: Rect, text: &str) {
    let palette = palette(ui);
    let at = used.left_top() + vec2(theme::SMALL_GAP, theme::SMALL_GAP);
    let font = FontId::proportional(theme::SMALL_TEXT);
    let words = painter.layout_no_wrap(text.to_owned(), font, palette.text);
    let rect = Align2::LEFT_TOP.anchor_size(at, words.size() + vec2(10.0, 4.0));
    let fill = palette.stage.gamma_multiply(0.85);
    painter.rect_filled(rect, CornerRadius::same(theme::RADIUS), fill);
    painter.galley(rect.min + vec2(5.0, 2.0), words, palette.text);
    let response = ui.interact(rect, egui::Id::unique("crop"), egui::Sense::hover());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Label, true, text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crop_keeps_the_shorter_side_whole() {
        let found = used_part(vec2(200.0, 100.0), vec2(64.0, 64.0));
        assert_eq!(found, vec2(0.5, 1.0));
        let found = used_part(vec2(100.0, 400.0), vec2(64.0, 64.0));
        assert_eq!(found, vec2(1.0, 0.25));
        assert_eq!(used_part(vec2(0.0, 10.0), vec2(64.0, 64.0)), vec2(1.0, 1.0));
    }
}

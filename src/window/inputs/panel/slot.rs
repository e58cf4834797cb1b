//! The slot of an input image, and that of a control's mask, with headings, buttons and explanations for the selected
//! model.

use egui::Direction;
use safelight_core::gallery::THUMB_SIDE;
use safelight_core::job::InputMedia;
use safelight_core::model::{ControlKind, ImageRole};

use crate::window::create::choices::{ControlPart, MaskOf};
use crate::window::inputs::ChosenInput;
use crate::window::inputs::panel::{
    DROP_IMAGE, EDIT_MASK_HOVER, REMOVE_IMAGE_HOVER, VIDEO_MASK_UNPAINTED,
    paint_control_mask_hover, pixels_text,
};
use crate::window::layout::prelude::*;

const MASK_SIDE: f32 = 40.0;
const CONTROL_MASK_HOVER: &str = "Which part of this control is regenerated: white is, black stays. An image holds for every frame of a video; a mask that is a video goes with it frame by frame. Drop a file here, or choose one";

/// Draws the slot over the available width; a narrow one is next to another.
pub(super) fn slot_ui(ui: &mut Ui, view: &mut UiContext<'_>, slot: InputSlot, is_narrow: bool) {
    let input = view.app.inputs.get(slot).map(|input| &input.source);
    let rect = match (input, is_narrow) {
        (Some(input), true) => narrow_ui(ui, view, slot, input),
        (Some(input), false) => wide_ui(ui, view, slot, input),
        (None, _) => empty_ui(ui, view, slot, is_narrow),
    };
    view.drawn.slots[slot as usize] = seen(ui, rect);
}

/// The part of a slot that is seen, onto which files can be dropped.
pub(super) fn seen(ui: &Ui, rect: Rect) -> Option<Rect> {
    let visible = rect.intersect(ui.clip_rect());
    visible.is_positive().then_some(visible)
}

fn empty_ui(ui: &mut Ui, view: &mut UiContext<'_>, slot: InputSlot, is_narrow: bool) -> Rect {
    let words = slot_words(slot, view.model());
    let is_next = slot == InputSlot::Start || view.app.inputs.get(InputSlot::Start).is_some();
    let text = if view.app.inputs.is_opening() && is_next {
        "Opening…".to_owned()
    } else if is_narrow {
        let what = if slot == InputSlot::Mask {
            "a mask"
        } else {
            "an image"
        };
        with_icon(icons::UPLOAD, &format!("Drop {what},\nor choose a file…"))
    } else {
        with_icon(icons::UPLOAD, DROP_IMAGE)
    };
    let height = match (is_narrow, view.app.inputs.is_empty()) {
        (true, true) => theme::EMPTY_TILE_HEIGHT,
        (true, false) => theme::TILE_HEIGHT,
        (false, _) => theme::DROP_HEIGHT,
    };
    let size = vec2(ui.available_width(), height);
    let (rect, response) = ui.allocate_exact_size(size, Sense::click());
    let words = (words.choose, words.hover);
    if drop_target(ui, view, response, words, (text, theme::SMALL_TEXT)) {
        view.push(InputsCommand::Pick(slot));
    }
    rect
}

/// An area for files to be dropped on. Returns true if it was clicked, which opens a file dialog.
pub(super) fn drop_target(
    ui: &Ui,
    view: &UiContext<'_>,
    response: Response,
    (name, hover): (&str, &str),
    (text, size): (String, f32),
) -> bool {
    let (palette, rect) = (palette(ui), response.rect);
    let is_busy = view.app.cx.background.is_asking();
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, !is_busy, name));
    let (line, ink) = if response.hovered() || response.has_focus() {
        (palette.amber, palette.text)
    } else {
        (palette.line, palette.weak)
    };
    ui.painter().rect_filled(rect, theme::RADIUS, palette.field);
    dashed_frame(ui, rect, line);
    let font = FontId::proportional(size);
    let mut job = LayoutJob::simple(text, font, ink, rect.width());
    job.halign = Align::Center;
    let galley = ui.painter().layout_job(job);
    let top = rect.center_top() + vec2(0.0, (rect.height() - galley.size().y) / 2.0);
    ui.painter().galley(top, galley, ink);
    response.on_hover_text(hover).clicked() && !is_busy
}

fn dashed_frame(ui: &Ui, rect: Rect, colour: Color32) {
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

fn wide_ui(ui: &mut Ui, view: &mut UiContext<'_>, slot: InputSlot, input: &InputMedia) -> Rect {
    let drawn = wide_frame(ui, field_frame(ui), |ui| {
        ui.horizontal(|ui| {
            thumb_ui(ui, view, slot, input, Vec2::splat(theme::IMAGE_SIDE));
            ui.vertical(|ui| {
                name_ui(ui, input);
                facts_ui(ui, input);
                ui.horizontal(|ui| {
                    ui.spacing_mut().button_padding.x = theme::ICON_PADDING;
                    buttons_ui(ui, view, slot, input);
                });
            });
        });
    });
    drawn.response.rect
}

/// The image above, its name and buttons below, as high as an empty place.
fn narrow_ui(ui: &mut Ui, view: &mut UiContext<'_>, slot: InputSlot, input: &InputMedia) -> Rect {
    let drawn = field_frame(ui).show(ui, |ui| {
        let inner = f32::from(theme::TILE_MARGIN) * 2.0;
        ui.set_width(ui.available_width());
        ui.set_height(theme::TILE_HEIGHT - inner);
        ui.spacing_mut().item_spacing.y = 2.0;
        let size = vec2(ui.available_width(), theme::IMAGE_SIDE);
        let middle = Layout::centered_and_justified(Direction::TopDown);
        ui.allocate_ui_with_layout(size, middle, |ui| thumb_ui(ui, view, slot, input, size));
        ui.horizontal(|ui| {
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                ui.spacing_mut().button_padding.x = theme::ICON_PADDING;
                buttons_ui(ui, view, slot, input);
                ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                    name_ui(ui, input);
                });
            });
        });
        facts_ui(ui, input);
    });
    drawn.response.rect
}

pub(super) fn thumb_ui(
    ui: &mut Ui,
    view: &UiContext<'_>,
    slot: InputSlot,
    input: &InputMedia,
    size: Vec2,
) -> Response {
    let is_video = matches!(input, InputMedia::Video(_));
    let shown = ThumbSource::Input(input.path().to_owned());
    let Some(Ok(thumb)) = view.app.cx.thumbs.get(shown, THUMB_SIDE) else {
        // It was forgotten while it was not seen, and comes in a moment.
        return ui.allocate_response(size, Sense::hover());
    };
    let (file, noun) = (input.file_name(), slot_noun(slot, is_video));
    let name = if is_video { "last frame of" } else { noun };
    let image = Image::new(thumb)
        .fit_to_exact_size(size)
        .corner_radius(CornerRadius::same(4))
        .alt_text(sentence(&format!("{name} {file}")));
    let response = ui.add(image);
    if is_video {
        // The image keeps its aspect in the middle of what it was given.
        let scale = size / thumb.size_vec2().max(Vec2::splat(1.0));
        let drawn = thumb.size_vec2() * scale.min_elem();
        video_badge(ui, Rect::from_center_size(response.rect.center(), drawn));
    }
    response
}

/// Names the thumbnail of an input, which a click shows in the viewer.
pub(super) fn shown_ui(
    view: &mut UiContext<'_>,
    response: &Response,
    name: &str,
    input: &InputMedia,
) {
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, name));
    let (file, (width, height)) = (input.file_name(), input.size());
    let hover = format!("{file}\n{}", pixels_text(width, height));
    response.clone().on_hover_text(hover);
    view.on_click(response, PlayerCommand::ShowInput(input.path().to_owned()));
}

fn video_badge(ui: &Ui, image: Rect) {
    let palette = palette(ui);
    let corner = image.left_bottom() + vec2(4.0, -theme::BADGE_SIZE - 4.0);
    let rect = Rect::from_min_size(corner, Vec2::splat(theme::BADGE_SIZE));
    let ink = (theme::BADGE_SIZE * 0.75, palette.on_accent);
    badge(ui, rect, palette.accent, icons::FILM, ink);
}

pub(super) fn name_ui(ui: &mut Ui, input: &InputMedia) {
    ui.add(Label::new(input.file_name()).truncate())
        .on_hover_text(input.path().display().to_string());
}

pub(super) fn facts_ui(ui: &mut Ui, input: &InputMedia) {
    let (width, height) = input.size();
    let pixels = pixels_text(width, height);
    match input {
        InputMedia::Image(_) => drop(small_line(ui, pixels)),
        InputMedia::Video(video) => {
            let (num_frames, fps) = (video.info.num_frames, video.info.fps);
            let secs = seconds_text(f64::from(num_frames) / fps.max(f64::EPSILON));
            let length = format!("{num_frames} frames, {secs} at {} fps", rate(fps));
            small_line(ui, length).on_hover_text(pixels);
        }
    }
}

fn buttons_ui(ui: &mut Ui, view: &mut UiContext<'_>, slot: InputSlot, input: &InputMedia) {
    let is_video = matches!(input, InputMedia::Video(_));
    let noun = slot_noun(slot, is_video);
    let mut order = [0, 1, 2];
    if ui.layout().prefer_right_to_left() {
        order.reverse();
    }
    for button in order {
        match button {
            0 => {
                let name = format!("Choose another {noun}");
                let other = icon_button(ui, icons::FOLDER_OPEN, &name, "Choose another file…");
                if other.clicked() && !view.app.cx.background.is_asking() {
                    view.push(InputsCommand::Pick(slot));
                }
            }
            1 if slot == InputSlot::Mask => {
                paint_button(ui, view, "Edit mask", EDIT_MASK_HOVER);
            }
            1 => {}
            _ => {
                let name = format!("Remove {noun}");
                let button = icon_button(ui, icons::TRASH, &name, REMOVE_IMAGE_HOVER);
                view.on_click(&button, InputsCommand::Remove(slot));
            }
        }
    }
}

pub(super) fn paint_button(ui: &mut Ui, view: &mut UiContext<'_>, name: &str, hover: &str) {
    let inputs = &view.app.inputs;
    let has_video = inputs.video().is_some();
    let mask = inputs.get(InputSlot::Mask).map(|input| &input.source);
    let (hover, why_not) = match mask {
        Some(InputMedia::Video(_)) => (hover, VIDEO_MASK_UNPAINTED),
        _ if has_video => (
            "Paint over the video's first frame which part of every frame is regenerated",
            "A video that is continued takes no mask",
        ),
        _ => (hover, "Choose the image first"),
    };
    brush_button(ui, view, MaskOf::Start, name, hover, why_not);
}

fn brush_button(
    ui: &mut Ui,
    view: &mut UiContext<'_>,
    of: MaskOf,
    name: &str,
    hover: &str,
    why_not: &str,
) {
    ui.add_enabled_ui(view.app.can_paint_mask(of), |ui| {
        let button = icon_button(ui, icons::BRUSH, name, hover);
        let button = button.on_disabled_hover_text(why_not);
        view.on_click(&button, MaskCommand::Open(of));
    });
}

pub(super) fn control_mask_ui(
    ui: &mut Ui,
    view: &mut UiContext<'_>,
    index: usize,
    input: &ChosenInput,
) {
    // Shown where the model uses a mask, or one is set.
    let takes = |spec| view.app.inputs.takes_control_mask(index, spec);
    if input.control_mask.is_none() && !view.model().is_some_and(takes) {
        return;
    }
    row(ui, "Mask", CONTROL_MASK_HOVER, |ui, _| {
        let rect = match &input.control_mask {
            Some(mask) => mask_ui(ui, view, index, mask),
            None => control_mask_empty_ui(ui, view, index),
        };
        if let Some(place) = view.drawn.control_masks.get_mut(index) {
            *place = seen(ui, rect);
        }
    });
    let painted = view.app.masking.pending(&view.app.inputs, &view.app.cx);
    let is_painted = painted.is_some_and(|(of, _)| of == MaskOf::Control(index));
    if input.control_mask.is_none() && is_painted {
        field_hint(ui, "What you painted is used");
    } else if input.control_mask.is_none() && view.app.inputs.needs_control_mask(index) {
        let text = "This ControlNet fills a part of its image: paint which, or drop a mask";
        field_note(ui, text);
    }
}

fn mask_ui(ui: &mut Ui, view: &mut UiContext<'_>, index: usize, mask: &InputMedia) -> Rect {
    let drawn = wide_frame(ui, field_frame(ui), |ui| {
        ui.horizontal(|ui| {
            thumb_ui(ui, view, InputSlot::Mask, mask, Vec2::splat(MASK_SIDE));
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                ui.spacing_mut().button_padding.x = theme::ICON_PADDING;
                let number = index + 1;
                let name = format!("Remove the mask of control image {number}");
                let button = icon_button(ui, icons::TRASH, &name, REMOVE_IMAGE_HOVER);
                view.on_click(&button, InputsCommand::RemoveControlMask(index));
                let name = format!("Edit the mask of control image {number}");
                let of = MaskOf::Control(index);
                brush_button(ui, view, of, &name, EDIT_MASK_HOVER, VIDEO_MASK_UNPAINTED);
                ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                    name_ui(ui, mask);
                });
            });
        });
    });
    drawn.response.rect
}

/// Empty mask slot of a control: accepts drops, and opens a file dialog on a click; next to it the brush.
fn control_mask_empty_ui(ui: &mut Ui, view: &mut UiContext<'_>, index: usize) -> Rect {
    let number = index + 1;
    let height = ui.spacing().interact_size.y;
    let button = Button::new(with_icon(icons::BRUSH, "Paint"));
    let paint_width = theme::IMAGE_SIDE;
    let width = ui.available_width() - paint_width - ui.spacing().item_spacing.x;
    let (rect, response) = ui.allocate_exact_size(vec2(width, height), Sense::click());
    let name = format!("Choose a mask for control image {number}");
    let text = ("Drop a mask…".to_owned(), theme::SMALL_TEXT);
    if drop_target(ui, view, response, (&name, CONTROL_MASK_HOVER), text) {
        view.set(move |app| app.inputs.pick(ControlPart::Mask(index).into(), &app.cx));
    }
    let of = MaskOf::Control(index);
    ui.add_enabled_ui(view.app.can_paint_mask(of), |ui| {
        let painted = ui.add_sized([paint_width, height], button);
        let painted = painted
            .on_hover_text(paint_control_mask_hover(view.model()))
            .accessible_name(format!("Paint a mask for control image {number}"));
        view.on_click(&painted, MaskCommand::Open(of));
    });
    rect
}

pub(crate) struct SlotWords {
    pub heading: &'static str,
    pub choose: &'static str,
    pub hover: &'static str,
}

/// Name of what is in a place, in a sentence.
pub(crate) fn slot_noun(slot: InputSlot, is_video: bool) -> &'static str {
    match slot {
        InputSlot::Start if is_video => "video",
        InputSlot::Control if is_video => "control video",
        InputSlot::Start => "start image",
        InputSlot::End => "end image",
        InputSlot::Mask => "mask",
        InputSlot::Reference => "reference image",
        InputSlot::Control => "control image",
        InputSlot::Prompt => "prompt image",
    }
}

pub(crate) fn slot_words(slot: InputSlot, spec: Option<&ModelSpec>) -> SlotWords {
    match slot {
        InputSlot::Start => {
            let changes = |spec: &ModelSpec| {
                !spec.start_image.is_possible() && spec.video_strength().is_some()
            };
            if spec.is_some_and(changes) {
                return SOURCE_VIDEO;
            }
            let takes_references = spec.is_some_and(|spec| spec.limits.max_references > 0);
            let (heading, hover) = start(spec.map(|spec| spec.image_role), takes_references);
            SlotWords {
                heading,
                choose: "Choose a start image",
                hover,
            }
        }
        InputSlot::Mask => SlotWords {
            heading: "Mask",
            choose: "Choose a mask",
            hover: match spec.map(|spec| spec.image_role) {
                _ if spec.is_some_and(|spec| !spec.mask.is_possible()) => {
                    "Which part of the video is regenerated: white is, black stays as it is. An image holds for every frame; a mask that is a video goes with it frame by frame. Drop a file here, or choose one"
                }
                Some(ImageRole::FirstFrame) => {
                    "Which part of the image moves: white does, black stays as it is in every frame. Drop an image of the same shape here, or choose a file"
                }
                _ => {
                    "Which part of the image is regenerated: white is, black stays. Drop an image of the same shape here, or choose a file"
                }
            },
        },
        InputSlot::End => SlotWords {
            heading: "End image",
            choose: "Choose an end image",
            hover: "The video ends with this image. Drop a second file, paste one, or choose a file",
        },
        InputSlot::Prompt => SlotWords {
            heading: "Images as prompts",
            choose: "Add images as prompts",
            hover: "What is made has the look and the things of these images, beside what the prompt says. The lower an image's strength, the more the prompt counts. Drop files here, or choose some",
        },
        InputSlot::Reference if spec.is_some_and(ModelSpec::edits_reference) => SlotWords {
            heading: "Image to edit",
            choose: "Add an image to edit",
            hover: "The prompt says what to change in this image. Drop a file anywhere in the window, paste one, or choose a file",
        },
        InputSlot::Reference => SlotWords {
            heading: "Reference images",
            choose: "Add reference images",
            hover: if spec.is_some_and(|spec| spec.limits.controls.takes_videos) {
                "Persons and things that are to appear in the video, one an image, best before a plain background. Each takes as long as four frames. Drop files anywhere in the window, paste one, or choose some"
            } else {
                "The model sees these images beside the prompt, which says what to do with them, such as: put the coat of image 2 on the woman of image 1. Drop files anywhere in the window, paste one, or choose some"
            },
        },
        InputSlot::Control if spec.is_some_and(|spec| spec.limits.controls.takes_videos) => {
            SlotWords {
                heading: "Control video",
                choose: "Add a control video",
                hover: "The result follows this video frame by frame: its edges, its depths, the poses in it. An image holds for every frame. Drop a file here, or choose one",
            }
        }
        InputSlot::Control => {
            let (heading, hover) = control(spec.and_then(|spec| spec.limits.controls.kind));
            SlotWords {
                heading,
                choose: "Add a control image",
                hover,
            }
        }
    }
}

const SOURCE_VIDEO: SlotWords = SlotWords {
    heading: "Video to change",
    choose: "Choose a video to change",
    hover: "The new video is made from this one; the strength says how much changes. Drop a video anywhere in the window, or choose a file. This model does not start from an image",
};

/// Heading and explanation of the start slot. If the model takes references, files that are dropped anywhere become those.
fn start(role: Option<ImageRole>, takes_references: bool) -> (&'static str, &'static str) {
    match role {
        Some(ImageRole::FirstFrame) if takes_references => (
            "Start image",
            "The video begins with this image. Drop a file here, or choose one. A video is continued",
        ),
        Some(ImageRole::Base) if takes_references => (
            "Start image",
            "The new image is made from this one; the strength says how much changes. Drop a file here, or choose one",
        ),
        Some(ImageRole::FirstFrame) | None => (
            "Start image",
            "The video begins with this image. Drop a file anywhere in the window, paste one, or choose a file. A video is continued",
        ),
        Some(ImageRole::Base) => (
            "Start image",
            "The new image is made from this one; the strength says how much changes. Drop a file anywhere in the window, paste one, or choose a file",
        ),
        Some(ImageRole::Canvas) => (
            "Image to fill",
            "Where the mask is white the image is regenerated, the rest stays. Drop a file anywhere in the window, paste one, or choose a file",
        ),
    }
}

fn control(kind: Option<ControlKind>) -> (&'static str, &'static str) {
    match kind {
        Some(ControlKind::Depth) => (
            "Depth map",
            "The result is laid out as this depth map says: white is near, black is far. Drop a file here, or choose one",
        ),
        Some(ControlKind::Edges) => (
            "Edges",
            "The result is drawn along these edges, white lines on black. Drop a file here, or choose one; of any other image the edges are drawn below",
        ),
        _ => (
            "Control images",
            "They guide the layout: edges, a depth map, a pose. Drop files here, or choose some",
        ),
    }
}

//! Control images: each with its ControlNet, strength, step range and edges.

use safelight_core::catalog::HelperKind;
use safelight_core::job::{CannyThresholds, ControlBy, ControlKind, ControlSettings, ControlUse};
use safelight_core::library::FoundControl;

use crate::window::downloads::panel::get_button;
use crate::window::inputs::ChosenInput;
use crate::window::inputs::panel::REMOVE_IMAGE_HOVER;
use crate::window::inputs::panel::references::add_ui;
use crate::window::inputs::panel::slot::{
    control_mask_ui, facts_ui, name_ui, seen, shown_ui, slot_words, thumb_ui,
};
use crate::window::layout::prelude::*;
use crate::window::thumbnails::EDGES_SIDE;

const CONTROL_NETWORK: &str = "ControlNet";
const CONTROL_NETWORK_HOVER: &str = "The network that has the result follow this image. Those for the chosen model are offered, out of ComfyUI's models/controlnet and models/model_patches, Forge's models/ControlNet and the folder controlnet of Safelight's models";
const CONTROL_KIND: &str = "Control type";
const CONTROL_STRENGTH: &str = "Strength";
const EDGES: &str = "Detect edges (Canny)";

pub(super) fn controls_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let takes = view
        .model()
        .map_or(ControlUse::NONE, |spec| spec.limits.controls);
    let controls = view.app.inputs.inputs_in(InputSlot::Control).to_vec();
    ui.add_space(theme::SMALL_GAP);
    ui.horizontal(|ui| {
        let words = slot_words(InputSlot::Control, view.model());
        group_label(ui, words.heading, words.hover);
        if takes.most > 1 {
            ui.weak(format!("{} of {}", controls.len(), takes.most as usize));
        }
    });
    let area = ui.vertical(|ui| {
        for (index, input) in controls.iter().enumerate() {
            control_ui(ui, view, (index, input), takes);
        }
        if controls.len() < takes.most as usize {
            add_ui(ui, view, InputSlot::Control, true);
        }
    });
    view.drawn.slots[InputSlot::Control as usize] = seen(ui, area.response.rect);
    if controls.is_empty() {
        // A missing input is not an error yet.
        if let Some(message) = view.error_of("control") {
            wide_note(ui, &message, NoteTone::Warning);
        }
    } else if !is_incomplete(view) {
        said_ui(ui, view, &["control"]);
    }
}

/// Returns whether there is an image whose network, or its mask, is not chosen yet, which is shown where it is chosen.
pub(crate) fn is_incomplete(view: &UiContext<'_>) -> bool {
    let Some(spec) = view.model() else {
        return false;
    };
    let mut controls = view.app.inputs.inputs_in(InputSlot::Control).iter();
    let lacks_network = spec.limits.controls.by == ControlBy::Networks
        && controls.any(|input| input.control.network.is_none());
    lacks_network || view.app.inputs.lacks_control_mask(spec).is_some()
}

fn control_ui(
    ui: &mut Ui,
    view: &mut UiContext<'_>,
    (index, input): (usize, &ChosenInput),
    takes: ControlUse,
) {
    let count = index + 1;
    ui.push_id(("control", index), |ui| {
        head_ui(ui, view, (index, input));
        if !takes.is_possible() {
            return;
        }
        let before = &input.control;
        let mut settings = before.clone();
        if takes.by == ControlBy::Networks {
            network_ui(ui, view, count, &mut settings);
        }
        control_mask_ui(ui, view, index, input);
        let kinds = kinds_of(view, &settings, takes);
        if !kinds.is_empty() {
            kind_ui(ui, count, kinds, &mut settings);
        }
        if matches!(takes.by, ControlBy::Networks | ControlBy::Layers) {
            strength_ui(ui, count, &mut settings);
            part_ui(ui, count, &mut settings);
        }
        let is_edges = |kind| kind == ControlKind::Edges;
        if takes.kind.or(settings.kind).is_none_or(is_edges) && !takes.takes_videos {
            edges_ui(ui, view, (count, input), &mut settings);
        }
        if settings != *before {
            view.set(move |app| {
                app.inputs
                    .change(InputSlot::Control, index, |input| input.control = settings);
            });
        }
        ui.add_space(theme::SMALL_GAP);
    });
}

fn head_ui(ui: &mut Ui, view: &mut UiContext<'_>, (index, input): (usize, &ChosenInput)) {
    let number = index + 1;
    let place = Vec2::splat(theme::IMAGE_SIDE);
    wide_frame(ui, field_frame(ui), |ui| {
        ui.horizontal(|ui| {
            let centred = Layout::centered_and_justified(egui::Direction::TopDown);
            let shown = ui.allocate_ui_with_layout(place, centred, |ui| {
                ui.set_min_size(place);
                thumb_ui(ui, view, InputSlot::Control, &input.source, place)
            });
            let image = shown.inner.interact(egui::Sense::click());
            let name = format!("Control image {number}: {}", input.source.file_name());
            shown_ui(view, &image, &name, &input.source);
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                ui.spacing_mut().button_padding.x = theme::ICON_PADDING;
                let name = format!("Remove control image {number}");
                let button = icon_button(ui, icons::TRASH, &name, REMOVE_IMAGE_HOVER);
                view.on_click(&button, InputsCommand::RemoveOne(InputSlot::Control, index));
                let words_width = vec2(ui.available_width(), place.y);
                ui.allocate_ui_with_layout(words_width, Layout::top_down(Align::LEFT), |ui| {
                    name_ui(ui, &input.source);
                    facts_ui(ui, &input.source);
                });
            });
        });
    });
}

fn networks<'a>(view: &UiContext<'a>) -> impl Iterator<Item = &'a FoundControl> {
    let family = view.model().map(|spec| spec.family);
    let found = view.app.inputs.control_networks.networks.found.iter();
    found.filter(move |found| Some(found.config.family) == family)
}

/// Control types of the network; all types if they are unknown.
fn kinds_of(
    view: &UiContext<'_>,
    settings: &ControlSettings,
    takes: ControlUse,
) -> &'static [ControlKind] {
    let Some(network) = settings.network.as_ref() else {
        return &[];
    };
    match networks(view).find(|found| found.path == *network) {
        Some(found) => found.config.kinds,
        None if takes.by == ControlBy::Networks => &ControlKind::ALL,
        None => &[],
    }
}

fn network_ui(ui: &mut Ui, view: &mut UiContext<'_>, count: usize, settings: &mut ControlSettings) {
    let found: Vec<&FoundControl> = networks(view).collect();
    row(ui, CONTROL_NETWORK, CONTROL_NETWORK_HOVER, |ui, _| {
        let (shown, hover) = match &settings.network {
            None => ("Choose one".to_owned(), CONTROL_NETWORK_HOVER.to_owned()),
            Some(path) => {
                // The name may be longer than its place.
                let known = found.iter().find(|it| it.path == *path);
                let name = known.map_or_else(|| file_name(path), |known| known.name.clone());
                (name, path.display().to_string())
            }
        };
        let choices = found.iter();
        let choices = choices.map(|it| (Some(it.path.clone()), &it.name, it.config.label));
        let list = list_box(ui, "network", &shown);
        choose_from(list, ui, &mut settings.network, choices)
            .on_hover_text(hover)
            .accessible_name(control_name(CONTROL_NETWORK, count));
    });
    if found.is_empty()
        && let Some(spec) = view.model()
    {
        let family = spec.family.label;
        let text = if view.app.inputs.control_networks.is_looking() {
            "Looking for ControlNets…".to_owned()
        } else {
            format!(
                "No ControlNet for {family} was found: choose a .safetensors file, or download one"
            )
        };
        field_hint(ui, &text);
        if !view.app.inputs.control_networks.is_looking() {
            row(ui, "", CONTROL_NETWORK_HOVER, |ui, _| {
                get_button(ui, view, HelperKind::ControlNet);
            });
        }
    } else if settings.network.is_none() {
        field_note(ui, "Choose the ControlNet for this image");
    }
    if settings.network.is_none() {
        row(ui, "", CONTROL_NETWORK_HOVER, |ui, _| {
            let button = ui.button("From a file…");
            let button = button.accessible_name(control_name("ControlNet file", count));
            view.on_press(&button, move |app| {
                app.inputs.control_networks.pick(count - 1, &app.cx);
            });
        });
    }
}

fn control_name(setting: &str, number: usize) -> String {
    format!("{setting} of control image {number}")
}

fn kind_ui(
    ui: &mut Ui,
    count: usize,
    kinds: &'static [ControlKind],
    settings: &mut ControlSettings,
) {
    let hover = "What the image shows; this ControlNet needs to know";
    row(ui, CONTROL_KIND, hover, |ui, _| {
        let shown = settings.kind.map_or("Not set", ControlKind::label);
        let list = list_box(ui, "kind", shown);
        let kinds = kinds.iter().map(|kind| (Some(*kind), kind.label(), ""));
        choose_from(list, ui, &mut settings.kind, kinds)
            .on_hover_text(hover)
            .accessible_name(control_name(CONTROL_KIND, count));
    });
}

fn strength_ui(ui: &mut Ui, count: usize, settings: &mut ControlSettings) {
    let hover = "How strongly the result follows the image: 0 not at all, 1 as the network was \
                trained; 0.6 to 0.8 leaves the prompt some freedom";
    row(ui, CONTROL_STRENGTH, hover, |ui, _| {
        let slider = Slider::new(&mut settings.strength, ControlSettings::STRENGTHS)
            .step_by(0.05)
            .max_decimals(2);
        wide_slider(ui, slider, hover).accessible_name(control_name(CONTROL_STRENGTH, count));
    });
}

fn part_ui(ui: &mut Ui, count: usize, settings: &mut ControlSettings) {
    let hover = "Range of steps in which the control image acts, from 0 to 1. The layout is \
                settled early: ending at 0.6 leaves the details to the prompt";
    row(ui, "Step range", hover, |ui, _| {
        let (from, until) = (settings.from, settings.until);
        let value = |edge, range| {
            DragValue::new(edge)
                .speed(0.005)
                .range(range)
                .max_decimals(2)
        };
        let values = [
            value(&mut settings.from, 0.0..=(until - 0.01).max(0.0)),
            value(&mut settings.until, (from + 0.01).min(1.0)..=1.0),
        ];
        let [from, to] = ["Acting from", "Acting to"].map(|name| control_name(name, count));
        number_pair(ui, RUN_TO, [&from, &to], [hover; 2], values);
    });
}

fn edges_ui(
    ui: &mut Ui,
    view: &UiContext<'_>,
    (count, input): (usize, &ChosenInput),
    settings: &mut ControlSettings,
) {
    let mut is_made = settings.made.is_some();
    ui.checkbox(&mut is_made, EDGES)
        .on_hover_text(
            "Shows the model the edges of this image (Canny), white lines on black, instead of \
            the image itself. Off for an image that is edges already",
        )
        .accessible_name(control_name(EDGES, count));
    settings.made = is_made.then(|| settings.made.unwrap_or_default());
    let Some(edges) = &mut settings.made else {
        return;
    };
    row(
        ui,
        "Thresholds",
        "How much light and dark must differ where a line is drawn, 1 to 1000. Lower numbers draw \
        more and longer lines",
        |ui, _| {
            let width = ((ui.available_width() - ui.spacing().item_spacing.x) / 2.0).floor();
            let (least, most) = CannyThresholds::THRESHOLDS.into_inner();
            let (lowest, highest) = (edges.low, edges.high);
            let low = DragValue::new(&mut edges.low)
                .range(least..=highest)
                .prefix("low ");
            number(ui, width, low)
                .on_hover_text(
                    "Where light and dark differ by this much, a line goes on. Lower: longer lines",
                )
                .accessible_name(control_name("Low threshold", count));
            let high = DragValue::new(&mut edges.high)
                .range(lowest..=most)
                .prefix("high ");
            number(ui, ui.available_width(), high)
                .on_hover_text(
                    "Where light and dark differ by this much, a line begins. Lower: more lines",
                )
                .accessible_name(control_name("High threshold", count));
        },
    );
    drawn_ui(ui, view, input, *edges);
}

/// The lines as the model is shown them, large enough to see what a threshold does.
fn drawn_ui(ui: &mut Ui, view: &UiContext<'_>, input: &ChosenInput, edges: CannyThresholds) {
    let (width, height) = input.source.size();
    let across = ui.available_width();
    let down = across * height as f32 / width.max(1) as f32;
    let size = vec2(across, down.min(theme::EDGES_HEIGHT));
    let shown = ThumbSource::Edges(input.source.path().to_owned(), edges);
    let thumb = view.app.cx.thumbs.get(shown, EDGES_SIDE);
    let (rect, _) = ui.allocate_exact_size(size, egui::Sense::hover());
    ui.painter()
        .rect_filled(rect, theme::RADIUS, palette(ui).field);
    if let Some(Ok(thumb)) = thumb {
        let file = input.source.file_name();
        let image = Image::new(thumb)
            .fit_to_exact_size(size)
            .alt_text(format!("Edges of {file}"));
        ui.put(rect, image);
    }
}

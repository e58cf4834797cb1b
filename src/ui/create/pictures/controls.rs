//! The pictures that say where things are to be: each with its network, its strength, its part of the steps and its edges.
//!
//! How files get there is [`crate::app::inputs`]'s.

use egui::{Align, DragValue, Layout, Slider, Ui, vec2};
use safelight_core::job::{ControlBy, ControlKind, ControlSettings, ControlUse, Edges};
use safelight_core::library::FoundControl;

use crate::app::commands::{InputsCommand, PlayerCommand};
use crate::app::inputs::{Input, Slot};
use crate::ui::create::advanced::said_ui;
use crate::ui::create::pictures::references::add_ui;
use crate::ui::create::pictures::slot::thumb_ui;
use crate::ui::create::pictures::words;
use crate::ui::widgets::{
    field_hint, group_label, icon_button, list_box, number, palette, row, wide_note, wide_slider,
};
use crate::ui::{View, icons, theme};

pub(super) fn controls_ui(ui: &mut Ui, view: &mut View<'_>) {
    let takes = view
        .model()
        .map_or(ControlUse::NONE, |spec| spec.limits.controls);
    let controls = view.app.inputs.of(Slot::Control).to_vec();
    ui.add_space(theme::SMALL_GAP);
    ui.horizontal(|ui| {
        let words = words::slot(Slot::Control, view.model());
        group_label(ui, words.heading, words.explanation);
        if takes.most > 1 {
            let count = words::num_references(controls.len(), takes.most as usize);
            ui.weak(count);
        }
    });
    let area = ui.vertical(|ui| {
        for (index, input) in controls.iter().enumerate() {
            control_ui(ui, view, (index, input), takes);
        }
        if controls.len() < takes.most as usize {
            ui.horizontal(|ui| add_ui(ui, view, Slot::Control, controls.is_empty()));
        }
    });
    let visible = area.response.rect.intersect(ui.clip_rect());
    view.drawn.slots[Slot::Control as usize] = visible.is_positive().then_some(visible);
    if controls.is_empty() {
        // What is only missing yet is no mistake.
        if let Some(message) = view.error_of("control") {
            wide_note(ui, &message, palette(ui).amber);
        }
    } else {
        said_ui(ui, view, &["control"]);
    }
}

fn control_ui(
    ui: &mut Ui,
    view: &mut View<'_>,
    (index, input): (usize, &Input),
    takes: ControlUse,
) {
    let count = index + 1;
    ui.push_id(("control", index), |ui| {
        head_ui(ui, view, (index, input));
        let before = &input.control;
        let mut settings = before.clone();
        if takes.by == ControlBy::Networks {
            network_ui(ui, view, count, &mut settings);
        }
        let kinds = kinds_of(view, &settings, takes);
        if !kinds.is_empty() {
            kind_ui(ui, count, kinds, &mut settings);
        }
        if matches!(takes.by, ControlBy::Networks | ControlBy::Layers) {
            strength_ui(ui, count, &mut settings);
            steps_ui(ui, count, &mut settings);
        }
        let is_edges = |kind| kind == ControlKind::Edges;
        if takes.kind.or(settings.kind).is_none_or(is_edges) {
            edges_ui(ui, count, &mut settings);
        }
        if settings != *before {
            view.push(InputsCommand::SetControl(index, settings));
        }
        ui.add_space(theme::SMALL_GAP);
    });
}

/// The picture as the model is shown it, its name, and what takes it out.
fn head_ui(ui: &mut Ui, view: &mut View<'_>, (index, input): (usize, &Input)) {
    let number = index + 1;
    let side = theme::REFERENCE_SIDE;
    ui.horizontal(|ui| {
        let place = vec2(side, side);
        let shown = ui.allocate_ui_with_layout(
            place,
            Layout::centered_and_justified(egui::Direction::TopDown),
            |ui| {
                ui.set_min_size(place);
                thumb_ui(ui, view, Slot::Control, input, place)
            },
        );
        let picture = shown.inner.interact(egui::Sense::click());
        let file = input.source.file_name();
        let name = words::control_picture(number, &file);
        picture.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &name));
        if picture.clicked() {
            let path = input.source.path().to_path_buf();
            view.push(PlayerCommand::ShowInput(path));
        }
        let (width, height) = input.source.size();
        picture.on_hover_text(format!("{file}\n{}", words::pixels(width, height)));
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let name = words::remove_control(number);
            if icon_button(ui, icons::TRASH, &name, words::REMOVE_PICTURE_HOVER).clicked() {
                view.push(InputsCommand::RemoveOne(Slot::Control, index));
            }
            ui.with_layout(Layout::top_down(Align::LEFT), |ui| {
                ui.add(egui::Label::new(&file).truncate());
                ui.weak(words::pixels(width, height));
                if let Some(mask) = &input.control_mask {
                    let mask = mask.file_name().unwrap_or_default().to_string_lossy();
                    ui.weak(words::control_mask(&mask));
                }
            });
        });
    });
}

/// Those that act on the chosen model.
fn networks<'a>(view: &View<'a>) -> impl Iterator<Item = &'a FoundControl> {
    let family = view.model().map(|spec| spec.family);
    let found = view.app.inputs.control_networks.found.iter();
    found.filter(move |found| Some(found.config.family) == family)
}

/// What the network must be told; all there is where that is not known.
fn kinds_of(
    view: &View<'_>,
    settings: &ControlSettings,
    takes: ControlUse,
) -> &'static [ControlKind] {
    let Some(network) = settings.network.as_ref() else {
        return &[];
    };
    let known = networks(view).find(|found| found.path == *network);
    match known {
        Some(found) => found.config.kinds,
        None if takes.by == ControlBy::Networks => &ControlKind::ALL,
        None => &[],
    }
}

fn network_ui(ui: &mut Ui, view: &View<'_>, count: usize, settings: &mut ControlSettings) {
    let found: Vec<FoundControl> = networks(view).cloned().collect();
    row(
        ui,
        words::CONTROL_NETWORK,
        words::CONTROL_NETWORK_HOVER,
        |ui, _| {
            let chosen = settings.network.clone();
            let known = found.iter().find(|it| Some(&it.path) == chosen.as_ref());
            let shown = match (known, &chosen) {
                (Some(found), _) => found.label(),
                (None, Some(path)) => {
                    let name = path.file_name().unwrap_or_default();
                    name.to_string_lossy().into_owned()
                }
                (None, None) => words::NO_NETWORK.to_owned(),
            };
            list_box(ui, "network", &shown)
                .show_ui(ui, |ui| {
                    for it in &found {
                        let path = Some(it.path.clone());
                        ui.selectable_value(&mut settings.network, path, it.label());
                    }
                })
                .response
                .on_hover_text(words::CONTROL_NETWORK_HOVER)
                .accessible_name(words::of_control(words::CONTROL_NETWORK, count));
        },
    );
    if found.is_empty()
        && let Some(spec) = view.model()
    {
        field_hint(ui, &words::no_networks(spec.family.label));
    }
}

fn kind_ui(
    ui: &mut Ui,
    count: usize,
    kinds: &'static [ControlKind],
    settings: &mut ControlSettings,
) {
    let hover = words::CONTROL_KIND_HOVER;
    row(ui, words::CONTROL_KIND, hover, |ui, _| {
        let shown = settings.kind.map_or(words::NO_KIND, ControlKind::label);
        list_box(ui, "kind", shown)
            .show_ui(ui, |ui| {
                for &kind in kinds {
                    ui.selectable_value(&mut settings.kind, Some(kind), kind.label());
                }
            })
            .response
            .on_hover_text(hover)
            .accessible_name(words::of_control(words::CONTROL_KIND, count));
    });
}

fn strength_ui(ui: &mut Ui, count: usize, settings: &mut ControlSettings) {
    let hover = words::CONTROL_STRENGTH_HOVER;
    row(ui, words::CONTROL_STRENGTH, hover, |ui, _| {
        let slider = Slider::new(&mut settings.strength, ControlSettings::STRENGTHS)
            .step_by(0.05)
            .max_decimals(2);
        wide_slider(ui, slider, hover)
            .accessible_name(words::of_control(words::CONTROL_STRENGTH, count));
    });
}

fn steps_ui(ui: &mut Ui, count: usize, settings: &mut ControlSettings) {
    let hover = words::CONTROL_STEPS_HOVER;
    row(ui, words::CONTROL_STEPS, hover, |ui, _| {
        let width = (ui.available_width() - ui.spacing().item_spacing.x) / 2.0;
        let (from, until) = (settings.from, settings.until);
        for (value, range) in [
            (&mut settings.from, 0.0..=(until - 0.01).max(0.0)),
            (&mut settings.until, (from + 0.01).min(1.0)..=1.0),
        ] {
            let value = DragValue::new(value)
                .speed(0.01)
                .range(range)
                .max_decimals(2);
            number(ui, width, value)
                .on_hover_text(hover)
                .accessible_name(words::of_control(words::CONTROL_STEPS, count));
        }
    });
}

fn edges_ui(ui: &mut Ui, count: usize, settings: &mut ControlSettings) {
    ui.horizontal(|ui| {
        let mut is_made = settings.made.is_some();
        ui.checkbox(&mut is_made, words::EDGES)
            .on_hover_text(words::EDGES_HOVER)
            .accessible_name(words::of_control(words::EDGES, count));
        settings.made = is_made.then(|| settings.made.unwrap_or_default());
        let Some(Edges { low, high }) = &mut settings.made else {
            return;
        };
        let width = (ui.available_width() - ui.spacing().item_spacing.x) / 2.0;
        let (least, most) = Edges::THRESHOLDS.into_inner();
        let (lowest, highest) = (*low, *high);
        for (value, range, hover) in [
            (low, least..=highest, words::EDGES_LOW_HOVER),
            (high, lowest..=most, words::EDGES_HIGH_HOVER),
        ] {
            number(ui, width, DragValue::new(value).range(range))
                .on_hover_text(hover)
                .accessible_name(words::of_control(hover, count));
        }
    });
}

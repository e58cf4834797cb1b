//! Actions of post-processing: upscaling and frame interpolation, and the networks for them; and dragging of results.

use std::path::PathBuf;

use egui::{Area, DragAndDrop, Order};
use safelight_core::finish::{InstalledNetwork, NewRate};
use safelight_core::networks::{IfnetConfig, UpscalerConfig};

use crate::window::commands::PostprocessAction;
use crate::window::create::choices::SlotTarget;
use crate::window::layout::prelude::*;
use crate::window::results::panel::UNREADABLE;
use crate::window::results::panel::{ResultAction, ResultSubject};
use crate::window::results::{NO_RIFE, NO_UPSCALER, NetworkChoice};

const MAX_NETWORKS: usize = 12;
/// Frames a second that are offered: of films, of television and of screens.
const RATES: [u32; 7] = [24, 25, 30, 48, 50, 60, 120];
const TO_A_RATE_MORE: &str = "RIFE interpolates frames up to this rate. Duration stays the same";

pub(super) fn upscale_actions(view: &UiContext<'_>, subject: &ResultSubject) -> Vec<ResultAction> {
    let make =
        |factor| FinishCommand::Make(subject.path.clone(), PostprocessAction::Upscale(factor));
    if view.app.finishing.upscalers.chosen().is_none() {
        // Pressed it says what to get.
        return vec![ResultAction::new(
            icons::ARROWS_OUT,
            "Upscale",
            NO_UPSCALER,
            make(2),
        )];
    }
    let unreadable = subject.is_unreadable.then_some(UNREADABLE);
    let twice = "Queue a job that doubles width and height with the selected upscaler";
    let four_times = "Queue a job that quadruples width and height with the selected upscaler";
    let action = |(factor, explanation)| {
        let name = format!("Upscale ×{factor}");
        let make = make(factor);
        ResultAction::new(icons::ARROWS_OUT, name, explanation, make).unless(unreadable)
    };
    [(2, twice), (4, four_times)].map(action).into()
}

/// Nothing for images.
pub(super) fn frames_actions(view: &UiContext<'_>, subject: &ResultSubject) -> Vec<ResultAction> {
    if !subject.is_video {
        return Vec::new();
    }
    let make = |rate| FinishCommand::Make(subject.path.clone(), PostprocessAction::Frames(rate));
    if view.app.finishing.interpolators.chosen().is_none() {
        let make = make(NewRate::Times(2));
        return vec![ResultAction::new(
            icons::FILM,
            "Interpolate frames",
            NO_RIFE,
            make,
        )];
    }
    let unreadable = subject.is_unreadable.then_some(UNREADABLE);
    let twice = "RIFE adds a frame between every two: double the frame rate, same duration";
    let four_times =
        "RIFE adds three frames between every two: four times the frame rate, same duration";
    let times = [(2, twice), (4, four_times)].map(|(times, explanation)| {
        let name = format!("Interpolate frames ×{times}");
        ResultAction::new(icons::FILM, name, explanation, make(NewRate::Times(times)))
    });
    let rates = RATES.map(|fps| {
        let (name, explanation) = (format!("{fps} frames a second"), TO_A_RATE_MORE);
        let wanted = f64::from(fps);
        let has_it = subject.fps.is_some_and(|known| wanted <= known);
        ResultAction::new(icons::CLOCK, name, explanation, make(NewRate::Fps(wanted)))
            .unless(has_it.then_some("The video already has this frame rate"))
    });
    let to_a_rate = ResultAction::of_several(
        icons::CLOCK,
        "Interpolate to frame rate".to_owned(),
        TO_A_RATE_MORE,
        rates.into(),
    );
    let all = times.into_iter().chain([to_a_rate]);
    all.map(|action| action.unless(unreadable)).collect()
}

pub fn network_actions(view: &UiContext<'_>, is_video: bool) -> Vec<ResultAction> {
    let finishing = &view.app.finishing;
    let upscalers = NetworkChooser {
        networks: &finishing.upscalers,
        name: |name| format!("Upscaler: {name}"),
        explanation: "Upscaler used from now on",
        label: InstalledNetwork::<UpscalerConfig>::label,
        choose: FinishCommand::UseUpscaler,
    };
    let interpolators = NetworkChooser {
        networks: &finishing.interpolators,
        name: |name| format!("RIFE: {name}"),
        explanation: "RIFE model used for frame interpolation",
        label: InstalledNetwork::<IfnetConfig>::label,
        choose: FinishCommand::UseInterpolator,
    };
    let interpolators = interpolators.action().filter(|_| is_video);
    upscalers
        .action()
        .into_iter()
        .chain(interpolators)
        .collect()
}

struct NetworkChooser<'a, C> {
    networks: &'a NetworkChoice<C>,
    /// Of the entry, from the name of the network that is used.
    name: fn(&str) -> String,
    explanation: &'static str,
    label: fn(&InstalledNetwork<C>) -> String,
    choose: fn(PathBuf) -> FinishCommand,
}

impl<C> NetworkChooser<'_, C> {
    /// `None` without a choice.
    fn action(&self) -> Option<ResultAction> {
        let chosen = self.networks.chosen()?;
        if self.networks.found.len() < 2 {
            return None;
        }
        let of_network = |found: &InstalledNetwork<C>| {
            let is_chosen = found.path == chosen.path;
            let icon = if is_chosen {
                icons::CHECK_CIRCLE
            } else {
                icons::CIRCLE
            };
            let command = (self.choose)(found.path.clone());
            ResultAction::new(icon, (self.label)(found), self.explanation, command)
        };
        let first = self.networks.found.iter().take(MAX_NETWORKS);
        let (name, choices) = ((self.name)(&chosen.name), first.map(of_network).collect());
        let explanation = self.explanation;
        Some(ResultAction::of_several(
            icons::LIST,
            name,
            explanation,
            choices,
        ))
    }
}

#[derive(Clone, Debug)]
struct DraggedResults {
    /// Name of the file, or how many there are.
    name: String,
    /// One video, which only fits the start slot.
    is_video: bool,
    paths: Vec<PathBuf>,
}

pub fn drag_source(response: &Response, subject: impl FnOnce() -> ResultSubject) {
    drag_results(response, || vec![subject()]);
}

/// `subjects` are dragged together; there is at least one.
pub fn drag_results(response: &Response, subjects: impl FnOnce() -> Vec<ResultSubject>) {
    if !response.drag_started() {
        return;
    }
    let subjects = subjects();
    let name = match subjects.as_slice() {
        [one] => one
            .path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        several => format!("{} results", several.len()),
    };
    response.dnd_set_drag_payload(DraggedResults {
        name,
        is_video: subjects.len() == 1 && subjects[0].is_video,
        paths: subjects.into_iter().map(|it| it.path).collect(),
    });
}

pub fn drag_ui(ui: &Ui, view: &mut UiContext<'_>) {
    let Some(dragged) = DragAndDrop::payload::<DraggedResults>(ui.ctx()) else {
        return;
    };
    let Some(pointer) = ui.ctx().pointer_interact_pos() else {
        return;
    };
    let palette = palette(ui);
    let places = InputSlot::ALL.into_iter().zip(view.drawn.slots);
    // A video only fits the start slot.
    let places = places.filter(|(slot, _)| !dragged.is_video || *slot == InputSlot::Start);
    let mut target = None;
    Area::new(Id::unique("dragged-result"))
        .order(Order::Tooltip)
        .fixed_pos(pointer + egui::vec2(14.0, 10.0))
        .interactable(false)
        .show(ui.ctx(), |area| {
            let painter = ui.ctx().layer_painter(area.layer_id());
            for (slot, place) in places {
                let Some(place) = place else {
                    continue;
                };
                let is_over = place.contains(pointer);
                let colour = if is_over {
                    palette.accent
                } else {
                    palette.amber
                };
                let corners = CornerRadius::same(theme::RADIUS);
                painter.rect_stroke(place, corners, Stroke::new(2.0, colour), StrokeKind::Inside);
                if is_over {
                    target = Some(slot);
                }
            }
            let galley = painter.layout_no_wrap(
                format!("Drop {} on an image in the form", dragged.name),
                egui::TextStyle::Small.resolve(area.style()),
                palette.text,
            );
            let place = Align2::LEFT_TOP.anchor_size(area.min_rect().min, galley.size());
            painter.rect_filled(place.expand(4.0), theme::RADIUS, palette.raised);
            painter.galley(place.min, galley, palette.text);
        });
    ui.ctx().set_cursor_icon(CursorIcon::Grabbing);
    let is_let_go = ui.input(|input| input.pointer.any_released());
    if let Some(slot) = target.filter(|_| is_let_go) {
        view.push(command(&dragged, slot));
    }
}

fn command(dragged: &DraggedResults, slot: InputSlot) -> AppCommand {
    match dragged.paths.as_slice() {
        [path] if dragged.is_video => InputsCommand::ContinueFrom(path.clone()).into(),
        paths => InputsCommand::Open(paths.to_vec(), SlotTarget::onto(Some(slot))).into(),
    }
}

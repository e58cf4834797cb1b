//! Actions of post-processing: upscaling and frame interpolation, and the networks for them; and dragging of results.

use std::path::PathBuf;

use egui::{Area, DragAndDrop, Order};
use safelight_core::finish::{InstalledNetwork, NewRate};

use crate::window::create::choices::SlotTarget;
use crate::window::inputs::NetworkChoice;
use crate::window::layout::prelude::*;
use crate::window::results::panel::{ResultAction, ResultSubject, UNREADABLE};
use crate::window::results::{NO_DEPTH, NO_RIFE, NO_UPSCALER};

const MAX_NETWORKS: usize = 12;
/// Frames a second that are offered: of films, of television and of screens.
const RATES: [u32; 7] = [24, 25, 30, 48, 50, 60, 120];
const TO_A_RATE_MORE: &str = "RIFE interpolates frames up to this rate. Duration stays the same";

pub(super) fn upscale_actions(view: &UiContext<'_>, subject: &ResultSubject) -> Vec<ResultAction> {
    let make =
        |factor| FinishCommand::Make(subject.path.clone(), PostprocessAction::Upscale(factor));
    if view.app.finishing.upscalers.chosen().is_none() {
        // Pressed it says what to get.
        let upscale = ResultAction::new(icons::ARROWS_OUT, "Upscale", make(2));
        return vec![upscale.explained(NO_UPSCALER)];
    }
    let unreadable = subject.is_unreadable.then_some(UNREADABLE);
    let twice = "Queue a job that doubles width and height with the selected upscaler";
    let four_times = "Queue a job that quadruples width and height with the selected upscaler";
    let action = |(factor, hover)| {
        let name = format!("Upscale ×{factor}");
        let upscale = ResultAction::new(icons::ARROWS_OUT, name, make(factor));
        upscale.explained(hover).unless(unreadable)
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
        let interpolate = ResultAction::new(icons::FILM, "Interpolate frames", make);
        return vec![interpolate.explained(NO_RIFE)];
    }
    let unreadable = subject.is_unreadable.then_some(UNREADABLE);
    let twice = "RIFE adds a frame between every two: double the frame rate, same duration";
    let four_times =
        "RIFE adds three frames between every two: four times the frame rate, same duration";
    let times = [(2, twice), (4, four_times)].map(|(times, hover)| {
        let name = format!("Interpolate frames ×{times}");
        let make = make(NewRate::Times(times));
        ResultAction::new(icons::FILM, name, make).explained(hover)
    });
    let rates = RATES.map(|fps| {
        let (name, wanted) = (format!("{fps} frames a second"), f64::from(fps));
        let has_it = subject.fps.is_some_and(|known| wanted <= known);
        ResultAction::new(icons::CLOCK, name, make(NewRate::Fps(wanted)))
            .explained(TO_A_RATE_MORE)
            .unless(has_it.then_some("The video already has this frame rate"))
    });
    let name = "Interpolate to frame rate";
    let to_a_rate = ResultAction::of_several(icons::CLOCK, name, rates.into());
    let all = times
        .into_iter()
        .chain([to_a_rate.explained(TO_A_RATE_MORE)]);
    all.map(|action| action.unless(unreadable)).collect()
}

pub(super) fn depth_action(view: &UiContext<'_>, subject: &ResultSubject) -> ResultAction {
    let make = FinishCommand::Make(subject.path.clone(), PostprocessAction::Depth);
    let action = ResultAction::new(icons::IMAGE, "Depth map", make);
    if view.app.finishing.depth.chosen().is_none() {
        return action.explained(NO_DEPTH);
    }
    let unreadable = subject.is_unreadable.then_some(UNREADABLE);
    let explanation = "Queue a job that makes a control image of the depth: near is bright";
    action.explained(explanation).unless(unreadable)
}

pub fn network_actions(view: &UiContext<'_>, is_video: bool) -> Vec<ResultAction> {
    let finishing = &view.app.finishing;
    let hover = "Upscaler used from now on";
    let upscaler = network_action(&finishing.upscalers, "Upscaler", hover, |it| {
        (it.label(), FinishCommand::UseUpscaler(it.path.clone()))
    });
    let hover = "RIFE model used for frame interpolation";
    let interpolator = network_action(&finishing.interpolators, "RIFE", hover, |it| {
        (it.label(), FinishCommand::UseInterpolator(it.path.clone()))
    });
    let interpolator = interpolator.filter(|_| is_video);
    let hover = "Model used for depth maps";
    let depth = network_action(&finishing.depth, "Depth", hover, |it| {
        (it.name.clone(), FinishCommand::UseDepth(it.path.clone()))
    });
    let all = upscaler.into_iter().chain(interpolator);
    all.chain(depth).collect()
}

/// Choice of the network of this `kind`; `None` where there is only one. `choose`: label and command of each.
fn network_action<C>(
    networks: &NetworkChoice<C>,
    kind: &str,
    hover: &'static str,
    choose: impl Fn(&InstalledNetwork<C>) -> (String, FinishCommand),
) -> Option<ResultAction> {
    let chosen = networks.chosen().filter(|_| networks.found.len() > 1)?;
    let choices = networks.found.iter().take(MAX_NETWORKS).map(|found| {
        let is_chosen = found.path == chosen.path;
        let icon = if is_chosen {
            icons::CHECK_CIRCLE
        } else {
            icons::CIRCLE
        };
        let (label, command) = choose(found);
        ResultAction::new(icon, label, command).explained(hover)
    });
    let name = format!("{kind}: {}", chosen.name);
    let action = ResultAction::of_several(icons::LIST, name, choices.collect());
    Some(action.explained(hover))
}

#[derive(Clone, Debug)]
struct DraggedResults {
    /// One video, which only fits the start slot.
    is_video: bool,
    paths: Vec<PathBuf>,
}

pub fn drag_source(response: &Response, subject: impl FnOnce() -> ResultSubject) {
    drag_results(response, || vec![subject()]);
}

/// `subjects` are dragged together; there is at least one.
pub fn drag_results(response: &Response, subjects: impl FnOnce() -> Vec<ResultSubject>) {
    if response.drag_started() {
        let subjects = subjects();
        response.dnd_set_drag_payload(DraggedResults {
            is_video: matches!(&subjects[..], [one] if one.is_video),
            paths: subjects.into_iter().map(|it| it.path).collect(),
        });
    }
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
    let name = match &dragged.paths[..] {
        [one] => file_name(one),
        several => format!("{} results", several.len()),
    };
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
                let edge = Stroke::new(2.0, colour);
                painter.rect_stroke(place, theme::RADIUS, edge, StrokeKind::Inside);
                if is_over {
                    target = Some(slot);
                }
            }
            let galley = painter.layout_no_wrap(
                format!("Drop {name} on an image in the form"),
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
        view.push(match &dragged.paths[..] {
            [path] if dragged.is_video => InputsCommand::ContinueFrom(path.clone()),
            paths => InputsCommand::Open(paths.to_vec(), SlotTarget::onto(Some(slot))),
        });
    }
}

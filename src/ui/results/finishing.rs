//! What makes something of a finished result: larger, with more frames a second, and by which of the networks.

use std::path::PathBuf;

use safelight_core::finish::{InstalledNetwork, NewRate};
use safelight_core::networks::{IfnetConfig, UpscalerConfig};

use super::{Action, Subject};
use crate::app::commands::{Finish, FinishCommand};
use crate::app::finishing::Networks;
use crate::ui::results::UNREADABLE;
use crate::ui::{View, icons};

/// Networks that are listed in a menu.
const MAX_NETWORKS: usize = 12;
/// Frames a second that are offered: of films, of television and of screens.
const RATES: [u32; 7] = [24, 25, 30, 48, 50, 60, 120];
const TO_A_RATE_MORE: &str = "RIFE interpolates frames up to this rate. Duration stays the same";

/// Nothing where no upscaler is on this machine.
pub(super) fn upscale_actions(view: &View<'_>, subject: &Subject) -> Vec<Action> {
    if view.app.finishing.upscalers.chosen().is_none() {
        return Vec::new();
    }
    let unreadable = subject.is_unreadable.then_some(UNREADABLE);
    let factors = [
        (
            2,
            "Upscale ×2",
            "Queue a job that doubles width and height with the selected upscaler",
        ),
        (
            4,
            "Upscale ×4",
            "Queue a job that quadruples width and height with the selected upscaler",
        ),
    ];
    let action = |(factor, name, explanation)| {
        let make = FinishCommand::Make(subject.path.clone(), Finish::Upscale(factor));
        Action::new(icons::ARROWS_OUT, name, explanation, make).unless(unreadable)
    };
    factors.into_iter().map(action).collect()
}

/// Nothing for pictures, and where no RIFE is on this machine.
pub(super) fn frames_actions(view: &View<'_>, subject: &Subject) -> Vec<Action> {
    if !subject.is_clip || view.app.finishing.interpolators.chosen().is_none() {
        return Vec::new();
    }
    let unreadable = subject.is_unreadable.then_some(UNREADABLE);
    let make = |rate| FinishCommand::Make(subject.path.clone(), Finish::Frames(rate));
    let times = [
        (
            2,
            "Interpolate frames ×2",
            "RIFE adds a frame between every two: double the frame rate, same duration",
        ),
        (
            4,
            "Interpolate frames ×4",
            "RIFE adds three frames between every two: four times the frame rate, same duration",
        ),
    ];
    let times = times.map(|(times, name, explanation)| {
        Action::new(icons::FILM, name, explanation, make(NewRate::Times(times)))
    });
    let rates = RATES.map(|fps| {
        let (name, explanation) = (format!("{fps} frames a second"), TO_A_RATE_MORE);
        let wanted = f64::from(fps);
        let has_it = subject.fps.is_some_and(|known| wanted <= known);
        Action::new(icons::CLOCK, name, explanation, make(NewRate::Fps(wanted)))
            .unless(has_it.then_some("The video already has this frame rate"))
    });
    let to_a_rate = Action::of_several(
        icons::CLOCK,
        "Interpolate to frame rate",
        TO_A_RATE_MORE,
        rates.into(),
    );
    let all = times.into_iter().chain([to_a_rate]);
    all.map(|action| action.unless(unreadable)).collect()
}

/// Which network upscales this, and which makes frames between its frames, where there are several.
pub fn network_actions(view: &View<'_>, is_clip: bool) -> Vec<Action> {
    let finishing = &view.app.finishing;
    let upscalers = Choosing {
        networks: &finishing.upscalers,
        name: |name| format!("Upscaler: {name}"),
        explanation: "Upscaler used from now on",
        label: InstalledNetwork::<UpscalerConfig>::label,
        choose: FinishCommand::UseUpscaler,
    };
    let interpolators = Choosing {
        networks: &finishing.interpolators,
        name: |name| format!("RIFE: {name}"),
        explanation: "RIFE model used for frame interpolation",
        label: InstalledNetwork::<IfnetConfig>::label,
        choose: FinishCommand::UseInterpolator,
    };
    let interpolators = interpolators.action().filter(|_| is_clip);
    upscalers
        .action()
        .into_iter()
        .chain(interpolators)
        .collect()
}

/// Networks that do one thing, one of which is used.
struct Choosing<'a, C> {
    networks: &'a Networks<C>,
    /// Of the entry, from the name of the network that is used.
    name: fn(&str) -> String,
    explanation: &'static str,
    label: fn(&InstalledNetwork<C>) -> String,
    choose: fn(PathBuf) -> FinishCommand,
}

impl<C> Choosing<'_, C> {
    /// Nothing where there is no choice.
    fn action(&self) -> Option<Action> {
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
            Action::new(icon, (self.label)(found), self.explanation, command)
        };
        let first = self.networks.found.iter().take(MAX_NETWORKS);
        let name = (self.name)(&chosen.name);
        let choices = first.map(of_network).collect();
        Some(Action::of_several(
            icons::LIST,
            name,
            self.explanation,
            choices,
        ))
    }
}

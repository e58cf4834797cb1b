//! ControlNets of a file: what it says of them, and the installed ones of their names.

use crate::restore::names::file_name;
use serde::Serialize;

use super::a1111::{pairs, value_of};
use super::fields::number_of_text;
use super::names::stem;
use super::{ForeignSettings, names, short};
use crate::job::{ControlBy, ControlSettings};
use crate::library::FoundControl;
use crate::model::{ControlKind, ModelSpec};

/// ControlNet of a file. Its control image is not in the file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RestoredControl {
    pub network: Option<String>,
    /// File name of the control image.
    pub image: Option<String>,
    /// Type of the control image, where the file says it.
    pub kind: Option<ControlKind>,
    pub strength: f64,
    /// Part of the steps in which it acts, from 0 to 1.
    pub from: f64,
    pub until: f64,
}

/// Parts of the names of preprocessors and of unions' types in other programs, without case and punctuation; the first
/// that a name has counts.
const KINDS: [(&str, ControlKind); 15] = [
    ("canny", ControlKind::Edges),
    ("lineart", ControlKind::Edges),
    ("mlsd", ControlKind::StraightLines),
    ("scribble", ControlKind::Scribble),
    ("softedge", ControlKind::SoftEdges),
    ("hed", ControlKind::SoftEdges),
    ("pidi", ControlKind::SoftEdges),
    ("depth", ControlKind::Depth),
    ("normal", ControlKind::Normals),
    ("pose", ControlKind::Pose),
    ("seg", ControlKind::Segments),
    ("tile", ControlKind::Tile),
    ("blur", ControlKind::Blur),
    ("inpaint", ControlKind::Inpaint),
    ("repaint", ControlKind::Inpaint),
];

/// The kind of control image that a preprocessor or a union's type in another program is for.
pub(super) fn kind_named(name: &str) -> Option<ControlKind> {
    let name = names::plain(name);
    let found = KINDS.iter().find(|(part, _)| name.contains(part));
    found.map(|(_, kind)| *kind)
}

impl RestoredControl {
    /// ControlNet with its strength, 1 where the file says none, and the range of the steps, all where it says none.
    pub(super) fn new(network: Option<String>, [strength, from, until]: [Option<f64>; 3]) -> Self {
        Self {
            network,
            image: None,
            kind: None,
            strength: strength.unwrap_or(1.0),
            from: from.unwrap_or(0.0),
            until: until.unwrap_or(1.0),
        }
    }

    pub(super) fn described(&self) -> String {
        let name = |name: &Option<String>| name.clone().unwrap_or_default();
        let network = format!(" {}", name(&self.network));
        let percent = |part: f64| (part * 1000.0).round() / 10.0;
        let image = match &self.image {
            Some(image) => format!(", {image},"),
            None => String::new(),
        };
        format!(
            "It was made with the ControlNet{} at strength {} from {} % to {} % of the steps: its control image{image} is not in the file, add it separately",
            network.trim_end(),
            self.strength,
            percent(self.from),
            percent(self.until)
        )
    }

    /// Settings for a control image, without a network.
    fn settings(&self) -> ControlSettings {
        let (least, most) = ControlSettings::STRENGTHS.into_inner();
        let is_range = 0.0 <= self.from && self.from < self.until && self.until <= 1.0;
        let (from, until) = if is_range {
            (self.from, self.until)
        } else {
            (0.0, 1.0)
        };
        ControlSettings {
            strength: self.strength.clamp(least, most),
            from,
            until,
            ..ControlSettings::default()
        }
    }

    /// Returns whether a network is the one that the file names, however it is stored.
    fn is_by(&self, network: &FoundControl) -> bool {
        let plain = |name: &str| names::plain(stem(file_name(name)));
        let name = self.network.as_deref().map(plain);
        name.is_some_and(|name| name == plain(&network.name))
    }
}

impl ForeignSettings {
    pub(super) fn add_control(&mut self, control: RestoredControl) {
        const MAX_CONTROLS: usize = 16;
        if self.controls.len() < MAX_CONTROLS {
            self.controls.push(control);
        } else {
            self.note(format!(
                "It was made with more than {MAX_CONTROLS} ControlNets: the others are not used"
            ));
        }
    }

    /// Names how a control was prepared, weighed and resized, where that is not as here.
    pub(super) fn note_control_ways(&mut self, network: &str, ways: [(&str, Option<&str>); 3]) {
        let is_usual = |way: &str| matches!(&*names::plain(way), "balanced" | "justresize");
        let ways = ways.into_iter().filter_map(|(name, way)| {
            let way = way.filter(|it| !names::is_automatic(it) && !is_usual(it))?;
            Some(format!("{name} {}", short(way)))
        });
        let ways: Vec<String> = ways.collect();
        if !ways.is_empty() {
            let (network, ways) = (short(network), ways.join(", "));
            self.note(format!("Not used with the ControlNet {network}: {ways}"));
        }
    }

    /// Returns the settings of as many controls as the model takes, with the networks of their names among `networks`,
    /// and a sentence for each network that is missing.
    pub fn find_controls(
        &self,
        spec: &ModelSpec,
        networks: &[FoundControl],
    ) -> (Vec<ControlSettings>, Vec<String>) {
        let takes = spec.limits.controls;
        let mut missing = Vec::new();
        let controls = self.controls.iter().take(takes.most as usize);
        let controls = controls.map(|control| {
            let mut settings = control.settings();
            let mut fitting = networks.iter().filter(|it| it.config.family == spec.family);
            if takes.by == ControlBy::Networks {
                let network = fitting.find(|it| control.is_by(it));
                let is_told = |kind: &ControlKind| {
                    network.is_some_and(|network| network.config.kinds.contains(kind))
                };
                settings.kind = control.kind.filter(is_told);
                settings.network = network.map(|it| it.path.clone());
            }
            if let (ControlBy::Networks, None, Some(name)) = (takes.by, &settings.network, &control.network) {
                missing.push(format!(
                    "The ControlNet {} for {} is not on this computer: choose another for the control image",
                    short(name),
                    spec.family.label
                ));
            }
            settings
        });
        (controls.collect(), missing)
    }
}

/// Reads A1111's `Module: canny, Model: name [hash], Weight: 0.8, Guidance Start: 0, Guidance End: 1`; returns whether it is
/// that.
pub(super) fn take_a1111(restored: &mut ForeignSettings, text: &str) -> bool {
    let settings = pairs(text);
    let value = |wanted: &str| value_of(&settings, wanted);
    let Some(network) = value("Model") else {
        return false;
    };
    let network = network.split_once(" [").map_or(network, |(name, _)| name);
    if names::is_automatic(network) {
        // With a module it did something else than a network does.
        return value("Module").is_none_or(names::is_automatic);
    }
    restored.note_control_ways(
        network,
        [
            (
                "preprocessor",
                value("Module").or_else(|| value("preprocessor")),
            ),
            ("control mode", value("Control Mode")),
            ("resize mode", value("Resize Mode")),
        ],
    );
    let part = |wanted: &str| value(wanted).and_then(number_of_text);
    // `starting/ending: (0.1, 0.9)` in older texts.
    let range = text
        .split_once("starting/ending: (")
        .and_then(|(_, range)| {
            let (from, until) = range.split_once(')')?.0.split_once(',')?;
            Some((number_of_text(from)?, number_of_text(until.trim())?))
        });
    let (from, until) = range.unzip();
    let from = part("Guidance Start").or(from);
    let until = part("Guidance End").or(until);
    let network = Some(short(network));
    let kind = value("Union Control Type").and_then(kind_named);
    let kind = kind.or_else(|| value("Module").and_then(kind_named));
    restored.add_control(RestoredControl {
        kind,
        ..RestoredControl::new(network, [part("Weight"), from, until])
    });
    true
}

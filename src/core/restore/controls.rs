//! ControlNets of a file: what it says of them, and the installed ones of their names.

use serde::Serialize;

use super::matching::stem;
use super::{ForeignSettings, file_name, names, short};
use crate::job::{ControlBy, ControlSettings};
use crate::library::FoundControl;
use crate::model::ModelSpec;

/// ControlNet of a file. Its control image is not in the file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RestoredControl {
    pub network: Option<String>,
    /// File name of the control image.
    pub image: Option<String>,
    pub strength: f64,
    /// Part of the steps in which it acts, from 0 to 1.
    pub from: f64,
    pub until: f64,
}

impl RestoredControl {
    pub(super) fn described(&self) -> String {
        let name = |name: &Option<String>| name.clone().unwrap_or_default();
        let network = format!(" {}", name(&self.network));
        let image = match &self.image {
            Some(image) => format!(", {image},"),
            None => String::new(),
        };
        format!(
            "It was made with the ControlNet{} at strength {} in the steps {} to {}: its control image{image} is not in the file, add it separately",
            network.trim_end(),
            self.strength,
            self.from,
            self.until
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
                settings.network = fitting.find(|it| control.is_by(it)).map(|it| it.path.clone());
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

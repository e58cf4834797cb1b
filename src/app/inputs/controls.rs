//! Control pictures of the form: the networks that are found for them, and what is said of each.

use std::path::Path;

use safelight_core::job::{Control, ControlSettings};
use safelight_core::library::{FoundControl, find_controls};

use crate::app::cx::Cx;
use crate::app::inputs::{Input, Inputs, Slot};
use crate::app::pending::Pending;

/// The ControlNets on this computer.
#[derive(Default)]
pub struct ControlNetworks {
    /// In the order of their names.
    pub found: Vec<FoundControl>,
    has_looked: bool,
    looking: Pending<Vec<FoundControl>>,
}

impl ControlNetworks {
    /// Looks for them again.
    fn refresh(&mut self) {
        self.has_looked = false;
    }

    /// `is_wanted`: whether anybody would choose one.
    fn poll(&mut self, is_wanted: bool, cx: &Cx) {
        if is_wanted
            && !self.has_looked
            && let Some(paths) = cx.paths.clone()
        {
            self.has_looked = true;
            let settings = cx.settings.clone();
            let looking = cx
                .background
                .search(move || find_controls(&paths, &settings));
            self.looking = looking.unwrap_or_default();
        }
        if let Some(found) = self.looking.take() {
            self.found = found;
        }
    }
}

impl Inputs {
    pub(super) fn poll_networks(&mut self, cx: &Cx) {
        let is_wanted = self.get(Slot::Control).is_some();
        self.control_networks.poll(is_wanted, cx);
    }

    /// Has a control picture, counted from 0, act so.
    pub(super) fn set_control(&mut self, index: usize, settings: ControlSettings) {
        if let Some(input) = self.placed.controls.get_mut(index) {
            input.control = settings;
        }
    }

    /// What a request said of a control picture whose file was opened; else as the one before it, but for its kind.
    pub(super) fn settle_control(&mut self, mut input: Input) -> Input {
        self.control_networks.refresh();
        let file: &Path = input.source.path();
        let said = self.awaited.iter().position(|control| control.file == file);
        if let Some(at) = said {
            let Control { mask, settings, .. } = self.awaited.remove(at);
            (input.control, input.control_mask) = (settings, mask);
        } else if let Some(before) = self.of(Slot::Control).last() {
            input.control.network.clone_from(&before.control.network);
        }
        input
    }
}

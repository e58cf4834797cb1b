//! The ControlNets on this computer, as the form offers them.

use safelight_core::library::{FoundControl, find_controls};
use safelight_core::settings::{Paths, Settings};

use crate::app::background::Background;
use crate::app::pending::Pending;

#[derive(Default)]
pub struct ControlNetworks {
    /// In the order of their names.
    pub found: Vec<FoundControl>,
    has_looked: bool,
    looking: Pending<Vec<FoundControl>>,
}

impl ControlNetworks {
    /// Has them looked for again.
    pub(super) fn refresh(&mut self) {
        self.has_looked = false;
    }

    /// Looks for them where that was not done yet, and takes in what was found.
    pub(super) fn poll(
        &mut self,
        paths: Option<&Paths>,
        settings: &Settings,
        background: &Background,
    ) {
        if !self.has_looked
            && let Some(paths) = paths.cloned()
        {
            self.has_looked = true;
            let settings = settings.clone();
            let looking = background.search(move || find_controls(&paths, &settings));
            self.looking = looking.unwrap_or_default();
        }
        if let Some(found) = self.looking.take() {
            self.found = found;
        }
    }
}

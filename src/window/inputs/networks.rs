//! Search for ControlNets, and networks that the user picks from files.

use std::path::{Path, PathBuf};

use safelight_core::finish::InstalledNetwork;
use safelight_core::fitting::{find_controls, read_control};
use safelight_core::model::{CatalogError, advice_for};

use crate::window::inputs::{ControlNetChoice, NetworkChoice};
use crate::window::prelude::*;

impl<C: Clone + Send + 'static> NetworkChoice<C> {
    /// Asks for a file and reads it.
    pub fn pick(
        &mut self,
        title: &'static str,
        read: fn(&Path) -> Result<InstalledNetwork<C>, CatalogError>,
        cx: &AppContext,
    ) {
        self.picking = cx.background.ask(move || {
            let dialog = rfd::FileDialog::new()
                .set_title(title)
                .add_filter("Networks", &["safetensors"])
                .add_filter("All files", &["*"]);
            Some(read(&dialog.pick_file()?))
        });
    }

    /// Path of the picked network, once it is read; it is the chosen one then. An error is shown.
    pub fn take_picked(&mut self, cx: &mut AppContext) -> Option<PathBuf> {
        match self.picking.take()?? {
            Ok(network) => {
                self.chosen = Some(network.path.clone());
                self.picked.push(network);
                let found = std::mem::take(&mut self.found);
                self.take_found(found);
                self.chosen.clone()
            }
            Err(err) => {
                let advice = advice_for(&err);
                let err = JobError::from_error(JobErrorKind::BadModel, &err).advise(advice);
                cx.notify(NoticeSeverity::Error, err);
                None
            }
        }
    }
}

impl ControlNetChoice {
    /// Looks for them where that was not done yet, and takes in what was found.
    pub(super) fn poll(&mut self, cx: &AppContext) {
        if !self.has_looked {
            // Without a home there is no place for them.
            self.has_looked = cx.paths.clone().is_none_or(|paths| {
                let settings = cx.settings.clone();
                let find = move || find_controls(&paths, &settings);
                self.looking = cx.background.search(find);
                // If too many searches are running, it is requested again.
                self.looking.is_busy()
            });
        }
        if let Some(found) = self.looking.take() {
            self.networks.take_found(found);
        }
    }

    /// Asks for the ControlNet of a control image.
    pub fn pick(&mut self, index: usize, cx: &AppContext) {
        self.picking_for = index;
        self.networks.pick("Choose a ControlNet", read_control, cx);
    }
}

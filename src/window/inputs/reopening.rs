//! Files that come back into the places of inputs, of a request or of an earlier run; and ControlNets: searched for, or
//! picked from files.

use safelight_core::finish::InstalledNetwork;
use safelight_core::fitting::{find_controls, read_control};
use safelight_core::model::{CatalogError, advice_for};

use crate::window::create::choices::SavedInput;
use crate::window::inputs::{ControlNetChoice, InputSlots, NetworkChoice};
use crate::window::prelude::*;

impl InputSlots {
    pub(crate) fn take_over(&mut self, request: &GenerateRequest, cx: &mut AppContext) {
        cx.replace_form(GenerateForm::from(request));
        self.reopen(saved_inputs(request), cx);
        self.name_size(&mut cx.form, &cx.models);
    }

    /// Puts these files in place of all inputs.
    pub(super) fn reopen(&mut self, inputs: Vec<SavedInput>, cx: &AppContext) {
        self.is_reopen_due = false;
        self.reopened = Some(inputs.clone());
        // Pending files belong to the previous form.
        (self.opening, self.given) = (BackgroundTask::default(), BackgroundTask::default());
        for slot in InputSlot::ALL {
            let wanted = inputs.iter().filter(|it| it.slot == slot);
            let paths: Vec<PathBuf> = wanted.map(|it| it.path.clone()).collect();
            let shown = self.inputs_in(slot).iter().map(|it| it.source.path());
            let has_settings = matches!(slot, InputSlot::Control | InputSlot::Prompt);
            if !has_settings && shown.eq(paths.iter().map(PathBuf::as_path)) {
                continue;
            }
            // Also where the others cannot be opened.
            self.remove(slot);
            if !paths.is_empty() {
                let placing = SlotTarget {
                    keeps_size: true,
                    ..SlotTarget::onto(Some(slot))
                };
                self.open_here(paths, placing, cx);
            }
        }
        self.awaited = inputs;
    }
}

/// Files that a request was made from.
fn saved_inputs(request: &GenerateRequest) -> Vec<SavedInput> {
    let video = request.extend.as_ref().or(request.source_video.as_ref());
    let plain = [
        (InputSlot::Start, video.or(request.image.as_ref())),
        (InputSlot::End, request.last_image.as_ref()),
        (InputSlot::Mask, request.mask.as_ref()),
    ];
    let plain = plain
        .into_iter()
        .filter_map(|(slot, path)| Some((slot, path?)));
    let references = request.references.iter();
    let plain = plain.chain(references.map(|path| (InputSlot::Reference, path)));
    let plain = plain.map(|(slot, path)| SavedInput::new(slot, path.clone()));
    let prompts = request.prompt_images.iter().map(|it| SavedInput {
        strength: it.strength,
        ..SavedInput::new(InputSlot::Prompt, it.path.clone())
    });
    let controls = request.controls.iter().map(|it| SavedInput {
        control: it.settings.clone(),
        mask: it.mask.clone(),
        ..SavedInput::new(InputSlot::Control, it.file.clone())
    });
    plain.chain(prompts).chain(controls).collect()
}

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

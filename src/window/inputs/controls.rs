//! ControlNets on this computer, settings and masks of control inputs, and inputs that the selected model does not use.

use std::path::{Path, PathBuf};

use safelight_core::finish::InstalledNetwork;
use safelight_core::job::{
    ControlBy, ControlSettings, FieldError, FormInputs, GenerateForm, InputMedia,
};
use safelight_core::library::{ControlNetwork, FoundControl};
use safelight_core::model::{CatalogError, ModelSpec};

use crate::window::background::BackgroundTask;
use crate::window::create::choices::{ControlPart, InputSlot, MaskOf, SavedInput};
use crate::window::inputs::{ChosenInput, InputSlots};

/// Networks of one kind on this computer, and those that the user picked from files.
pub struct NetworkChoice<C> {
    /// In the order of their names.
    pub found: Vec<InstalledNetwork<C>>,
    /// The one that is used; the first where none was chosen, or it is gone.
    pub chosen: Option<PathBuf>,
    /// From files outside of the searched folders.
    pub(super) picked: Vec<InstalledNetwork<C>>,
    pub(super) picking: BackgroundTask<Option<Result<InstalledNetwork<C>, CatalogError>>>,
}

impl<C> Default for NetworkChoice<C> {
    fn default() -> Self {
        Self {
            found: Vec::new(),
            chosen: None,
            picked: Vec::new(),
            picking: BackgroundTask::default(),
        }
    }
}

impl<C> NetworkChoice<C> {
    pub fn chosen(&self) -> Option<&InstalledNetwork<C>> {
        let chosen = self.chosen.as_ref();
        let found = self.found.iter().find(|it| Some(&it.path) == chosen);
        found.or_else(|| self.found.first())
    }
}

impl<C: Clone + Send + 'static> NetworkChoice<C> {
    pub fn take_found(&mut self, found: Vec<InstalledNetwork<C>>) {
        self.found = found;
        for picked in &self.picked {
            if self.found.iter().all(|it| it.path != picked.path) {
                self.found.push(picked.clone());
            }
        }
    }
}

#[derive(Default)]
pub struct ControlNetChoice {
    pub networks: NetworkChoice<ControlNetwork>,
    pub(super) has_looked: bool,
    pub(super) looking: BackgroundTask<Vec<FoundControl>>,
    /// Index of the control image for which a file is picked.
    pub(super) picking_for: usize,
}

impl ControlNetChoice {
    pub fn is_looking(&self) -> bool {
        !self.has_looked || self.looking.is_busy()
    }
}

impl InputSlots {
    /// Puts an opened file in the place of a part of a control; nowhere where the control is gone.
    pub(super) fn put_part(&mut self, part: ControlPart, opened: InputMedia) {
        let (ControlPart::Source(index) | ControlPart::Mask(index)) = part;
        self.change(InputSlot::Control, index, |input| match part {
            ControlPart::Source(_) => input.source = opened,
            ControlPart::Mask(_) => input.control_mask = Some(opened),
        });
    }

    /// Brings back the mask that there was before one was painted, also while that is on its way to its slot.
    pub(crate) fn discard_mask(&mut self, of: MaskOf, before: Option<InputMedia>) {
        self.opening = BackgroundTask::default();
        match of {
            MaskOf::Start => {
                self.remove(InputSlot::Mask);
                if let Some(source) = before {
                    self.placed
                        .put(InputSlot::Mask, ChosenInput::new(source, Vec::new()));
                }
            }
            MaskOf::Control(index) => {
                self.change(InputSlot::Control, index, |input| {
                    input.control_mask = before;
                });
            }
        }
    }

    pub fn masked(&self, of: MaskOf) -> Option<(&InputMedia, Option<&InputMedia>)> {
        match of {
            MaskOf::Start => {
                let mask = self.get(InputSlot::Mask).map(|input| &input.source);
                Some((&self.get(InputSlot::Start)?.source, mask))
            }
            MaskOf::Control(index) => {
                let input = self.inputs_in(InputSlot::Control).get(index)?;
                Some((&input.source, input.control_mask.as_ref()))
            }
        }
    }

    /// Returns whether a control takes a mask: the model, and of ControlNets its own one.
    pub fn takes_control_mask(&self, index: usize, spec: &ModelSpec) -> bool {
        let takes = spec.limits.controls;
        takes.takes_masks && (takes.by != ControlBy::Networks || self.needs_control_mask(index))
    }

    /// `None` if its network was not found.
    fn network_of(&self, index: usize) -> Option<&FoundControl> {
        let control = self.inputs_in(InputSlot::Control).get(index);
        let network = control.and_then(|input| input.control.network.as_ref())?;
        let mut found = self.control_networks.networks.found.iter();
        found.find(|it| it.path == *network)
    }

    /// Returns whether the network of a control makes a part of its image anew, and so goes by a mask.
    pub fn needs_control_mask(&self, index: usize) -> bool {
        let network = self.network_of(index);
        network.is_some_and(|network| network.config.takes_masks)
    }

    /// Returns whether a mask of a control may count: of a network that was not found nothing is known.
    pub(crate) fn may_mask_control(&self, index: usize, spec: &ModelSpec) -> bool {
        let takes = spec.limits.controls;
        let may = |network: &FoundControl| network.config.takes_masks;
        takes.takes_masks
            && (takes.by != ControlBy::Networks || self.network_of(index).is_none_or(may))
    }

    /// Returns whether the mask of a control is kept but unused, because the model or the control's network accepts
    /// none.
    pub fn is_control_mask_parked(&self, index: usize, spec: &ModelSpec) -> bool {
        let control = self.inputs_in(InputSlot::Control).get(index);
        let has_mask = control.is_some_and(|input| input.control_mask.is_some());
        has_mask && spec.limits.controls.is_possible() && !self.may_mask_control(index, spec)
    }

    /// Index of the first control without a mask whose network needs one.
    pub fn lacks_control_mask(&self, spec: &ModelSpec) -> Option<usize> {
        let controls = self.inputs_in(InputSlot::Control).iter().enumerate();
        let acting = controls.filter(|(_, input)| input.control.strength != 0.0);
        let mut lacking = acting.filter(|(_, input)| input.control_mask.is_none());
        let by = spec.limits.controls.by;
        let lacking = lacking.find(|(index, _)| self.needs_control_mask(*index));
        lacking
            .filter(|_| by == ControlBy::Networks)
            .map(|(index, _)| index)
    }

    /// Problems of the form with the controls' networks; a mask may be in the editor.
    pub(crate) fn control_errors(
        &self,
        spec: &ModelSpec,
        painted: Option<MaskOf>,
    ) -> Vec<FieldError> {
        let lacking = self.lacks_control_mask(spec);
        let lacking = lacking.filter(|index| painted != Some(MaskOf::Control(*index)));
        Vec::from_iter(lacking.map(|index| FieldError {
            field: "control",
            message: format!(
                "the ControlNet of control image {} regenerates a part of it and needs a mask: \
                paint that part, or drop a mask",
                index + 1
            ),
        }))
    }

    /// Gives an input what a request said of it when its file was opened, and returns the mask that the request named. A
    /// new control image gets the network of the one before it.
    pub(super) fn settle(&mut self, slot: InputSlot, input: &mut ChosenInput) -> Option<PathBuf> {
        let at = |path: &Path| {
            let mut awaited = self.awaited.iter();
            awaited.position(|it| it.slot == slot && it.path == path)
        };
        let said = at(input.source.path()).or_else(|| at(Path::new("")));
        if slot == InputSlot::Control {
            self.control_networks.has_looked = false;
        }
        if let Some(at) = said {
            let said = self.awaited.remove(at);
            (input.strength, input.control) = (said.strength, said.control);
            return said.mask;
        }
        if slot == InputSlot::Control
            && let Some(before) = self.inputs_in(slot).last()
        {
            input.control.network.clone_from(&before.control.network);
        }
        None
    }

    /// Gives the control images these settings, and the further ones to those that are added next.
    pub(crate) fn set_controls(&mut self, settings: Vec<ControlSettings>) {
        let mut settings = settings.into_iter();
        let placed = self.placed.of_mut(InputSlot::Control).iter_mut();
        for (input, settings) in placed.zip(settings.by_ref()) {
            input.control = settings;
        }
        self.awaited.retain(|it| it.slot != InputSlot::Control);
        self.awaited.extend(settings.map(|control| SavedInput {
            control,
            ..SavedInput::new(InputSlot::Control, PathBuf::new())
        }));
    }

    /// Has each control image brought in by the network that there is for the model, where it is the only one, and by
    /// none that is for another model's family.
    pub(super) fn settle_networks(&mut self, spec: Option<&ModelSpec>) {
        let Some(spec) = spec.filter(|spec| spec.limits.controls.by == ControlBy::Networks) else {
            return;
        };
        let found = &self.control_networks.networks.found;
        let mut fitting = found.iter().filter(|it| it.config.family == spec.family);
        let only = match (fitting.next(), fitting.next()) {
            (Some(only), None) => Some(&only.path),
            _ => None,
        };
        for input in self.placed.of_mut(InputSlot::Control) {
            let network = &mut input.control.network;
            let is_foreign = |path: &mut PathBuf| {
                let known = found.iter().find(|it| it.path == *path);
                known.is_some_and(|known| known.config.family != spec.family)
            };
            network.take_if(is_foreign);
            if network.is_none() {
                *network = only.cloned();
            }
        }
    }

    /// Reason why the selected model does not use an input; `None` where the slot is empty or it does.
    pub fn parked(
        &self,
        slot: InputSlot,
        form: &GenerateForm,
        spec: &ModelSpec,
    ) -> Option<&'static str> {
        let input = self.get(slot)?;
        let is_image_taken = spec.start_image.is_possible();
        let no_mask = "This model does not use masks. The mask is kept.";
        let start_image = if spec.family.makes_images {
            "This model makes images from text only. The start image is kept."
        } else {
            "This model makes videos from text only. The start image is kept."
        };
        let (is_taken, why) = match (slot, &input.source) {
            (InputSlot::Start, InputMedia::Video(_)) => (
                (is_image_taken && !spec.family.makes_images) || spec.video_strength().is_some(),
                "This model cannot extend a video. The video is kept.",
            ),
            (InputSlot::Start, InputMedia::Image(_)) => (is_image_taken, start_image),
            (InputSlot::End, _) => (
                form.end_image(spec).is_possible(),
                "This model does not use end images. The end image is kept.",
            ),
            (InputSlot::Mask, _) if self.video().is_some() && form.changes_video(spec) => {
                (true, no_mask)
            }
            (InputSlot::Mask, _) if !spec.mask.is_possible() => {
                let why = if spec.video_strength().is_some() {
                    "A mask needs a video to change. The mask is kept."
                } else {
                    no_mask
                };
                (false, why)
            }
            (InputSlot::Mask, _) => {
                let start = self.get(InputSlot::Start).map(|input| &input.source);
                let is_on_image = matches!(start, Some(InputMedia::Image(_)));
                (is_on_image, "A mask needs a start image. The mask is kept.")
            }
            // Too many of them are an error: the user decides which to remove.
            (InputSlot::Reference, _) => (
                spec.limits.max_references > 0,
                "This model does not use reference images. They are kept.",
            ),
            (InputSlot::Control, _) => (
                spec.limits.controls.is_possible(),
                "This model does not use control images. They are kept.",
            ),
            (InputSlot::Prompt, _) => (
                spec.prompt_images.is_some(),
                "This model does not read images as prompts. They are kept.",
            ),
        };
        (!is_taken).then_some(why)
    }

    pub fn inputs_for(&self, form: &GenerateForm, spec: &ModelSpec) -> FormInputs {
        let mut inputs = self.inputs_where(|slot| self.parked(slot, form, spec).is_none());
        for (index, control) in inputs.controls.iter_mut().enumerate() {
            if self.is_control_mask_parked(index, spec) {
                control.mask = None;
            }
        }
        if form.changes_video(spec) {
            inputs.source_video = inputs.extend.take();
        }
        inputs
    }
}

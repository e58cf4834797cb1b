//! The images, the mask and the video that the next result is made from, and which place a new one takes.
//!
//! Files are opened on the file thread, by `opening`; how they come to their places is in `slot_choice`.

pub mod controls;
pub mod drops;
pub(super) mod opening;
pub mod panel;
mod reopening;
mod slot_choice;
pub mod wayland_drop;

use std::path::{Path, PathBuf};

use safelight_core::job::{
    ChosenImage, ControlSettings, FormControl, FormInputs, GenerateForm, InputMedia,
    MAX_PROMPT_IMAGES, SourceVideo, StartImage,
};
use safelight_core::model::{InputUse, ModelSpec};

use crate::window::background::BackgroundTask;
use crate::window::create::choices::{InputSlot, SavedInput, SlotTarget};

pub use controls::{ControlNetChoice, NetworkChoice};
use opening::{InputFiles, OpenedInputs};

#[derive(Clone, Debug, PartialEq)]
pub struct ChosenInput {
    pub source: InputMedia,
    /// Parts of the file that are not used, in sentences.
    pub notices: Vec<String>,
    /// Weight as an image prompt.
    pub strength: f64,
    pub control: ControlSettings,
    /// Mask of the regenerated part, as a control.
    pub control_mask: Option<InputMedia>,
}

impl ChosenInput {
    fn new(source: InputMedia, notices: Vec<String>) -> Self {
        Self {
            source,
            notices,
            strength: 1.0,
            control: ControlSettings::default(),
            control_mask: None,
        }
    }

    fn saved(&self, slot: InputSlot) -> SavedInput {
        SavedInput {
            slot,
            path: self.source.path().to_owned(),
            strength: self.strength,
            control: self.control.clone(),
            mask: self.control_mask.as_ref().map(|it| it.path().to_owned()),
        }
    }

    fn as_control(&self) -> FormControl {
        FormControl {
            source: self.source.clone(),
            mask: self.control_mask.clone(),
            settings: self.control.clone(),
        }
    }
}

/// The inputs in the places of [`InputSlot::ALL`], of a list in the order in which a prompt counts them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlotContents([Vec<ChosenInput>; InputSlot::ALL.len()]);

impl SlotContents {
    fn inputs_of(&self, slot: InputSlot) -> &Vec<ChosenInput> {
        &self.0[slot as usize]
    }

    fn of_mut(&mut self, slot: InputSlot) -> &mut Vec<ChosenInput> {
        &mut self.0[slot as usize]
    }

    fn put(&mut self, slot: InputSlot, input: ChosenInput) {
        let place = self.of_mut(slot);
        if !slot.is_list() {
            place.clear();
        }
        place.push(input);
    }

    fn saved(&self) -> Vec<SavedInput> {
        let slots = InputSlot::ALL.into_iter().zip(&self.0);
        let saved = slots.flat_map(|(slot, inputs)| inputs.iter().map(move |it| it.saved(slot)));
        saved.collect()
    }

    /// Takes over from `now` the slots that differ from `after`.
    pub fn keep_newer(&mut self, after: &Self, now: &Self) {
        for ((slot, after), now) in self.0.iter_mut().zip(&after.0).zip(&now.0) {
            if now != after {
                slot.clone_from(now);
            }
        }
    }
}

/// The places that a model has for what is put nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotRules {
    takes_start: bool,
    /// Slot of a second image, for models that take two: the end image, or a required mask.
    pub second: Option<InputSlot>,
    pub max_references: usize,
    pub max_controls: usize,
    /// Generates nothing without a control image.
    needs_control: bool,
    pub max_prompts: usize,
    /// The only reference image is edited, and there is no start image.
    edits_reference: bool,
    takes_control_videos: bool,
    /// A video at the start is made anew, so that its mask may be a video.
    pub changes_video: bool,
}

impl SlotRules {
    pub fn from_spec(spec: &ModelSpec) -> Self {
        let takes_start = spec.start_image.is_possible();
        let end = spec.end_image.is_possible().then_some(InputSlot::End);
        let mask = (spec.mask == InputUse::Required).then_some(InputSlot::Mask);
        Self {
            takes_start,
            second: end.or(mask).filter(|_| takes_start),
            max_references: spec.limits.max_references as usize,
            max_controls: spec.limits.controls.most as usize,
            needs_control: spec.limits.controls.is_required,
            max_prompts: spec.prompt_images.as_ref().map_or(0, |_| MAX_PROMPT_IMAGES),
            edits_reference: spec.edits_reference(),
            takes_control_videos: spec.limits.controls.takes_videos,
            changes_video: false,
        }
    }

    /// Slot with several images to which files with this request go, if they go to one.
    fn list_for(self, wanted: Option<InputSlot>) -> Option<InputSlot> {
        match wanted {
            Some(slot) => Some(slot).filter(|slot| slot.is_list()),
            None => (self.max_references > 0).then_some(InputSlot::Reference),
        }
    }
}

#[derive(Default)]
pub struct InputSlots {
    pub placed: SlotContents,
    /// Files being opened for these slots.
    opening: BackgroundTask<OpenedInputs>,
    /// Files to open, whose folders are being listed.
    given: BackgroundTask<InputFiles>,
    picking: BackgroundTask<Option<(SlotTarget, Vec<PathBuf>)>>,
    /// Settings of files that are being opened; without a path, of the control images that are added next.
    awaited: Vec<SavedInput>,
    pub control_networks: ControlNetChoice,
    /// Files that were opened in place of all others, or will be once the models are known.
    reopened: Option<Vec<SavedInput>>,
    is_reopen_due: bool,
    /// State before an input took the place of another.
    pub(crate) replaced: Option<(GenerateForm, SlotContents)>,
}

impl InputSlots {
    /// Content of a slot, or the first of several.
    pub fn get(&self, slot: InputSlot) -> Option<&ChosenInput> {
        self.inputs_in(slot).first()
    }

    pub fn inputs_in(&self, slot: InputSlot) -> &[ChosenInput] {
        self.placed.inputs_of(slot)
    }

    pub fn all(&self) -> impl Iterator<Item = &ChosenInput> {
        self.placed.0.iter().flatten()
    }

    pub fn remove(&mut self, slot: InputSlot) {
        self.placed.of_mut(slot).clear();
    }

    fn take_one(&mut self, slot: InputSlot, index: usize) -> Option<ChosenInput> {
        let place = self.placed.of_mut(slot);
        (index < place.len()).then(|| place.remove(index))
    }

    fn move_one(&mut self, slot: InputSlot, from: usize, to: usize) {
        if let Some(input) = self.take_one(slot, from) {
            let place = self.placed.of_mut(slot);
            place.insert(to.min(place.len()), input);
        }
    }

    /// Changes the settings of one input, if it is there.
    pub fn change(&mut self, slot: InputSlot, index: usize, change: impl FnOnce(&mut ChosenInput)) {
        if let Some(input) = self.placed.of_mut(slot).get_mut(index) {
            change(input);
        }
    }

    pub fn is_opening(&self) -> bool {
        self.opening.is_busy() || self.given.is_busy()
    }

    pub fn remove_file(&mut self, path: &Path) {
        for place in &mut self.placed.0 {
            place.retain(|input| input.source.path() != path);
        }
    }

    pub fn has_file(&self, path: &Path) -> bool {
        self.all().any(|input| input.source.path() == path)
    }

    pub fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// Video that is continued or regenerated.
    pub fn video(&self) -> Option<&SourceVideo> {
        self.get(InputSlot::Start).and_then(video)
    }

    pub fn form_inputs(&self) -> FormInputs {
        self.inputs_where(|_| true)
    }

    fn inputs_where(&self, is_taken: impl Fn(InputSlot) -> bool + Copy) -> FormInputs {
        let of = |slot| {
            let inputs = self.inputs_in(slot).iter();
            inputs.filter(move |_| is_taken(slot))
        };
        FormInputs {
            image: of(InputSlot::Start).find_map(image).cloned(),
            last_image: of(InputSlot::End).find_map(image).cloned(),
            extend: of(InputSlot::Start).find_map(video).cloned(),
            source_video: None,
            mask: of(InputSlot::Mask).next().map(|input| sized(&input.source)),
            references: of(InputSlot::Reference)
                .filter_map(image)
                .cloned()
                .collect(),
            controls: of(InputSlot::Control)
                .map(ChosenInput::as_control)
                .collect(),
            prompt_images: of(InputSlot::Prompt).filter_map(chosen).collect(),
        }
    }

    /// Number of further images that a slot with several accepts.
    fn free_in(&self, slot: InputSlot, places: SlotRules) -> usize {
        let most = match slot {
            InputSlot::Prompt => places.max_prompts,
            InputSlot::Control => places.max_controls,
            _ => places.max_references,
        };
        most.saturating_sub(self.inputs_in(slot).len())
    }

    /// Slot of the next file without a chosen one: the control of a model that requires one; after the references if
    /// the model accepts another; the second one when the start is taken, the second is free and the model uses both;
    /// else the start.
    pub fn next(&self, places: SlotRules) -> InputSlot {
        if places.needs_control && self.inputs_in(InputSlot::Control).is_empty() {
            return InputSlot::Control;
        }
        if self.free_in(InputSlot::Reference, places) > 0
            || (places.max_references > 0 && !places.takes_start)
        {
            return InputSlot::Reference;
        }
        let has_start = self.get(InputSlot::Start).is_some();
        let free = |slot: &InputSlot| has_start && self.get(*slot).is_none();
        places.second.filter(free).unwrap_or(InputSlot::Start)
    }

    /// Number of files, of `count` with this request, that have a free slot.
    pub fn room(&self, count: usize, wanted: Option<InputSlot>, places: SlotRules) -> usize {
        if let Some(slot) = places.list_for(wanted) {
            return self.free_in(slot, places).max(1);
        }
        1 + usize::from(places.second.is_some() && count > 1)
    }

    fn are_too_many(&self, count: usize, wanted: Option<InputSlot>, places: SlotRules) -> bool {
        if let Some(slot) = places.list_for(wanted) {
            return count > self.free_in(slot, places).max(1);
        }
        let is_free = |second| self.get(InputSlot::Start).is_none() && self.get(second).is_none();
        let is_pair = count == 2 && places.second.is_some_and(is_free);
        count > 1 && !is_pair && places.takes_start
    }

    /// Puts an input into its slot: the user's choice, else the next one. A video goes to the start, unless it is a
    /// control or the mask of a source video.
    pub fn place(
        &mut self,
        input: ChosenInput,
        wanted: Option<InputSlot>,
        places: SlotRules,
    ) -> InputSlot {
        let slot = match (&input.source, wanted) {
            // The form checks whether a model accepts one.
            (InputMedia::Video(_), Some(InputSlot::Control)) => InputSlot::Control,
            (InputMedia::Video(_), Some(InputSlot::Mask))
                if places.changes_video && self.video().is_some() =>
            {
                InputSlot::Mask
            }
            (InputMedia::Video(_), _) => InputSlot::Start,
            (InputMedia::Image(_), Some(InputSlot::Start)) if places.edits_reference => {
                InputSlot::Reference
            }
            (InputMedia::Image(_), Some(slot)) => slot,
            (InputMedia::Image(_), None) => self.next(places),
        };
        let takes_one = match slot {
            InputSlot::Reference => places.max_references == 1,
            InputSlot::Control => places.max_controls == 1,
            _ => false,
        };
        if takes_one {
            // As at the start, a new one takes the other's place.
            self.remove(slot);
        }
        self.placed.put(slot, input);
        slot
    }

    pub fn can_swap(&self) -> bool {
        let has_either = self.get(InputSlot::Start).is_some() || self.get(InputSlot::End).is_some();
        has_either && self.video().is_none()
    }

    pub fn swap(&mut self) {
        if self.can_swap() {
            let [start, end] = [InputSlot::Start as usize, InputSlot::End as usize];
            self.placed.0.swap(start, end);
        }
    }

    /// Files in the slots, or those that are still being opened for them after a restart.
    pub fn saved(&self) -> Vec<SavedInput> {
        match &self.reopened {
            Some(inputs) if self.is_opening() || self.is_reopen_due => inputs.clone(),
            _ => self.placed.saved(),
        }
    }

    pub fn reopen_later(&mut self, inputs: Vec<SavedInput>) {
        (self.reopened, self.is_reopen_due) = (Some(inputs), true);
    }
}

/// An image of the size of an input, in its place.
pub fn sized(source: &InputMedia) -> StartImage {
    let (width, height) = source.size();
    StartImage {
        path: source.path().to_owned(),
        width,
        height,
    }
}

fn chosen(input: &ChosenInput) -> Option<ChosenImage> {
    Some(ChosenImage {
        image: image(input)?.clone(),
        strength: input.strength,
    })
}

fn image(input: &ChosenInput) -> Option<&StartImage> {
    match &input.source {
        InputMedia::Image(image) => Some(image),
        InputMedia::Video(_) => None,
    }
}

fn video(input: &ChosenInput) -> Option<&SourceVideo> {
    match &input.source {
        InputMedia::Video(video) => Some(video),
        InputMedia::Image(_) => None,
    }
}

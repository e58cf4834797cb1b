//! What stands in the form and means nothing to the chosen model: it is parked, which is kept and not sent, and counts
//! again with a model that takes it.

use safelight_core::job::GenerateForm;
use safelight_core::model::ModelSpec;

use crate::app::inputs::{Inputs, Slot, Source, Sources};

/// Why a model does not take what stands in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parked {
    StartPicture,
    EndPicture,
    Mask,
    /// A mask lies on a start picture, and there is none.
    MaskWithoutPicture,
    /// A mask lies on a clip that is changed, and there is none.
    MaskWithoutClip,
    /// Pictures are made, and no clip is extended.
    Clip,
    References,
    Controls,
    PromptPictures,
}

impl Inputs {
    /// Why what stands in a place is parked; nothing where it is empty or the model takes it.
    pub fn parked(&self, slot: Slot, form: &GenerateForm, spec: &ModelSpec) -> Option<Parked> {
        let input = self.get(slot)?;
        let is_picture_taken = spec.start_image.is_possible();
        let (is_taken, why) = match (slot, &input.source) {
            (Slot::Start, Source::Clip(_)) => (
                (is_picture_taken && !spec.family.makes_pictures) || spec.clip_strength().is_some(),
                Parked::Clip,
            ),
            (Slot::Start, Source::Picture(_)) => (is_picture_taken, Parked::StartPicture),
            (Slot::End, _) => (form.end_image(spec).is_possible(), Parked::EndPicture),
            (Slot::Mask, _) if self.clip().is_some() && form.changes_clip(spec) => {
                (true, Parked::Mask)
            }
            (Slot::Mask, _) if !spec.mask.is_possible() => {
                let changes = spec.clip_strength().is_some();
                let why = if changes {
                    Parked::MaskWithoutClip
                } else {
                    Parked::Mask
                };
                (false, why)
            }
            (Slot::Mask, _) => {
                let start = self.get(Slot::Start).map(|input| &input.source);
                let is_on_picture = matches!(start, Some(Source::Picture(_)));
                (is_on_picture, Parked::MaskWithoutPicture)
            }
            // More of them than a model takes are told, as which to leave out is its user's to say.
            (Slot::Reference, _) => (spec.limits.max_references > 0, Parked::References),
            (Slot::Control, _) => (spec.limits.controls.is_possible(), Parked::Controls),
            (Slot::Prompt, _) => (spec.prompt_pictures.is_some(), Parked::PromptPictures),
        };
        (!is_taken).then_some(why)
    }

    /// Inputs that the model uses, without the parked ones.
    pub fn sources_for(&self, form: &GenerateForm, spec: &ModelSpec) -> Sources<'_> {
        let mut sources = self.sources_where(|slot| self.parked(slot, form, spec).is_none());
        for (index, control) in sources.controls.iter_mut().enumerate() {
            if self.is_control_mask_parked(index, spec) {
                control.mask = None;
            }
        }
        if form.changes_clip(spec) {
            sources.source_clip = sources.extend.take();
        }
        sources
    }
}

//! The pictures, the mask and the clip that the next result is made from, and which place a new one takes.
//!
//! Files are opened on the file thread, by `opening`; how they come to their places is in `placing`.

pub mod drops;
mod folders;
pub(super) mod opening;
pub mod parked;
mod placing;
pub mod slots;
pub mod wayland_drop;
mod words;

use std::path::{Path, PathBuf};

use safelight_core::job::{SourceClip, StartPicture};
use safelight_core::model::{InputUse, ModelSpec};

use crate::app::pending::Pending;
use folders::Given;
use opening::OpenedInputs;
pub use slots::{Placing, SHOWN, Slot, Source};

/// A source, and what its picture is like.
#[derive(Clone, Debug)]
pub struct Input {
    pub source: Source,
    /// It has transparent parts, which become opaque.
    pub is_transparent: bool,
}

/// What the form borrows of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sources<'a> {
    pub image: Option<&'a StartPicture>,
    pub last_image: Option<&'a StartPicture>,
    pub extend: Option<&'a SourceClip>,
    pub mask: Option<&'a StartPicture>,
}

impl Sources<'_> {
    /// Width and height of what decides the clip's aspect.
    pub fn size(&self) -> Option<(u32, u32)> {
        let clip = self.extend.map(|clip| (clip.info.width, clip.info.height));
        let picture = self.image.or(self.last_image);
        clip.or_else(|| picture.map(|picture| (picture.width, picture.height)))
    }
}

/// The chosen inputs. Only the start can be a clip.
#[derive(Default)]
pub struct Inputs {
    start: Option<Input>,
    end: Option<Input>,
    mask: Option<Input>,
    /// Files that are opened for these places.
    opening: Pending<OpenedInputs>,
    /// Files to open, whose folders are looked into.
    given: Pending<Given>,
    picking: Pending<Option<(Slot, PathBuf)>>,
}

impl Inputs {
    pub fn get(&self, slot: Slot) -> Option<&Input> {
        match slot {
            Slot::Start => self.start.as_ref(),
            Slot::End => self.end.as_ref(),
            Slot::Mask => self.mask.as_ref(),
        }
    }

    fn place_of(&mut self, slot: Slot) -> &mut Option<Input> {
        match slot {
            Slot::Start => &mut self.start,
            Slot::End => &mut self.end,
            Slot::Mask => &mut self.mask,
        }
    }

    pub fn remove(&mut self, slot: Slot) {
        *self.place_of(slot) = None;
    }

    /// Files are being opened.
    pub fn is_opening(&self) -> bool {
        self.opening.is_busy() || self.given.is_busy()
    }

    /// Takes a file out of every place in which it stands.
    pub fn remove_file(&mut self, path: &Path) {
        for slot in Slot::ALL {
            if self
                .get(slot)
                .is_some_and(|input| input.source.path() == path)
            {
                self.remove(slot);
            }
        }
    }

    /// Makes the places what they were.
    pub fn put_back(&mut self, [start, end, mask]: [Option<Input>; Slot::ALL.len()]) {
        (self.start, self.end, self.mask) = (start, end, mask);
    }

    /// Whether the file stands in one of the places.
    pub fn has_file(&self, path: &Path) -> bool {
        let mut inputs = Slot::ALL.iter().filter_map(|slot| self.get(*slot));
        inputs.any(|input| input.source.path() == path)
    }

    pub fn is_empty(&self) -> bool {
        Slot::ALL.iter().all(|slot| self.get(*slot).is_none())
    }

    /// The clip that is gone on from.
    pub fn clip(&self) -> Option<&SourceClip> {
        match &self.start.as_ref()?.source {
            Source::Clip(clip) => Some(clip),
            Source::Picture(_) => None,
        }
    }

    pub fn sources(&self) -> Sources<'_> {
        Sources {
            image: picture_of(self.start.as_ref()),
            last_image: picture_of(self.end.as_ref()),
            extend: self.clip(),
            mask: picture_of(self.mask.as_ref()),
        }
    }

    /// The place of the next file that is put nowhere: the second one when the start is taken, the second is
    /// free and the model goes by both, else the start.
    pub fn next(&self, second: Option<Slot>) -> Slot {
        let free = second.filter(|slot| self.start.is_some() && self.get(*slot).is_none());
        free.unwrap_or(Slot::Start)
    }

    /// Puts an input where it belongs: where its user put it, else in the next place. A clip always stands at
    /// the start.
    pub fn place(&mut self, input: Input, wish: Option<Slot>, second: Option<Slot>) -> Slot {
        let slot = match (&input.source, wish) {
            (Source::Clip(_), _) => Slot::Start,
            (Source::Picture(_), Some(slot)) => slot,
            (Source::Picture(_), None) => self.next(second),
        };
        *self.place_of(slot) = Some(input);
        slot
    }

    /// Whether start and end can change places.
    pub fn can_swap(&self) -> bool {
        (self.start.is_some() || self.end.is_some()) && self.clip().is_none()
    }

    pub fn swap(&mut self) {
        if self.can_swap() {
            std::mem::swap(&mut self.start, &mut self.end);
        }
    }
}

fn picture_of(input: Option<&Input>) -> Option<&StartPicture> {
    match &input?.source {
        Source::Picture(picture) => Some(picture),
        Source::Clip(_) => None,
    }
}

/// The place of a second picture that is dropped, where a model goes by two: the end, or a mask that it cannot do
/// without.
pub fn second_slot(spec: &ModelSpec) -> Option<Slot> {
    let slot = if spec.end_image.is_possible() {
        Slot::End
    } else if spec.mask == InputUse::Required {
        Slot::Mask
    } else {
        return None;
    };
    spec.start_image.is_possible().then_some(slot)
}

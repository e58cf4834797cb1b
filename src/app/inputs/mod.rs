//! The pictures, the mask and the clip that the next result is made from, and which place a new one takes.
//!
//! Opens no file and draws nothing.

mod drops;
pub(super) mod folders;
pub(super) mod opening;
pub(super) mod wayland_drop;

use std::path::Path;
use std::sync::Arc;

use egui::{Rect, TextureHandle};
use safelight_core::job::{SourceClip, StartPicture};
use safelight_core::model::{InputUse, ModelSpec};

/// Where a picture can stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Start,
    End,
    /// Which part of the start picture is made anew.
    Mask,
}

impl Slot {
    pub const ALL: [Self; 3] = [Self::Start, Self::End, Self::Mask];
}

/// What was dropped, chosen or pasted.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    Picture(StartPicture),
    /// A clip that is gone on from: its last frame is the start picture.
    Clip(SourceClip),
}

impl Source {
    pub fn path(&self) -> &Path {
        match self {
            Self::Picture(picture) => &picture.path,
            Self::Clip(clip) => &clip.path,
        }
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        match self {
            Self::Picture(picture) => (picture.width, picture.height),
            Self::Clip(clip) => (clip.info.width, clip.info.height),
        }
    }

    pub fn file_name(&self) -> String {
        let name = self.path().file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

/// A source and how it looks.
#[derive(Clone)]
pub struct Input {
    pub source: Source,
    pub thumb: TextureHandle,
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

/// How an opened file gets its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placing {
    /// Where it was dropped or chosen for; else the first free place.
    pub slot: Option<Slot>,
    /// The clip's size stays as the form has it, instead of following the picture.
    pub keeps_size: bool,
    /// It is looked at, too.
    pub is_shown: bool,
}

/// How files get their places that the program was given to open.
pub const SHOWN: Placing = Placing {
    slot: None,
    keeps_size: false,
    is_shown: true,
};

impl Placing {
    /// Where they were dropped.
    pub fn onto(slot: Option<Slot>) -> Self {
        Self {
            slot,
            ..Self::default()
        }
    }
}

/// Goes with a file that is being opened, and says whose places it is for. As long as there is one, a file is on its way.
#[derive(Debug)]
pub struct Ticket(Arc<()>);

/// The chosen inputs. Only the start can be a clip.
#[derive(Default)]
pub struct Inputs {
    start: Option<Input>,
    end: Option<Input>,
    mask: Option<Input>,
    /// What the tickets that count are copies of.
    tickets: Arc<()>,
    /// Where the places were last drawn, for files that are dropped onto one.
    pub rects: [Option<Rect>; Slot::ALL.len()],
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

    /// For a file that will be opened for these places.
    pub fn ticket(&self) -> Ticket {
        Ticket(Arc::clone(&self.tickets))
    }

    /// Whether a file with this ticket is still waited for.
    pub fn awaits(&self, ticket: &Ticket) -> bool {
        Arc::ptr_eq(&self.tickets, &ticket.0)
    }

    /// Files are being opened.
    pub fn is_opening(&self) -> bool {
        Arc::strong_count(&self.tickets) > 1
    }

    /// Lets nothing in any more that is on its way now.
    pub fn forget_opening(&mut self) {
        self.tickets = Arc::default();
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

    /// The place that is drawn here.
    pub fn slot_at(&self, pos: egui::Pos2) -> Option<Slot> {
        let is_here = |rect: &Option<Rect>| rect.is_some_and(|rect| rect.contains(pos));
        let index = self.rects.iter().position(is_here)?;
        Some(Slot::ALL[index])
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

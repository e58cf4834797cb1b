//! The pictures and the clip that the next clip is made from, and which place a new one takes.
//!
//! Opens no file and draws nothing.

use egui::{Rect, TextureHandle};
use safelight_core::catalog::ModelSpec;
use safelight_core::job::{SourceClip, StartPicture};

/// Where a picture can stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Start,
    End,
}

impl Slot {
    pub const ALL: [Self; 2] = [Self::Start, Self::End];
}

/// What was dropped, chosen or pasted.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    Picture(StartPicture),
    /// A clip that is gone on from: its last frame is the start picture.
    Clip(SourceClip),
}

impl Source {
    pub fn path(&self) -> &std::path::Path {
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
}

/// The chosen inputs. The end is never a clip.
#[derive(Default)]
pub struct Inputs {
    start: Option<Input>,
    end: Option<Input>,
    /// Files that are being opened.
    pub num_opening: usize,
    /// Where the places were last drawn, for files that are dropped onto one.
    pub rects: [Option<Rect>; 2],
}

impl Inputs {
    pub fn get(&self, slot: Slot) -> Option<&Input> {
        match slot {
            Slot::Start => self.start.as_ref(),
            Slot::End => self.end.as_ref(),
        }
    }

    pub fn remove(&mut self, slot: Slot) {
        match slot {
            Slot::Start => self.start = None,
            Slot::End => self.end = None,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.start.is_none() && self.end.is_none()
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
        }
    }

    /// Puts an input where it belongs: where its user put it, else at the start, or at the end when
    /// the start is taken and the model takes both. A clip always stands at the start.
    pub fn place(&mut self, input: Input, wish: Option<Slot>, takes_end: bool) -> Slot {
        let is_clip = matches!(input.source, Source::Clip(_));
        let is_end_next = takes_end && self.start.is_some() && self.end.is_none();
        let slot = match wish {
            _ if is_clip => Slot::Start,
            Some(slot) => slot,
            None if is_end_next => Slot::End,
            None => Slot::Start,
        };
        match slot {
            Slot::Start => self.start = Some(input),
            Slot::End => self.end = Some(input),
        }
        slot
    }

    /// Whether start and end can change places.
    pub fn can_swap(&self) -> bool {
        !self.is_empty() && self.clip().is_none()
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

/// Whether a model takes a start and an end picture together.
pub fn takes_both(spec: &ModelSpec) -> bool {
    spec.start_image.is_possible() && spec.end_image.is_possible()
}

//! The places of pictures in the form, and how files get there: plain data.

use std::path::PathBuf;
use std::sync::Arc;

pub use safelight_core::job::Source;
use safelight_core::media::Picture;

/// Where a picture can stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Start,
    End,
    /// Which part of the start picture is made anew.
    Mask,
    /// Behind the reference pictures that stand there.
    Reference,
    /// Behind the control pictures that stand there.
    Control,
    /// Behind those that are read as parts of the prompt.
    Prompt,
}

impl Slot {
    pub const ALL: [Self; 6] = [
        Self::Start,
        Self::End,
        Self::Mask,
        Self::Reference,
        Self::Control,
        Self::Prompt,
    ];

    /// Whether several pictures stand there, in an order.
    pub fn is_list(self) -> bool {
        matches!(self, Self::Reference | Self::Control | Self::Prompt)
    }
}

/// What a mask lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskOf {
    /// The start picture, or the clip that is changed.
    Start,
    /// A control, counted from 0.
    Control(usize),
}

/// What of a control, counted from 0, a file takes the place of; its settings stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlPart {
    Source(usize),
    Mask(usize),
}

/// How an opened file gets its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placing {
    /// Where it was dropped or chosen for; else the first free place.
    pub slot: Option<Slot>,
    /// It takes the place of a part of a control, and is no control of its own.
    pub part: Option<ControlPart>,
    /// Numbered pictures are one clip.
    pub joins_frames: bool,
    /// The clip's size stays as the form has it, instead of following the picture.
    pub keeps_size: bool,
    /// It is looked at, too.
    pub is_shown: bool,
    /// A picture is looked at with the part of it that is used, unless a job runs.
    pub is_seen: bool,
}

/// How files get their places that the program was given to open.
pub const SHOWN: Placing = Placing {
    slot: None,
    part: None,
    joins_frames: false,
    keeps_size: false,
    is_shown: true,
    is_seen: false,
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

impl From<ControlPart> for Placing {
    fn from(part: ControlPart) -> Self {
        Self {
            part: Some(part),
            keeps_size: true,
            ..Self::onto(Some(Slot::Control))
        }
    }
}

/// A finished clip or picture to go on from.
#[derive(Clone, Debug)]
pub struct Continued {
    pub path: PathBuf,
    /// The clip's last frame, or the picture; kept in `folder` where the file cannot be read back.
    pub frame: Arc<Picture>,
    pub is_clip: bool,
    pub folder: PathBuf,
}

//! Data of commands and of the remembered state: input slots, choices of the queue, the gallery, presets and models.

use std::path::PathBuf;
use std::sync::Arc;

use safelight_core::gallery::SortOrder;
use safelight_core::job::{ControlSettings, GenerateForm, JobRequest};
use safelight_core::media::RgbPixels;
use safelight_core::presets::QualityPreset;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputSlot {
    Start,
    End,
    Mask,
    /// Added after the existing reference images.
    Reference,
    /// Added after the existing control images.
    Control,
    /// Behind those that are read as parts of the prompt.
    Prompt,
}

impl InputSlot {
    pub const ALL: [Self; 6] = [
        Self::Start,
        Self::End,
        Self::Mask,
        Self::Reference,
        Self::Control,
        Self::Prompt,
    ];

    pub fn is_list(self) -> bool {
        matches!(self, Self::Reference | Self::Control | Self::Prompt)
    }
}

/// A file of the form: saved with it, and opened again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedInput {
    pub slot: InputSlot,
    pub path: PathBuf,
    /// Weight as an image prompt.
    pub strength: f64,
    pub control: ControlSettings,
    /// Mask of a control.
    pub mask: Option<PathBuf>,
}

impl SavedInput {
    pub fn new(slot: InputSlot, path: PathBuf) -> Self {
        Self {
            slot,
            path,
            strength: 1.0,
            control: ControlSettings::default(),
            mask: None,
        }
    }
}

/// Tabs besides the active one, whose form and files are saved as those of the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedTabs {
    /// Place and name of the active one.
    pub active: usize,
    pub name: String,
    pub others: Vec<(String, GenerateForm, Vec<SavedInput>)>,
}

/// A result of the strip without its frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StripResult {
    pub(crate) request: JobRequest,
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) num_frames: u32,
    pub(crate) fps: f64,
    pub(crate) secs: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskOf {
    /// The start image, or the video that is changed.
    Start,
    /// Index of the control.
    Control(usize),
}

/// Part of a control, counted from 0, that a file replaces; its settings stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlPart {
    Source(usize),
    Mask(usize),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotTarget {
    /// Slot chosen by the user; otherwise the first free one.
    pub slot: Option<InputSlot>,
    /// Replaces this part of a control instead of adding a control.
    pub part: Option<ControlPart>,
    /// Numbered images are one video.
    pub joins_frames: bool,
    /// The video's size stays as the form has it, instead of following the image.
    pub keeps_size: bool,
    /// The file is shown in the viewer, too.
    pub is_shown: bool,
    /// An image is looked at with the part of it that is used, unless a job runs.
    pub is_seen: bool,
}

impl SlotTarget {
    /// A file of another program, or of the command line.
    pub fn shown() -> Self {
        Self {
            is_shown: true,
            ..Self::default()
        }
    }

    pub fn onto(slot: Option<InputSlot>) -> Self {
        Self {
            slot,
            ..Self::default()
        }
    }
}

impl From<ControlPart> for SlotTarget {
    fn from(part: ControlPart) -> Self {
        Self {
            part: Some(part),
            keeps_size: true,
            ..Self::onto(Some(InputSlot::Control))
        }
    }
}

#[derive(Clone, Debug)]
pub struct ContinuedResult {
    pub path: PathBuf,
    /// The video's last frame, or the image; kept in `folder` where the file cannot be read back.
    pub frame: Arc<RgbPixels>,
    pub is_video: bool,
    pub folder: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveTarget {
    Up,
    Down,
    Top,
    /// Before the job that is at this index now, from 0.
    Before(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiFilePrompt {
    pub paths: Vec<PathBuf>,
    pub(crate) placing: SlotTarget,
    /// Number of free slots in the form.
    pub takes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropChoice {
    Each,
    /// The first of them into the form, as many as it has places for.
    Form,
    None,
}

/// Action after the last job. Valid for this run of the program only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueEndAction {
    #[default]
    Nothing,
    Quit,
    Suspend,
}

impl QueueEndAction {
    pub const ALL: [Self; 3] = [Self::Nothing, Self::Quit, Self::Suspend];

    pub fn label(self) -> &'static str {
        match self {
            Self::Nothing => "Do nothing",
            Self::Quit => "Quit Safelight",
            Self::Suspend => "Suspend the computer",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GalleryLook {
    /// Edge of a thumbnail, in points.
    pub side: f32,
    pub sort: SortOrder,
}

impl Default for GalleryLook {
    fn default() -> Self {
        Self {
            side: 168.0,
            sort: SortOrder::default(),
        }
    }
}

/// Way of making a result again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemakeKind {
    SameSeed,
    Vary,
    Final,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrashRequest {
    pub path: PathBuf,
    /// Represents all numbered images of a video.
    pub is_frame: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PresetKey {
    /// Available for every model.
    Quality(QualityPreset),
    /// Id of a preset that the model brings.
    Model(String),
    /// Name of a preset of the user's.
    Own(String),
}

impl PresetKey {
    /// Tells it from others between runs of the program.
    pub fn id(&self) -> String {
        match self {
            Self::Quality(quality) => quality.label().to_lowercase(),
            Self::Model(id) => id.clone(),
            Self::Own(name) => format!("own:{name}"),
        }
    }
}

const MAX_RECENT: usize = 12;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RememberedModels {
    pub favourites: Vec<String>,
    /// Most recently used first.
    pub recent: Vec<String>,
}

impl RememberedModels {
    pub fn favour(&mut self, id: String, is_favourite: bool) {
        self.favourites.retain(|known| *known != id);
        if is_favourite {
            self.favourites.insert(0, id);
        }
    }

    pub fn use_now(&mut self, id: &str) {
        self.recent.retain(|known| known != id);
        self.recent.insert(0, id.to_owned());
        self.recent.truncate(MAX_RECENT);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompareMode {
    #[default]
    SideBySide,
    /// B over A, as far as the divider.
    Wipe,
    Difference,
}

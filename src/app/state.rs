//! What the window remembers across runs, and what it shows: plain data of which no part is the owner.
//!
//! What the user chose on purpose is in `Settings`, the jobs are in [`crate::app::queue`].

use egui::{ColorImage, Rect};
use safelight_core::job::{ControlUse, GenerateForm};
use safelight_core::media::Picture;
use serde::{Deserialize, Serialize};

use crate::app::choices::{GalleryLook, QueuePanel, Remembered, Slot};
use crate::app::player::playhead::Playback;

/// What may be lost without harm: the last form and what was folded open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    pub form: GenerateForm,
    #[serde(flatten)]
    pub folds: Folds,
    pub library: Remembered,
    pub gallery: GalleryLook,
    /// The keys of settings that were changed last, newest first.
    pub recent_settings: Vec<String>,
    /// Commands of the palette that were used last, newest first.
    pub recent_commands: Vec<String>,
    /// Of those that the next run opens again.
    pub page: Page,
    pub queue: QueuePanel,
    /// How clips are played.
    pub playback: Playback,
}

/// What is folded open of the panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Folds {
    pub is_advanced_open: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_grid_open: bool,
    pub is_graph_open: bool,
    /// What is wrong with models is unfolded.
    pub are_problems_open: bool,
    /// How wide the form is, in points, where somebody drew its edge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form_width: Option<u16>,
}

impl Default for Folds {
    fn default() -> Self {
        Self {
            is_advanced_open: false,
            is_grid_open: false,
            is_graph_open: false,
            are_problems_open: true,
            form_width: None,
        }
    }
}

/// Where a panel stands: that of the queue, or of the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PanelPlace {
    #[default]
    Nowhere,
    /// Beside what is watched or another page: the queue at its right, the memory below it.
    Beside,
    /// Over it, where there is no room for both and somebody asked for it.
    Over,
}

/// What a frame showed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drawn {
    pub queue: PanelPlace,
    pub memory: PanelPlace,
    /// Where the places of pictures are, for files that are dropped onto one.
    pub slots: [Option<Rect>; Slot::ALL.len()],
    /// Where the places of the controls' masks are.
    pub control_masks: [Option<Rect>; ControlUse::NETWORKS.most as usize],
    /// Where the two zones are for a file that says how it was made: its settings, and itself.
    pub drop_zones: [Option<Rect>; 2],
    /// A field or button had the keyboard: Escape takes it away before anybody hears of the key.
    pub had_focus: bool,
}

/// What the large part of the window, beside the form, is given to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Page {
    /// The picture that develops or plays.
    #[default]
    Watch,
    /// All results.
    Gallery,
    Doctor,
    /// Models that are on their way to this disk.
    Downloads,
    /// Where a mask is painted.
    Mask,
    Models,
    /// What the program shows when it starts for the first time.
    Welcome,
    Settings,
}

impl Page {
    /// What the next run opens: neither an examination nor a mask begins by itself.
    pub fn remembered(self) -> Self {
        match self {
            Self::Watch | Self::Doctor | Self::Mask | Self::Welcome => Self::Watch,
            Self::Gallery | Self::Models | Self::Downloads | Self::Settings => self,
        }
    }
}

/// A picture as egui takes it.
pub fn color_image(picture: &Picture) -> ColorImage {
    ColorImage::from_rgb(
        [picture.width as usize, picture.height as usize],
        &picture.rgb,
    )
}

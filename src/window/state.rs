//! Saved state of the window, and its layout: plain data without an owner.
//!
//! `Settings` contains deliberate choices, [`crate::window::queue`] the jobs.

use egui::{ColorImage, Rect};
use safelight_core::job::{ControlUse, GenerateForm};
use safelight_core::media::RgbPixels;
use serde::{Deserialize, Serialize};

use crate::window::create::choices::{
    GalleryLook, InputSlot, RememberedModels, SavedInput, SavedTabs, StripResult,
};
use crate::window::viewer::playhead::{PlaybackOptions, SoundVolume};

/// State that may be lost without harm: the last form and the unfolded sections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedState {
    pub form: GenerateForm,
    pub inputs: Vec<SavedInput>,
    pub tabs: SavedTabs,
    /// The strip, oldest first.
    pub results: Vec<StripResult>,
    #[serde(flatten)]
    pub folds: FoldState,
    pub library: RememberedModels,
    pub gallery: GalleryLook,
    pub recent_settings: Vec<String>,
    pub recent_commands: Vec<String>,
    /// Of those that the next run opens again.
    pub page: MainPage,
    pub is_queue_open: bool,
    pub playback: PlaybackOptions,
    pub volume: SoundVolume,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct FoldState {
    pub is_advanced_open: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_grid_open: bool,
    pub is_graph_open: bool,
    /// The memory panel shows all values.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_memory_detailed: bool,
    /// Width of the form in points, if the user changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form_width: Option<u16>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PanelPlace {
    #[default]
    Nowhere,
    /// Beside what is watched or another page: the queue at its right, the memory below it.
    Beside,
    /// Over the view, on request if there is no room for both.
    Over,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct DrawnFrame {
    pub queue: PanelPlace,
    pub memory: PanelPlace,
    /// Rectangles of the input slots, for dropped files.
    pub slots: [Option<Rect>; InputSlot::ALL.len()],
    /// Rectangles of the controls' mask slots.
    pub control_masks: [Option<Rect>; ControlUse::NETWORKS.most as usize],
    /// Rectangles of the two zones for a file with settings: its settings, and itself.
    pub drop_zones: [Option<Rect>; 2],
    /// A field or button had the keyboard: Escape takes it away before anybody hears of the key.
    pub had_focus: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MainPage {
    #[default]
    Watch,
    Gallery,
    Doctor,
    Downloads,
    Mask,
    Models,
    /// First steps, shown at the first start.
    Welcome,
    Settings,
}

impl MainPage {
    /// Page of the next start: neither an examination nor a mask opens automatically.
    pub fn remembered(self) -> Self {
        match self {
            Self::Watch | Self::Doctor | Self::Mask | Self::Welcome => Self::Watch,
            Self::Gallery | Self::Models | Self::Downloads | Self::Settings => self,
        }
    }
}

pub fn color_image(image: &RgbPixels) -> ColorImage {
    let size = [image.width as usize, image.height as usize];
    let Some(alpha) = &image.alpha else {
        return ColorImage::from_rgb(size, &image.rgb);
    };
    let pixels = image.rgb.as_chunks::<3>().0.iter().zip(alpha);
    let rgba: Vec<u8> = pixels.flat_map(|([r, g, b], a)| [*r, *g, *b, *a]).collect();
    ColorImage::from_rgba_unmultiplied(size, &rgba)
}

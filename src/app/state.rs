//! What the window remembers: [`State`] across runs, [`Session`] until it closes.
//!
//! What the user chose on purpose is in `Settings`, the jobs are in [`crate::app::queue`].

use std::path::PathBuf;

use egui::{ColorImage, Context};
use safelight_core::catalog::CatalogEntry;
use safelight_core::job::Notice as FieldNotice;
use safelight_core::job::{FieldError, GenerateForm, JobError, JobId};
use safelight_core::library::SearchedPlace;
use safelight_core::media::Picture;
use safelight_core::model::ModelSpec;
use serde::{Deserialize, Serialize};

use crate::app::desktop::Desktop;
use crate::app::doctor::DoctorPage;
use crate::app::fetching::{Arriving, Fetch};
use crate::app::gallery::{GalleryLook, GalleryPage};
use crate::app::inputs::{Inputs, Placing};
use crate::app::library::{Library, Remembered};
use crate::app::loras::LoraShelf;
use crate::app::mask::Masking;
use crate::app::memory::planning::Planning;
use crate::app::notices::Notice;
use crate::app::palette::Palette;
use crate::app::player::screen::Screen;
use crate::app::player::{Playback, Player, Watch};
use crate::app::presets::OwnPresets;
use crate::app::prompt::PromptDesk;
use crate::app::queue::JobQueue;
use crate::app::queue::desk::{QueueDesk, QueuePanel};
use crate::app::restore::Restoring;
use crate::app::settings::SettingsPage;

/// What may be lost without harm: the last form and what was folded open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    pub form: GenerateForm,
    pub is_advanced_open: bool,
    pub is_graph_open: bool,
    /// What is wrong with models is unfolded.
    pub are_problems_open: bool,
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

impl Default for State {
    fn default() -> Self {
        Self {
            form: GenerateForm::default(),
            is_advanced_open: false,
            is_graph_open: true,
            are_problems_open: true,
            library: Remembered::default(),
            gallery: GalleryLook::default(),
            recent_settings: Vec::new(),
            recent_commands: Vec::new(),
            page: Page::default(),
            queue: QueuePanel::default(),
            playback: Playback::default(),
        }
    }
}

/// The models, on their way or there.
#[derive(Clone, Debug, Default)]
pub enum Models {
    #[default]
    Loading,
    Ready(Vec<ModelSpec>),
}

impl Models {
    pub fn all(&self) -> &[ModelSpec] {
        match self {
            Self::Loading => &[],
            Self::Ready(specs) => specs,
        }
    }
}

/// A form whose model is not found any more: it comes back with the model, unless somebody has changed what stands in its
/// place.
#[derive(Clone, Debug)]
pub(in crate::app) struct Aside {
    pub form: GenerateForm,
    pub stand_in: GenerateForm,
}

/// What is known of files that are held over the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub num_files: usize,
    /// The first has the name of a clip.
    pub is_clip: bool,
}

impl Held {
    /// Where the window system says only that there are some.
    pub const UNKNOWN: Self = Self {
        num_files: 1,
        is_clip: false,
    };
}

/// How serious a notice is; decides its colour and icon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Info,
    Warning,
    Error,
}

/// What the middle of the window shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Viewing {
    #[default]
    Live,
    Result(JobId),
    /// A file from disk.
    File,
    /// Two results or files.
    Compare,
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
    /// Where a mask is painted.
    Mask,
    /// All models, to choose one.
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
            Self::Gallery | Self::Models | Self::Settings => self,
        }
    }
}

/// Everything that ends with the window.
#[derive(Default)]
pub struct Session {
    pub models: Models,
    /// What the catalogue says of models that cannot be used.
    pub model_problems: Vec<JobError>,
    /// Known models that are not here.
    pub missing: Vec<CatalogEntry>,
    /// The one of them that is looked at or on its way.
    pub fetch: Option<Fetch>,
    /// A model that was fetched and is looked for.
    pub arriving: Option<Arriving>,
    /// A form whose model is gone.
    pub(in crate::app) aside: Option<Aside>,
    /// Where models were looked for.
    pub searched: Vec<SearchedPlace>,
    pub inputs: Inputs,
    /// Files that came before the models were known.
    pub early_files: Vec<(Vec<PathBuf>, Placing)>,
    pub masking: Masking,
    pub library: Library,
    /// A file dialog is open.
    pub is_picking: bool,
    pub notices: Vec<Notice>,
    pub page: Page,
    pub viewing: Viewing,
    /// Of a result or a file.
    pub player: Option<Player>,
    pub watch: Watch,
    pub screen: Screen,
    /// What is wrong with the form at this moment.
    pub field_errors: Vec<FieldError>,
    /// What will be done differently than the form says.
    pub field_notices: Vec<FieldNotice>,
    pub settings: SettingsPage,
    pub desktop: Desktop,
    /// The list of commands, while it is open.
    pub palette: Option<Palette>,
    /// A field or button had the keyboard in the last frame: Escape takes it away before anybody hears of the key.
    pub had_focus: bool,
    /// The list of shortcuts is open.
    pub are_shortcuts_shown: bool,
    /// Where there is no room for both: what is beside the form, and not the form.
    pub is_view_shown: bool,
    pub doctor: DoctorPage,
    pub gallery: GalleryPage,
    pub prompt: PromptDesk,
    pub loras: LoraShelf,
    pub queue: QueueDesk,
    /// The seed in the form has made a clip already.
    pub is_seed_used: bool,
    /// How many seeds the last jobs used, counted from that one.
    pub num_seeds_used: u64,
    /// Said in the status line while nothing runs.
    pub last_word: String,
    /// The engine's last line about its device.
    pub device_line: String,
    /// Files are held over the window.
    pub held: Option<Held>,
    /// What the window system said of held files and never took back.
    pub num_stale_hovers: usize,
    /// What the form's job would need of memory.
    pub planning: Planning,
    pub presets: OwnPresets,
    /// Settings that are read from a file.
    pub restoring: Restoring,
    /// The shortcut for Generate was pressed.
    pub is_submit_wanted: bool,
    pub ui_calls: u64,
    /// How many there ever were.
    pub(in crate::app) num_notices: u64,
}

impl Session {
    /// Something lies over the pages and has the keys, Escape above all: a list, a menu or a question.
    pub fn is_covered(&self, ctx: &Context) -> bool {
        self.palette.is_some()
            || self.are_shortcuts_shown
            || egui::Popup::is_any_open(ctx)
            || ctx.memory(|memory| memory.top_modal_layer().is_some())
    }

    /// The page has the place beside the form, or where there is no room for both, the whole window.
    pub(in crate::app) fn uncover_page(&mut self) {
        self.is_view_shown = true;
        self.queue.is_over = false;
    }

    /// Nothing is shown in the middle of the window, and nothing is made.
    pub fn has_nothing_to_watch(&self, queue: &JobQueue) -> bool {
        self.viewing == Viewing::Live
            && queue.running.is_none()
            && self.watch.opening.is_none()
            && self.screen.texture().is_none()
    }

    /// Which picture of a batch is looked at; 0 for everything else.
    pub fn shown_of_batch(&self) -> usize {
        let player = self.player.as_ref().filter(|player| !player.is_clip());
        player.map_or(0, Player::index)
    }

    /// The model that the form is for.
    pub fn model(&self, form: &GenerateForm) -> Option<&ModelSpec> {
        self.models
            .all()
            .iter()
            .find(|spec| Some(&spec.id) == form.model.as_ref())
    }
}

/// A picture as egui takes it.
pub fn color_image(picture: &Picture) -> ColorImage {
    ColorImage::from_rgb(
        [picture.width as usize, picture.height as usize],
        &picture.rgb,
    )
}

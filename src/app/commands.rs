//! What panels may ask for.
//!
//! Panels push these; [`super::App`] runs them between two frames. Nothing is done here.

use std::path::PathBuf;

use safelight_core::job::JobId;
use safelight_core::memory::Change;
use safelight_core::settings::Settings;

use crate::app::desktop::DesktopCommand;
use crate::app::gallery::GalleryCommand;
use crate::app::inputs::{Placing, Slot};
use crate::app::library::LibraryCommand;
use crate::app::loras::LorasCommand;
use crate::app::mask::MaskCommand;
use crate::app::palette::Entry;
use crate::app::player::commands::PlayerCommand;
use crate::app::presets::PresetsCommand;
use crate::app::prompt::PromptCommand;
use crate::app::queue::commands::QueueCommand;
use crate::app::restore::RestoreCommand;
use crate::app::settings::SettingsCommand;
use crate::app::state::Page;

/// Which folder a chosen path is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderSetting {
    Output,
    Pictures,
    Libtorch,
    Models,
    Wildcards,
}

impl FolderSetting {
    /// The one that a key of the settings names.
    pub fn of_key(key: &str) -> Option<Self> {
        Some(match key {
            "output.folder" => Self::Output,
            "output.pictures_folder" => Self::Pictures,
            "runtime.libtorch" => Self::Libtorch,
            "models.folders" => Self::Models,
            "models.wildcards" => Self::Wildcards,
            _ => return None,
        })
    }
}

/// One wish of the user.
#[derive(Clone, Debug)]
pub enum AppCommand {
    /// Queue what the form says.
    Submit,
    /// Stop the running job.
    Cancel,
    /// About the jobs that wait or have stopped, and the whole queue.
    Queue(QueueCommand),
    ChooseModel(String),
    /// The model's own values for everything but the prompt and the LoRAs.
    ResetForm,
    UseExample(String),
    Prompt(PromptCommand),
    Loras(LorasCommand),
    RollSeed,
    Presets(PresetsCommand),
    /// Ask for a picture or clip in a file dialog.
    PickInput(Slot),
    /// Open files and put them where they belong.
    OpenInputs(Vec<PathBuf>, Placing),
    /// Go on from this clip, of which a numbered picture stands for all of them.
    ContinueFromFile(PathBuf),
    RemoveInput(Slot),
    /// Let start and end picture change places.
    SwapInputs,
    /// Choose a model.
    Library(LibraryCommand),
    /// Paint a mask.
    Mask(MaskCommand),
    /// Go on from the last frame of a finished clip.
    ContinueFrom(JobId),
    PickFolder(FolderSetting),
    ChangeSettings(Box<Settings>),
    Settings(SettingsCommand),
    Desktop(DesktopCommand),
    /// Run what was chosen in the command palette.
    Choose(Box<Entry>),
    /// Make a change that the memory plan suggests.
    ApplyChange(Change),
    ShowPage(Page),
    /// Examine the machine anew.
    Examine,
    /// Remove what MIOpen keeps on disk.
    ClearMiopen,
    /// Ask where the telemetry of a job goes, and write it there.
    ExportTelemetry(JobId),
    ReloadModels,
    /// Look at a known model that is not here, by its id, or at none.
    ShowMissing(Option<String>),
    /// Ask how much there is to fetch.
    AskFetch,
    /// Fetch what was agreed to, or go on with it.
    BeginFetch,
    PauseFetch,
    /// Play a finished clip again.
    ShowResult(JobId),
    /// Look at the running job.
    ShowLive,
    UseSettingsOf(JobId),
    /// Something of the gallery's.
    Gallery(GalleryCommand),
    /// Play a file of the gallery.
    PlayFile(PathBuf),
    /// Two files beside each other.
    CompareFiles(PathBuf, PathBuf),
    /// Fill the form with what a file says of how it was made.
    UseSettingsOfFile(PathBuf),
    Restore(RestoreCommand),
    OpenFolderOf(JobId),
    CopyPathOf(JobId),
    /// Give the text to the clipboard.
    CopyText(String),
    DismissNotice(u64),
    /// All of them.
    DismissNotices,
    TogglePlay,
    /// Go so many frames on (or back) and stop there.
    StepFrame(i64),
    /// Go to this frame and stop there.
    ShowFrame(usize),
    /// About what is watched.
    Player(PlayerCommand),
}

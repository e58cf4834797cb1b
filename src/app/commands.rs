//! Commands of panels and shortcuts: one enum per part, and [`AppCommand`] for any of them.
//!
//! [`super::SafelightApp`] hands each to its part between two frames.

use std::path::PathBuf;
use std::sync::Arc;

use egui::Modifiers;
use safelight_core::catalog::CatalogEntry;
use safelight_core::finish::NewRate;
use safelight_core::gallery::GalleryQuery;
use safelight_core::job::{ControlSettings, GenerateRequest, GridId, JobId};
use safelight_core::media::{MaskBrush, OutpaintRequest, RgbPixels};
use safelight_core::memory::PlanChange;
use safelight_core::prompts::PromptEntry;
use safelight_core::settings::Settings;

use crate::app::choices::{
    CompareMode, ContinuedResult, DropChoice, InputSlot, MaskOf, MoveTarget, MultiFilePrompt,
    PresetKey, QueueEndAction, SlotTarget, TrashRequest,
};
use crate::app::mask::tiles::VisibleTiles;
use crate::app::player::playhead::PlaybackOptions;
use crate::app::player::zoom::ZoomLevel;
use crate::app::state::MainPage;
use crate::runtimes::RuntimeBuild;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderSetting {
    Output,
    Pictures,
    Libtorch,
    Models,
    Wildcards,
}

impl FolderSetting {
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

macro_rules! app_command {
    ($($part:ident($command:ident)),* $(,)?) => {
        #[derive(Clone, Debug)]
        pub enum AppCommand {
            /// Another page, for which several parts get ready.
            Show(MainPage),
            Undo(Option<u64>),
            ClearForm,
            DismissNotice(u64),
            DismissNotices,
            $($part($command),)*
        }

        $(impl From<$command> for AppCommand {
            fn from(command: $command) -> Self {
                Self::$part(command)
            }
        })*
    };
}

app_command! {
    Queue(QueueCommand),
    Library(LibraryCommand),
    Fetch(FetchCommand),
    Inputs(InputsCommand),
    Mask(MaskCommand),
    Loras(LorasCommand),
    Presets(PresetsCommand),
    Prompt(PromptCommand),
    Restore(RestoreCommand),
    Memory(MemoryCommand),
    Player(PlayerCommand),
    Gallery(GalleryCommand),
    Doctor(DoctorCommand),
    Runtime(RuntimeCommand),
    Settings(SettingsCommand),
    Desktop(DesktopCommand),
    Palette(PaletteCommand),
    Finish(FinishCommand),
}

#[derive(Clone, Debug)]
pub enum QueueCommand {
    Submit,
    Cancel,
    RollSeed,
    /// The seed was typed: it is used as it is.
    KeepSeed,
    Ask(MultiFilePrompt),
    Open(bool),
    /// Show it when it is not on the screen, else hide it.
    Toggle,
    Move(JobId, MoveTarget),
    Edit(JobId),
    CancelEdit,
    Duplicate(JobId),
    Remove(JobId),
    CancelGrid(GridId),
    Restart(JobId),
    ReleaseHeld,
    ClearHeld,
    /// Take all jobs out that do not run.
    Clear,
    /// Pauses the running job, and starts no other.
    PauseAll,
    PauseAfter(bool),
    /// Pauses the running job; others start.
    PauseRunning,
    /// Let the running job wait for no other program.
    WaitNoMore,
    GoOn,
    Take(DropChoice),
    StopOpening(u64),
    After(QueueEndAction),
    StopCountdown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryCommand {
    /// Work with this model, with its own values for everything but the prompt and the LoRAs.
    Choose(String),
    ResetForm,
    Reload,
    Search(String),
    Step(i64),
    Look(String),
    Use(String),
    Favour(String, bool),
    /// Show the files of one that lacks some to be fetched.
    Complete(String),
    ShowFolder(PathBuf),
    /// Make the first clip with what ships with the app.
    FirstClip,
    Leave,
}

#[derive(Clone, Debug)]
pub enum FetchCommand {
    Show(Option<String>),
    Offer(Box<CatalogEntry>),
    Leave,
    Ask,
    Begin,
    Pause,
    Resume(String),
    /// Say nothing more of one that was paused or failed; what has come stays on the disk.
    Forget(String),
}

#[derive(Clone, Debug)]
pub enum InputsCommand {
    Pick(InputSlot),
    Open(Vec<PathBuf>, SlotTarget),
    /// Open files for the form that is shown, as many as it has places for.
    OpenHere(Vec<PathBuf>, SlotTarget),
    Continue(ContinuedResult),
    /// Put a picture there, which becomes a file in this folder.
    Take(InputSlot, Arc<RgbPixels>, PathBuf),
    /// Fill the form with what a result was made of.
    TakeOver(Box<GenerateRequest>),
    ContinueFrom(PathBuf),
    Remove(InputSlot),
    RemoveOne(InputSlot, usize),
    MoveOne(InputSlot, usize, usize),
    SetStrength(usize, f64),
    SetControl(usize, ControlSettings),
    PickControlMask(usize),
    RemoveControlMask(usize),
    LookForNetworks,
    Swap,
}

#[derive(Clone, Debug)]
pub enum FinishCommand {
    Look,
    UseUpscaler(PathBuf),
    UseInterpolator(PathBuf),
    Make(PathBuf, PostprocessAction),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PostprocessAction {
    /// So many times as wide and high.
    Upscale(u32),
    Frames(NewRate),
}

#[derive(Clone, Debug)]
pub enum LorasCommand {
    Open,
    Close,
    Look,
    /// Take those files into the form that are LoRAs and fit.
    Add(Vec<PathBuf>),
    Pick,
    Remove(usize),
}

#[derive(Clone, Debug)]
pub enum PresetsCommand {
    Apply(PresetKey),
    Undo,
    Save(String),
    Rename {
        from: String,
        to: String,
    },
    Delete(String),
    /// Read the file again: it may have been changed by hand.
    Reload,
}

#[derive(Clone, Debug)]
pub enum PromptCommand {
    Focus,
    Remember(PromptEntry),
    UseExample(String),
    Begin,
    Use(PromptEntry),
    Older,
    Newer,
    Forget(PromptEntry),
    Insert(String),
    LookAtWildcards,
    /// Like `LookAtWildcards`, unless they were just read.
    GlanceAtWildcards,
    OpenWildcardFolder,
}

#[derive(Clone, Debug)]
pub enum RestoreCommand {
    Use(PathBuf),
    /// Offer what files say of how they were made; these were given for a place, or for none.
    LookAt(Vec<PathBuf>, bool),
    Pick,
}

#[derive(Clone, Debug)]
pub enum MemoryCommand {
    Apply(PlanChange),
    /// The preserved memory in GiB while it is dragged: what it would do is seen before it is kept.
    DraftPreserved(Option<f64>),
    DraftCap(Option<f64>),
    /// Show what is expected of the form's job, though there is one to look back on.
    ShowPlan(bool),
    Export(JobId),
}

#[derive(Clone, Debug)]
pub enum PlayerCommand {
    ShowResult(JobId),
    ShowLive,
    FollowJobs,
    LeaveFull,
    PlayFile(PathBuf),
    /// Look at a contact sheet that was just made, unless something else is looked at on purpose.
    ShowSheet(PathBuf),
    /// Look at a picture that came into the form, unless a job runs.
    ShowInput(PathBuf),
    LeaveInput(PathBuf),
    CompareFiles(PathBuf, PathBuf),
    Toggle,
    Step(i64),
    ShowFrame(usize),
    UseSettingsOf(JobId),
    ContinueFrom(JobId),
    CopyPath,
    SetPlayback(PlaybackOptions),
    NextRepeat,
    ToggleFull,
    Zoom(ZoomLevel),
    OwnSize,
    CompareWith(JobId),
    CompareAs(CompareMode),
    MoveDivider(f32),
    Amplify(u8),
    SwapSides,
    LeaveCompare,
    SaveFrame,
    CopyFrame,
    UseFrame(InputSlot),
    Delete,
    /// Of what was thrown away these files are not there now, and this one is looked at next.
    Gone(Vec<PathBuf>, Option<PathBuf>),
}

#[derive(Clone, Debug)]
pub enum GalleryCommand {
    Ask(GalleryQuery),
    Resize(f32),
    Click(usize, Modifiers),
    Step(isize, bool),
    ChooseAll,
    Favour(Vec<PathBuf>, bool),
    Trash(Vec<TrashRequest>),
    OpenFolder(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeCommand {
    Follow,
    Install(Box<RuntimeBuild>),
    Use(String),
    Check(String),
    Remove(String),
    /// Stop what is done; what has come is kept.
    Stop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoctorCommand {
    Examine,
    ClearMiopen,
    MakeReport,
    StopReport,
    OpenReport,
    ShowReportFolder,
}

#[derive(Clone, Debug)]
pub enum SettingsCommand {
    Change(Box<Settings>),
    PickFolder(FolderSetting),
    Reset(&'static str),
    Show(&'static str),
    OpenFile,
    Larger,
    Smaller,
    NormalSize,
    SwitchTheme,
}

#[derive(Clone, Debug)]
pub enum DesktopCommand {
    ToggleMemory,
    /// Closes the topmost layer: selection, comparison or full view, else the page.
    Back,
    AddToMenu,
    Quit,
    /// If there is no room for both: shows the view next to the form, or the form.
    ShowView(bool),
    CopyText(String),
}

#[derive(Clone, Debug)]
pub enum PaletteCommand {
    Toggle,
    ToggleShortcuts,
    Run(String, Box<AppCommand>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum MaskCommand {
    Open(MaskOf),
    /// The pointer went down here; pixels of the picture.
    Begin([f32; 2], MaskBrush),
    Move([f32; 2], MaskBrush),
    End,
    Fill,
    Clear,
    Invert,
    Soften(u32),
    Extend(OutpaintRequest),
    See(VisibleTiles),
    Undo,
    Redo,
    Use,
    Discard,
}

//! Commands of panels and shortcuts: one enum per part, and [`AppCommand`] for any of them.
//!
//! [`crate::window::app::SafelightApp`] hands each to its part between two frames.

use std::path::PathBuf;
use std::sync::Arc;

use egui::Modifiers;
use safelight_core::catalog::CatalogEntry;
use safelight_core::finish::NewRate;
use safelight_core::gallery::{GalleryQuery, MarkChange};
use safelight_core::job::{DeviceChoice, GenerateRequest, JobId, SourceVideo};
use safelight_core::media::{MaskBrush, MaskFilter, OutpaintRequest, RgbPixels, VideoFormat};
use safelight_core::prompts::PromptEntry;
use safelight_core::settings::Settings;

use crate::window::create::choices::{
    ContinuedResult, InputSlot, MaskOf, MoveTarget, MultiFilePrompt, PresetKey, RemakeKind,
    SlotTarget, TrashRequest,
};
use crate::window::state::MainPage;
use crate::window::viewer::zoom::ZoomLevel;

macro_rules! app_command {
    ($($part:ident($command:ident)),* $(,)?) => {
        #[derive(Clone, Debug)]
        pub enum AppCommand {
            /// Another page, for which several parts get ready.
            Show(MainPage),
            /// Undoes the entry with this number, or the last one.
            Undo(Option<u64>),
            /// Does again what was undone last.
            Redo,
            /// Empties the form, its input images included.
            ClearForm,
            /// Unfolds the advanced settings of the form.
            ShowAdvanced,
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
    Player(PlayerCommand),
    Gallery(GalleryCommand),
    Settings(SettingsCommand),
    Desktop(DesktopCommand),
    Palette(PaletteCommand),
    Finish(FinishCommand),
    Tabs(TabsCommand),
}

#[derive(Clone, Debug)]
pub enum QueueCommand {
    Submit,
    /// Like `Submit`, once all files of the form are open.
    SubmitOpened,
    /// Adds jobs that were not made from the form.
    Add(Vec<GenerateRequest>),
    /// Cancels a running job, without an id the one that is shown.
    Cancel(Option<JobId>),
    RollSeed,
    Ask(MultiFilePrompt),
    Open(bool),
    /// Show it when it is not on the screen, else hide it.
    Toggle,
    Move(JobId, MoveTarget),
    Edit(JobId),
    CancelEdit,
    /// Queues a copy directly after the job.
    Duplicate(JobId),
    Remove(JobId),
    Restart(JobId),
    /// Take all jobs out that do not run.
    Clear,
    /// Pauses the running jobs, and starts no other.
    PauseAll,
    /// Pauses a running job, without an id the one that is shown; others start.
    SetAside(Option<JobId>),
    /// Sets the device that a job waits for; automatic is any.
    Pin(JobId, DeviceChoice),
    GoOn,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryCommand {
    /// Work with this model, with its own values for everything but the prompt and the LoRAs.
    Choose(String),
    ResetForm,
    Reload,
    Search(String),
    /// Selects the model this number of rows further.
    Step(isize),
    Look(String),
    /// Selects the model with this id for the form, if it can be used.
    Use(String),
    /// Selects the model of a transformer's file, whose folder is added to the model folders where needed.
    UseFile(PathBuf),
    Favour(String, bool),
    /// Show the files of one that lacks some to be fetched.
    Complete(String),
    Leave,
}

#[derive(Clone, Debug)]
pub enum FetchCommand {
    /// Shows the model with this id, or none.
    Show(Option<String>),
    Offer(Box<CatalogEntry>),
    /// Another model was chosen.
    Leave,
}

#[derive(Clone, Debug)]
pub enum InputsCommand {
    Pick(InputSlot),
    Open(Vec<PathBuf>, SlotTarget),
    /// Open files for the form that is shown, as many as it has places for.
    OpenHere(Vec<PathBuf>, SlotTarget),
    Continue(ContinuedResult),
    /// Put an image there, which becomes a file in this folder.
    Take(InputSlot, Arc<RgbPixels>, PathBuf),
    /// Fill the form with what a result was made of.
    TakeOver(Box<GenerateRequest>),
    /// First frame of a video as the start image.
    TakeFirst(SourceVideo),
    /// Continues from this video; a numbered image represents all of its video.
    ContinueFrom(PathBuf),
    Remove(InputSlot),
    RemoveOne(InputSlot, usize),
    MoveOne(InputSlot, usize, usize),
    RemoveControlMask(usize),
    LookForNetworks,
    Swap,
}

/// Tabs are counted from 0, from the left.
#[derive(Clone, Debug)]
pub enum TabsCommand {
    New,
    Show(usize),
    Next,
    Previous,
    Rename(usize, String),
    /// `None`: the active one.
    Close(Option<usize>),
}

#[derive(Clone, Debug)]
pub enum FinishCommand {
    Look,
    UseUpscaler(PathBuf),
    UseInterpolator(PathBuf),
    UseDepth(PathBuf),
    /// Chooses the network for this from a file.
    Pick(PostprocessAction),
    Make(PathBuf, PostprocessAction),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PostprocessAction {
    /// So many times as wide and high.
    Upscale(u32),
    Frames(NewRate),
    Depth,
}

#[derive(Clone, Debug)]
pub enum LorasCommand {
    Open,
    /// Take those files into the form that are LoRAs and fit.
    Add(Vec<PathBuf>),
    Remove(usize),
}

#[derive(Clone, Debug)]
pub enum PresetsCommand {
    Apply(PresetKey),
    Undo,
}

#[derive(Clone, Debug)]
pub enum PromptCommand {
    Focus,
    Remember(PromptEntry),
    Use(PromptEntry),
    Older,
    /// The prompt submitted after the one in the field, and finally the unsubmitted one.
    Newer,
    Forget(PromptEntry),
    Insert(String),
    /// Shows the wildcard folder in the file manager; creates it if it is missing.
    OpenWildcardFolder,
}

#[derive(Clone, Debug)]
pub enum RestoreCommand {
    Use(PathBuf),
    /// Offer what files say of how they were made; these were given for a place, or for none.
    LookAt(Vec<PathBuf>, bool),
    Pick,
    /// Copies the workflow of `ComfyUI` for a result of Safelight.
    CopyWorkflow(PathBuf),
    /// Asks for a file and writes the text of the workflow for this result.
    SaveWorkflow(PathBuf, String),
}

#[derive(Clone, Debug)]
pub enum PlayerCommand {
    ShowResult(JobId),
    ShowLive,
    /// Show the job that runs on the device with this name.
    Watch(String),
    FollowJobs,
    LeaveFull,
    PlayFile(PathBuf),
    /// Look at a contact sheet that was just made, unless something else is looked at on purpose.
    ShowSheet(PathBuf),
    /// Look at an image that came into the form, unless a job runs.
    ShowInput(PathBuf),
    /// The file left the form and is no longer shown as an input.
    LeaveInput(PathBuf),
    CompareFiles(PathBuf, PathBuf),
    Toggle,
    /// Moves this number of frames forwards, or backwards if negative, and stops there.
    Step(i64),
    ShowFrame(usize),
    /// Plays from or to this frame only; `None` leaves an end where it is.
    Trim(Option<usize>, Option<usize>),
    /// True makes the frame that is shown the first one that plays, false the last one.
    TrimHere(bool),
    ResetTrim,
    /// Exports the trimmed frames next to the result, or for `None` to a file that a dialog asks for.
    Export(Option<VideoFormat>),
    UseSettingsOf(JobId),
    Remake(JobId, RemakeKind),
    ContinueFrom(JobId),
    CopyPath,
    NextRepeat,
    ToggleMute,
    ToggleFull,
    Zoom(ZoomLevel),
    /// One pixel of the image for each pixel of the screen.
    OwnSize,
    CompareWith(JobId),
    /// Shows more of A, or of B, by a share of the image.
    MoveDivider(f32),
    LeaveCompare,
    /// Upscales or interpolates what is shown.
    Finish(PostprocessAction),
    SaveFrame,
    CopyFrame,
    UseFrame(InputSlot),
    /// True is the last one of the frames that play, false the first one.
    UseEnd(InputSlot, bool),
    Delete,
    /// Of what was thrown away these files are not there now, and this one is looked at next.
    Gone(Vec<PathBuf>, Option<PathBuf>),
}

#[derive(Clone, Debug)]
pub enum GalleryCommand {
    Ask(GalleryQuery),
    Click(usize, Modifiers),
    /// Moves the selection by this number; true extends it from the anchor.
    Step(isize, bool),
    ChooseAll,
    /// True marks these results; false takes the mark away.
    Mark(MarkChange),
    Trash(Vec<TrashRequest>),
    OpenFolder(PathBuf),
}

#[derive(Clone, Debug)]
pub enum SettingsCommand {
    Change(Box<Settings>),
    /// Asks for a folder, which is set or added by this key.
    PickFolder(&'static str),
    AddModelFolder(PathBuf),
    /// Resets one key, such as `interface.theme`.
    Reset(&'static str),
    Show(&'static str),
    OpenFile,
    /// Makes the interface larger by this share, or of normal size.
    Scale(Option<f32>),
    SwitchTheme,
}

#[derive(Clone, Debug)]
pub enum DesktopCommand {
    ToggleMemory,
    /// Closes the topmost layer: selection, comparison or full view, else the page.
    Back,
    AddToMenu,
    Quit,
    CopyText(String),
    CopyFiles(Vec<TrashRequest>),
}

#[derive(Clone, Debug)]
pub enum PaletteCommand {
    Toggle,
    ToggleShortcuts,
    /// Id of the chosen entry, and its command.
    Run(String, Box<AppCommand>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaskTool {
    #[default]
    Brush,
    Rectangle,
    Lasso,
}

#[derive(Clone, Debug, PartialEq)]
pub enum MaskCommand {
    Open(MaskOf),
    /// The pointer went down here; pixels of the image.
    Begin([f32; 2], MaskBrush, MaskTool),
    Move([f32; 2], MaskBrush),
    End,
    Fill,
    Clear,
    Invert,
    Filter(MaskFilter),
    /// Outpaints these margins; none removes them again.
    Extend(OutpaintRequest),
    Undo,
    Redo,
    Use,
    Discard,
}

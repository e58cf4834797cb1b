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

/// Setting of a chosen folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderSetting {
    Output,
    Pictures,
    Libtorch,
    Models,
    Wildcards,
}

impl FolderSetting {
    /// The folder with this key in the settings.
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
        /// One command.
        #[derive(Clone, Debug)]
        pub enum AppCommand {
            /// Another page, for which several parts get ready.
            Show(MainPage),
            /// Take back what was done last, or the entry with this number.
            Undo(Option<u64>),
            /// Empty the form, its input images included.
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
    /// Queue what the form says.
    Submit,
    /// Stop the running job.
    Cancel,
    RollSeed,
    /// The seed was typed: it is used as it is.
    KeepSeed,
    /// Asks for the purpose of these files.
    Ask(MultiFilePrompt),
    /// Show the panel or hide it.
    Open(bool),
    /// Show it when it is not on the screen, else hide it.
    Toggle,
    Move(JobId, MoveTarget),
    /// Put a job's settings into the form.
    Edit(JobId),
    CancelEdit,
    /// Queues a copy directly after the job.
    Duplicate(JobId),
    Remove(JobId),
    /// Take all jobs of a grid out, and cancel the one that runs.
    CancelGrid(GridId),
    /// Resumes or retries a stopped job.
    Restart(JobId),
    /// Resumes the jobs of the last run.
    ReleaseHeld,
    /// Take the jobs of the last run out.
    ClearHeld,
    /// Take all jobs out that do not run.
    Clear,
    /// Pauses the running job, and starts no other.
    PauseAll,
    /// Starts no other job after the running one.
    PauseAfter(bool),
    /// Pauses the running job; others start.
    PauseRunning,
    /// Let the running job wait for no other program.
    WaitNoMore,
    /// Start jobs again.
    GoOn,
    /// Purpose of files that were added together.
    Take(DropChoice),
    /// Open no more of several files.
    StopOpening(u64),
    After(QueueEndAction),
    /// Neither quit nor suspend.
    StopCountdown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryCommand {
    /// Work with this model, with its own values for everything but the prompt and the LoRAs.
    Choose(String),
    /// The chosen model's own values once more.
    ResetForm,
    /// Look for models again.
    Reload,
    /// Show those that have these words.
    Search(String),
    /// Selects the model this number of rows further.
    Step(i64),
    /// Look at the model with this id.
    Look(String),
    /// Work with it, where it can be.
    Use(String),
    /// Keep it above all others, or no longer.
    Favour(String, bool),
    /// Show the files of one that lacks some to be fetched.
    Complete(String),
    ShowFolder(PathBuf),
    /// Make the first clip with what ships with the app.
    FirstClip,
    /// Leave the first page.
    Leave,
}

#[derive(Clone, Debug)]
pub enum FetchCommand {
    /// Look at the one with this id, or at none.
    Show(Option<String>),
    /// The files that this one lacks.
    Offer(Box<CatalogEntry>),
    /// Another model was chosen.
    Leave,
    /// Ask how much there is to fetch.
    Ask,
    /// Starts or resumes the confirmed download.
    Begin,
    Pause,
    /// Try one again that was paused or failed earlier.
    Resume(String),
    /// Say nothing more of one that was paused or failed; what has come stays on the disk.
    Forget(String),
}

#[derive(Clone, Debug)]
pub enum InputsCommand {
    /// Ask for a picture or clip in a file dialog.
    Pick(InputSlot),
    /// Open files and put them where they belong.
    Open(Vec<PathBuf>, SlotTarget),
    /// Open files for the form that is shown, as many as it has places for.
    OpenHere(Vec<PathBuf>, SlotTarget),
    /// Go on from a finished result.
    Continue(ContinuedResult),
    /// Put a picture there, which becomes a file in this folder.
    Take(InputSlot, Arc<RgbPixels>, PathBuf),
    /// Fill the form with what a result was made of.
    TakeOver(Box<GenerateRequest>),
    /// Continues from this video; a numbered image represents all of its video.
    ContinueFrom(PathBuf),
    Remove(InputSlot),
    RemoveOne(InputSlot, usize),
    /// Moves one of several images in a slot to another position; counted from 0 as everywhere here.
    MoveOne(InputSlot, usize, usize),
    /// Weight of an image prompt.
    SetStrength(usize, f64),
    SetControl(usize, ControlSettings),
    /// Ask for the mask of a control.
    PickControlMask(usize),
    RemoveControlMask(usize),
    /// Look for ControlNets again.
    LookForNetworks,
    /// Let start and end picture change places.
    Swap,
}

#[derive(Clone, Debug)]
pub enum FinishCommand {
    /// Look for networks again.
    Look,
    /// Upscale with the network in this file.
    UseUpscaler(PathBuf),
    /// Make frames between frames with the network in this file.
    UseInterpolator(PathBuf),
    /// Make something of this picture or clip.
    Make(PathBuf, PostprocessAction),
}

/// Post-processing of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PostprocessAction {
    /// So many times as wide and high.
    Upscale(u32),
    /// More frames a second.
    Frames(NewRate),
}

#[derive(Clone, Debug)]
pub enum LorasCommand {
    /// Open the list of those that are on this machine.
    Open,
    Close,
    /// Look for files again.
    Look,
    /// Take those files into the form that are LoRAs and fit.
    Add(Vec<PathBuf>),
    /// Ask for a file in a dialog.
    Pick,
    /// Take the one in this place out of the form.
    Remove(usize),
}

#[derive(Clone, Debug)]
pub enum PresetsCommand {
    Apply(PresetKey),
    /// The values that stood before the preset.
    Undo,
    /// Keep the form's values under this name.
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
    /// Put the cursor into the field.
    Focus,
    /// Keep what is being submitted.
    Remember(PromptEntry),
    /// Put an example in the field.
    UseExample(String),
    /// Somebody begins to write.
    Begin,
    /// Put this in the field.
    Use(PromptEntry),
    /// The prompt submitted before the one in the field.
    Older,
    /// The prompt submitted after it, and finally the unsubmitted one.
    Newer,
    /// Take this out of the history.
    Forget(PromptEntry),
    /// Write this where the cursor is.
    Insert(String),
    LookAtWildcards,
    /// Like `LookAtWildcards`, unless they were just read.
    GlanceAtWildcards,
    /// Show the folder of wildcards in the file manager; it is made if it is missing.
    OpenWildcardFolder,
}

#[derive(Clone, Debug)]
pub enum RestoreCommand {
    /// Fill the form with what a file says of how it was made.
    Use(PathBuf),
    /// Offer what files say of how they were made; these were given for a place, or for none.
    LookAt(Vec<PathBuf>, bool),
    /// Ask for a file in a dialog, and take over its settings.
    Pick,
}

#[derive(Clone, Debug)]
pub enum MemoryCommand {
    /// Make a change that the memory plan suggests.
    Apply(PlanChange),
    /// The preserved memory in GiB while it is dragged: what it would do is seen before it is kept.
    DraftPreserved(Option<f64>),
    /// Like the previous one, of the memory limit.
    DraftCap(Option<f64>),
    /// Show what is expected of the form's job, though there is one to look back on.
    ShowPlan(bool),
    /// Ask where the telemetry of a job goes, and write it there.
    Export(JobId),
}

#[derive(Clone, Debug)]
pub enum PlayerCommand {
    /// Play a finished clip again.
    ShowResult(JobId),
    /// Look at the running job.
    ShowLive,
    /// Shows the next result.
    FollowJobs,
    /// The picture has not the whole screen any more.
    LeaveFull,
    PlayFile(PathBuf),
    /// Look at a contact sheet that was just made, unless something else is looked at on purpose.
    ShowSheet(PathBuf),
    /// Look at a picture that came into the form, unless a job runs.
    ShowInput(PathBuf),
    /// It left the form, and is not looked at for that any more.
    LeaveInput(PathBuf),
    /// Two files side by side.
    CompareFiles(PathBuf, PathBuf),
    Toggle,
    /// Moves this number of frames forwards (or backwards) and stops there.
    Step(i64),
    /// Go to this frame and stop there.
    ShowFrame(usize),
    /// Put a result's settings into the form.
    UseSettingsOf(JobId),
    /// Go on from the last frame of a finished clip.
    ContinueFrom(JobId),
    /// The path of what is shown.
    CopyPath,
    /// Play so from now on.
    SetPlayback(PlaybackOptions),
    /// The other things that can happen at a clip's end, one after the other.
    NextRepeat,
    /// Give the picture the whole screen, or not any more.
    ToggleFull,
    Zoom(ZoomLevel),
    /// One of its pixels for each of the screen.
    OwnSize,
    /// Shows another result next to the current one.
    CompareWith(JobId),
    CompareAs(CompareMode),
    /// Show more of A, or of B, by a share of the picture.
    MoveDivider(f32),
    /// Amplifies a difference by this factor.
    Amplify(u8),
    /// Let A and B change places.
    SwapSides,
    LeaveCompare,
    /// Saves the shown frame to a separate file.
    SaveFrame,
    CopyFrame,
    /// Make the next one from the frame that is shown.
    UseFrame(InputSlot),
    /// Throw away what is shown.
    Delete,
    /// Of what was thrown away these files are not there now, and this one is looked at next.
    Gone(Vec<PathBuf>, Option<PathBuf>),
}

#[derive(Clone, Debug)]
pub enum GalleryCommand {
    /// List what is looked for.
    Ask(GalleryQuery),
    /// Thumbnail size in points.
    Resize(f32),
    /// The result at this place was clicked, with these keys held.
    Click(usize, Modifiers),
    /// Moves the selection by this number, and optionally extends it from the anchor.
    Step(isize, bool),
    ChooseAll,
    /// Make these favourites, or not any more.
    Favour(Vec<PathBuf>, bool),
    Trash(Vec<TrashRequest>),
    OpenFolder(PathBuf),
}

/// About the libtorch that would serve this machine's GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeCommand {
    /// Do what was advised: fetch it, or use the one that is here.
    Follow,
    /// Fetch this build, try it and use it.
    Install(Box<RuntimeBuild>),
    /// Try the one with this id and use it.
    Use(String),
    /// Try it and change nothing.
    Check(String),
    /// Delete it.
    Remove(String),
    /// Stop what is done; what has come is kept.
    Stop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoctorCommand {
    Examine,
    /// Remove what MIOpen keeps on disk.
    ClearMiopen,
    /// Measure this machine and write a page about it.
    MakeReport,
    /// Measure no more, and write down what was measured.
    StopReport,
    OpenReport,
    ShowReportFolder,
}

#[derive(Clone, Debug)]
pub enum SettingsCommand {
    Change(Box<Settings>),
    PickFolder(FolderSetting),
    /// The default of one key, such as `interface.theme`.
    Reset(&'static str),
    /// Show the page with this row.
    Show(&'static str),
    /// Open the file in the user's editor.
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
    /// Make an entry among the desktop's applications.
    AddToMenu,
    Quit,
    /// If there is no room for both: shows the view next to the form, or the form.
    ShowView(bool),
    /// Give the text to the clipboard.
    CopyText(String),
}

#[derive(Clone, Debug)]
pub enum PaletteCommand {
    Toggle,
    ToggleShortcuts,
    /// Run what was chosen: the entry with this id.
    Run(String, Box<AppCommand>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum MaskCommand {
    /// Paint over this, from the mask that there is.
    Open(MaskOf),
    /// The pointer went down here; pixels of the picture.
    Begin([f32; 2], MaskBrush),
    /// And on to here.
    Move([f32; 2], MaskBrush),
    /// And up.
    End,
    Fill,
    Clear,
    Invert,
    /// Softens all edges by this number of pixels.
    Soften(u32),
    /// Give the picture room at its sides; none takes it away again.
    Extend(OutpaintRequest),
    See(VisibleTiles),
    Undo,
    Redo,
    /// Saves it as a file, and uses it as the mask of its image.
    Use,
    /// Go back without it.
    Discard,
}

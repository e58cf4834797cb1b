//! Jobs: from the form of widgets and arguments, over the validated request and its recipe of stages, to the updates
//! and the final outcome.
//!
//! Plain data only: no threads, no channels; only the job's folder, the queue's file and the wildcard files are on
//! disk.

mod cancel;
mod control;
mod error;
mod folder;
pub(crate) mod form;
mod grid;
mod job_request;
mod options;
mod outpaint_video;
mod postprocess;
pub mod prompt;
mod queue_file;
mod recipe;
mod request;
mod second_pass;
mod sections;

pub use crate::job_id::JobId;
pub use crate::media::Video;
pub use crate::model::choices::{
    DeviceChoice, DtypeChoice, LoraChoice, ResizeMode, SamplerKind, SectionOrder, SigmaSchedule,
};
pub use crate::model::{
    BlockSet, GuidanceRange, Guider, GuiderKind, PartialSampling, SamplingOptions, StepCache,
    StepCacheKind, first_step,
};
pub use cancel::CancelToken;
pub use control::{
    CannyThresholds, ControlBy, ControlInput, ControlKind, ControlSettings, ControlUse,
};
pub use error::{JobError, JobErrorKind, disk_advice};
pub use folder::JobFolder;
pub(crate) use form::tag_sentences;
pub use form::{
    ASPECTS, ChosenImage, ChosenLora, DEFAULT_SECS, ExpandedJobs, FieldError, FormControl,
    FormInputs, FormNotice, GenerateForm, InputMedia, LiteralPrompt, MAX_PROMPT_IMAGES,
    PROMPT_STRENGTHS, SeedChoice, SeedMode, SizeChoice, SourceVideo, StartImage, ValidatedForm,
    is_of_aspect, jobs_of, margins_for, random_seed,
};
pub use grid::{
    FindModel, GridAxis, GridId, GridRecord, GridSetting, JobGrid, OfGrid, SheetCells, cell_of,
    write_sheet,
};
pub use job_request::JobRequest;
pub use options::JobOptions;
pub use outpaint_video::{first_of, write_extended_video};
pub use postprocess::{PostprocessKind, PostprocessRequest};
pub use queue_file::{QueueFile, QueuedJob, QueuedState};
pub use recipe::{Recipe, Stage};
pub use request::{CARRIED_APP, GenerateRequest, PreviewChoice, PromptEmbedding, PromptImage};
pub use second_pass::{EnlargedPass, SecondPass};
pub use sections::{SEEN_FRAMES, SectionFrames, VideoSections, WINDOW};

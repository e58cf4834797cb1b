//! Updates of a running job: stages, steps, frames, memory, and the one outcome.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::job::{FormNotice, JobError, JobRequest, Recipe, Stage};
use crate::lora::CheckedLora;
use crate::media::{RgbPixels, Video};
use crate::memory::FallbackLevel;
use crate::plan::{MemoryPlan, PlanOutcome};
use crate::units::size_text;

/// The engine's memory at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemorySample {
    /// Seconds since the engine started.
    pub at_secs: f64,
    /// On a GPU what the driver says is used on the device by all programs; on the CPU the engine's
    /// resident memory.
    pub used_bytes: u64,
    /// Bytes of live tensors, weights that are mapped from files included.
    pub allocated_bytes: u64,
    /// Bytes that the allocator holds, live or cached.
    pub reserved_bytes: u64,
    pub total_bytes: u64,
    /// Sample of the rest of the machine, if it is monitored.
    #[serde(default)]
    pub machine: MachineSample,
}

/// State of the machine at one moment; unknown values are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineSample {
    /// The card's own memory in use, or an APU's carve-out, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vram_used_bytes: Option<u64>,
    /// Main memory that the GPU has, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gtt_used_bytes: Option<u64>,
    /// Main memory that programs can still get, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_available_bytes: Option<u64>,
    /// Page cache in bytes, which the kernel releases on demand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_watts: Option<f32>,
    /// Share of the time that the device computes, from 0 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_percent: Option<f32>,
}

/// Memory given back at a boundary between stages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryReclaim {
    /// Such as `post-text-encoding`.
    pub boundary: String,
    /// Bytes held by the allocator before.
    pub before_bytes: u64,
    pub after_bytes: u64,
}

/// Memory that a paused job waits for after other programs needed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryWait {
    /// True for the GPU's memory, false for the computer's.
    pub is_device: bool,
    /// Other jobs of this program have the memory, not other programs.
    pub is_for_jobs: bool,
    pub others_bytes: u64,
    /// Limit for all programs together.
    pub limit_bytes: u64,
}

impl fmt::Display for MemoryWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_device {
            "GPU memory"
        } else {
            "memory"
        };
        let others = if self.is_for_jobs { "jobs" } else { "programs" };
        let (used, all) = (size_text(self.others_bytes), size_text(self.limit_bytes));
        write!(
            f,
            "Waiting for {what}: other {others} use {used} of {all}. The job continues by itself."
        )
    }
}

/// One image on its way to the screen.
#[derive(Clone, Debug)]
pub struct PreviewFrame {
    /// Index in the video; a preview counts latent frames.
    pub index: u32,
    pub count: u32,
    pub image: Arc<RgbPixels>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageTime {
    pub stage: Stage,
    /// Run number of the stage, from 0.
    #[serde(default)]
    pub section: u32,
    pub secs: f64,
}

/// A section that has joined the video.
#[derive(Clone, Debug)]
pub struct SectionMade {
    /// Counted from 0, in the order in which they are made.
    pub section: u32,
    pub count: u32,
    pub video: Arc<Video>,
    /// File that is written while the next section is generated.
    pub path: PathBuf,
}

/// An attempt of a stage at a fallback level after memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FallbackAttempt {
    pub stage: Stage,
    /// Run number of the stage, from 0.
    #[serde(default)]
    pub section: u32,
    pub rung: FallbackLevel,
    /// True if the stage succeeded with it; otherwise the next one was tried.
    pub helped: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobOutput {
    /// The files: one, one an image of a batch, or one a frame where they are numbered.
    pub paths: Vec<PathBuf>,
    pub num_frames: u32,
    /// The video, or the images of a batch; of a job that finishes something only its first frame, as the others may be
    /// larger than the memory.
    #[serde(skip)]
    pub video: Arc<Video>,
    /// `None` where nothing was made up.
    pub seed: Option<u64>,
    pub secs: f64,
    pub stages: Vec<StageTime>,
    /// The largest `used_bytes` that was seen.
    pub peak_bytes: u64,
    /// Sentences on deviations from the request.
    pub warnings: Vec<String>,
    /// Planned and measured memory.
    pub plan: Option<PlanOutcome>,
    /// Out-of-memory fallbacks in order.
    pub rungs: Vec<FallbackAttempt>,
}

impl JobOutput {
    /// The file, or the first of several.
    pub fn path(&self) -> &Path {
        self.paths
            .first()
            .map_or_else(|| Path::new(""), PathBuf::as_path)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum JobOutcome {
    Finished(JobOutput),
    Cancelled,
    /// Cancelled after some sections: those are saved as a separate video.
    Kept(JobOutput),
    /// Paused: its folder has the finished parts, from which it can resume.
    Paused,
    Failed(JobError),
}

impl JobOutcome {
    pub fn output(&self) -> Option<&JobOutput> {
        match self {
            Self::Finished(output) | Self::Kept(output) => Some(output),
            Self::Cancelled | Self::Paused | Self::Failed(_) => None,
        }
    }
}

/// Updates of a running job. `Settled`, `Started`, `Plan`, `Stage`, `StageEnded`, `Section`, `Lora`, the first `Waiting`,
/// `Warning` and `Ended` always arrive; the others may be dropped when the receiver is slow. Those with pixels, and
/// `Settled`, are not serialised.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum JobUpdate {
    /// The first one: the request as it is made, with its prompts expanded and its result named, and notices on that.
    #[serde(skip)]
    Settled {
        request: Box<JobRequest>,
        notices: Vec<FormNotice>,
    },
    Started(Recipe),
    /// The engine's one line on its device, once it is known.
    Device(String),
    Plan(Box<MemoryPlan>),
    /// A stage begins. `resumed`: its engine was replaced, or it continues after finished frames.
    Stage {
        stage: Stage,
        section: u32,
        resumed: bool,
    },
    StageEnded(StageTime),
    Step {
        stage: Stage,
        step: u32,
        num_steps: u32,
        secs_left: f64,
    },
    /// The latents as an image would look, roughly.
    #[serde(skip)]
    Preview(PreviewFrame),
    /// A decoded frame; of a section, where the video is made in sections.
    #[serde(skip)]
    Frame(PreviewFrame),
    /// A section is done, and can be played while the next is made.
    #[serde(skip)]
    Section(SectionMade),
    Memory(MemorySample),
    Reclaimed(MemoryReclaim),
    /// The job gave its memory to other programs, and waits until the next `Stage`.
    Waiting(MemoryWait),
    /// Layers of a LoRA that fit the model.
    Lora(CheckedLora),
    Warning(String),
    /// The last word, exactly once.
    Ended(JobOutcome),
}

impl JobUpdate {
    /// Returns whether the next one of its kind replaces it, so that it may be dropped.
    pub fn is_replaced(&self) -> bool {
        matches!(
            self,
            Self::Step { .. } | Self::Preview(_) | Self::Frame(_) | Self::Memory(_)
        )
    }
}

//! Changes that make a job fit, or fit without streaming and tiles. Each is planned, and suggested only if it helps.

use serde::{Deserialize, Serialize};

use super::planner::{MemoryPlan, MemoryPlanner, TILES};
use crate::families::read_footprint;
use crate::footprint::{ModelFootprint, PlannedNetwork};
use crate::job::{ControlInput, GenerateRequest, LoraChoice};
use crate::model::{ModelFiles, ModelSpec, SizeLimits, nearest_multiple};
use crate::units::gib_text;

/// Another model for the same job, such as the same one in fp8.
#[derive(Clone, Debug)]
pub struct ModelAlternative {
    pub id: String,
    pub name: String,
    pub files: ModelFiles,
    pub weights: ModelFootprint,
}

impl ModelAlternative {
    /// Models of the family and variant of `id` whose files are smaller.
    pub fn specs<'a>(
        models: &'a [ModelSpec],
        id: &str,
    ) -> impl Iterator<Item = &'a ModelSpec> + use<'a> {
        let own = models.iter().find(|spec| spec.id == id);
        own.into_iter().flat_map(move |own| {
            models.iter().filter(move |spec| {
                (spec.family, &spec.variant) == (own.family, &own.variant)
                    && spec.id != own.id
                    && spec.bytes < own.bytes
            })
        })
    }

    /// Reads the headers of a model; `None` if they cannot be read.
    pub fn read(spec: &ModelSpec, loras: &[LoraChoice], controls: &[ControlInput]) -> Option<Self> {
        Some(Self {
            id: spec.id.clone(),
            name: spec.name.clone(),
            files: spec.files.clone(),
            weights: read_footprint(spec.family, &spec.files, loras, controls).ok()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum PlanChange {
    /// Remove the user's cap.
    DefaultCap,
    /// Memory reserved for activations.
    Preserved {
        bytes: u64,
    },
    UnloadBetween,
    Batch {
        batch_size: u32,
    },
    Tile {
        pixels: u32,
    },
    Model {
        id: String,
        name: String,
    },
    Frames {
        num_frames: u32,
    },
    Size {
        width: u32,
        height: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSuggestion {
    #[serde(flatten)]
    pub change: PlanChange,
    /// Label of a button: `Decode in tiles of 256`.
    pub text: String,
    /// The plan's verdict after the change.
    pub verdict: String,
}

impl PlanChange {
    /// The request with the change, except for another model's files.
    pub fn applied(&self, request: &GenerateRequest) -> GenerateRequest {
        let mut changed = request.clone();
        match self {
            Self::DefaultCap => changed.options.memory.cap_bytes = None,
            Self::Preserved { bytes } => changed.options.memory.preserved_bytes = Some(*bytes),
            Self::UnloadBetween => changed.options.memory.keep_loaded = false,
            Self::Batch { batch_size } => changed.batch_size = *batch_size,
            Self::Tile { pixels } => changed.options.vae_tile = Some(*pixels),
            Self::Model { id, .. } => changed.model.clone_from(id),
            Self::Frames { num_frames } => changed.num_frames = *num_frames,
            Self::Size { width, height } => (changed.width, changed.height) = (*width, *height),
        }
        changed
    }

    fn text(&self, request: &GenerateRequest) -> String {
        match self {
            Self::DefaultCap => "Use the device's own cap".to_owned(),
            Self::Preserved { bytes } => {
                format!("Keep {} GiB free for activations", gib_text(*bytes))
            }
            Self::UnloadBetween => "Unload models between stages".to_owned(),
            Self::Batch { batch_size: 1 } => "Make one image at a time".to_owned(),
            Self::Batch { batch_size } => format!("Make {batch_size} images at a time"),
            Self::Tile { pixels } => format!("Use VAE tiles of {pixels}"),
            Self::Model { name, .. } => format!("Use {name}"),
            Self::Frames { num_frames: 1 } => "Use a single frame".to_owned(),
            Self::Frames { num_frames } => {
                format!("Use {num_frames} frames, not {}", request.num_frames)
            }
            Self::Size { width, height } => format!("Use {width} × {height}"),
        }
    }
}

/// Multiple of suggested sizes.
const SIZE_MULTIPLE: u32 = 32;
/// Factors of the size that are tried.
const SCALES: [f64; 8] = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2];

/// Changes that make the job fit, mildest first; for one that streams or uses tiles, those that avoid it.
pub fn suggestions(
    planner: &MemoryPlanner<'_>,
    request: &GenerateRequest,
    plan: &MemoryPlan,
    alternatives: &[ModelAlternative],
) -> Vec<PlanSuggestion> {
    let rank = plan.rank();
    if rank == 0 {
        return Vec::new();
    }
    let helps = |change: PlanChange| {
        let changed = change.applied(request);
        tried(planner.plan(&changed), rank, change, request)
    };
    let mut found = Vec::new();
    if request.options.memory.cap_bytes.is_some() {
        found.extend(helps(PlanChange::DefaultCap));
    }
    if rank == 2 {
        found.extend(mild(planner, request).into_iter().filter_map(helps));
    }
    let others = alternatives
        .iter()
        .filter(|other| other.id != request.model);
    let others = others.filter_map(|other| {
        let change = PlanChange::Model {
            id: other.id.clone(),
            name: other.name.clone(),
        };
        let mut changed = change.applied(request);
        changed.files = other.files.clone();
        let with = MemoryPlanner {
            weights: &other.weights,
            ..*planner
        };
        tried(with.plan(&changed), rank, change, request)
    });
    found.extend(others.take(3));
    if rank == 2 {
        found.extend(fewer_frames(request, &helps));
        found.extend(smaller(request, &helps));
    }
    found
}

/// Changes that do not affect the result.
fn mild(planner: &MemoryPlanner<'_>, request: &GenerateRequest) -> Vec<PlanChange> {
    let mut changes = Vec::new();
    if request.options.memory.preserved_bytes.is_some() {
        let mut free = request.clone();
        free.options.memory.preserved_bytes = None;
        let bytes = planner.plan(&free).suggested_preserved_bytes;
        changes.push(PlanChange::Preserved { bytes });
    }
    if request.options.memory.keep_loaded {
        changes.push(PlanChange::UnloadBetween);
    }
    if request.batch_size > 1 {
        changes.push(PlanChange::Batch { batch_size: 1 });
    }
    let tiles = TILES.iter().chain(&[128]).copied();
    let smaller = tiles.filter(|tile| request.options.vae_tile.is_none_or(|asked| *tile < asked));
    changes.extend(
        smaller
            .map(|pixels| PlanChange::Tile { pixels })
            .next_back(),
    );
    changes
}

/// The suggestion, if its plan is better than `rank`.
fn tried(
    plan: MemoryPlan,
    rank: u8,
    change: PlanChange,
    request: &GenerateRequest,
) -> Option<PlanSuggestion> {
    let text = change.text(request);
    (plan.rank() < rank).then_some(PlanSuggestion {
        change,
        text,
        verdict: plan.verdict.text,
    })
}

fn fewer_frames(
    request: &GenerateRequest,
    helps: &dyn Fn(PlanChange) -> Option<PlanSuggestion>,
) -> Option<PlanSuggestion> {
    let change = |groups: u32| PlanChange::Frames {
        num_frames: groups.saturating_mul(4).saturating_add(1),
    };
    // Counted from 1, and fewer than there are.
    let groups = request.num_frames.saturating_sub(1) / 4;
    let fits = most(groups, &|count| helps(change(count - 1)).is_some())?;
    helps(change(fits - 1))
}

/// The largest size of the same aspect that fits.
fn smaller(
    request: &GenerateRequest,
    helps: &dyn Fn(PlanChange) -> Option<PlanSuggestion>,
) -> Option<PlanSuggestion> {
    SCALES.into_iter().find_map(|scale| {
        let edge = |edge: u32| {
            let scaled = (f64::from(edge) * scale) as u32;
            (scaled / SIZE_MULTIPLE * SIZE_MULTIPLE).max(SIZE_MULTIPLE)
        };
        let (width, height) = (edge(request.width), edge(request.height));
        let is_smaller = width < request.width || height < request.height;
        is_smaller.then(|| helps(PlanChange::Size { width, height }))?
    })
}

/// Largest size of the same aspect with as many frames, and most frames of the same size, that fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargestFit {
    /// `None` if not even the smallest fits.
    pub size: Option<(u32, u32)>,
    /// `None` for images and videos in sections, and if not even one frame fits.
    pub num_frames: Option<u32>,
}

/// Searches within a model's limits, by planning each candidate.
pub fn largest(
    planner: &MemoryPlanner<'_>,
    request: &GenerateRequest,
    limits: &SizeLimits,
) -> LargestFit {
    let fits = |change: PlanChange| planner.plan(&change.applied(request)).fits();
    let multiple = limits.size_multiple.max(1);
    let (long, short) = (
        request.width.max(request.height),
        request.width.min(request.height),
    );
    // By the short edge, in multiples.
    let size = |steps: u32| {
        let short_edge = steps * multiple;
        let aspect = f64::from(long) / f64::from(short.max(1));
        let long_edge = nearest_multiple(f64::from(short_edge) * aspect, multiple);
        if request.width >= request.height {
            (long_edge, short_edge)
        } else {
            (short_edge, long_edge)
        }
    };
    let is_allowed = |(width, height): (u32, u32)| {
        width.max(height) <= limits.max_edge
            && u64::from(width) * u64::from(height) <= limits.max_pixels
    };
    let steps = most(limits.max_edge / multiple, &|steps| {
        let (width, height) = size(steps);
        is_allowed((width, height)) && fits(PlanChange::Size { width, height })
    });
    let stride = limits.frame_stride.max(1);
    let frames = |groups: u32| (groups - 1) * stride + 1;
    let makes_videos = !request.family.makes_images && request.sections.is_none();
    let groups = makes_videos.then(|| {
        let end = limits.max_frames.saturating_sub(1) / stride + 1;
        most(end, &|groups| {
            fits(PlanChange::Frames {
                num_frames: frames(groups),
            })
        })
    });
    LargestFit {
        size: steps.map(size),
        num_frames: groups.flatten().map(frames),
    }
}

/// Largest number from 1 to `end` that passes, if all below it do; `None` if 1 does not.
fn most(end: u32, passes: &dyn Fn(u32) -> bool) -> Option<u32> {
    if end == 0 || !passes(1) {
        return None;
    }
    let (mut best, mut too_many) = (1, end.saturating_add(1));
    while too_many - best > 1 {
        let middle = best + (too_many - best) / 2;
        *(if passes(middle) {
            &mut best
        } else {
            &mut too_many
        }) = middle;
    }
    Some(best)
}

/// Row of [`preserved_table`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PreservedRow {
    pub preserved_gib: u32,
    pub resident_bytes: u64,
    pub streamed_bytes_per_step: u64,
    pub copy_secs_per_step: f64,
    pub peak_bytes: u64,
    pub fits: bool,
}

/// Effect of reserving 0 to `most` GiB on the largest transformer.
pub fn preserved_table(
    planner: &MemoryPlanner<'_>,
    request: &GenerateRequest,
    most: u32,
) -> Vec<PreservedRow> {
    let row = |preserved_gib: u32| {
        let change = PlanChange::Preserved {
            bytes: u64::from(preserved_gib) << 30,
        };
        let plan = planner.plan(&change.applied(request));
        let is_transformer = |part: PlannedNetwork| part.is_transformer();
        let transformers = plan.stages.iter();
        let transformers = transformers.filter(|stage| stage.part.is_some_and(is_transformer));
        let stage = transformers.max_by_key(|stage| stage.weights_bytes)?;
        Some(PreservedRow {
            preserved_gib,
            resident_bytes: stage.resident_bytes,
            streamed_bytes_per_step: stage.streamed_bytes_per_step,
            copy_secs_per_step: stage.copy_secs_per_step,
            peak_bytes: stage.peak_bytes,
            fits: stage.fits,
        })
    };
    (0..=most).filter_map(row).collect()
}

//! What would make a job fit, or fit without help: each change is planned anew, and one that does not help is not
//! suggested.
//!
//! Changes are data; the window makes buttons of them and the command line lines.

use serde::{Deserialize, Serialize};

use super::network::ModelWeights;
use super::plan::{Plan, Planner, TILES};
use crate::job::GenerateRequest;
use crate::model::{Limits, nearest_multiple};
use crate::units::gib_text;

/// Another model that could make the same, such as the same one in fp8, with what its headers say.
#[derive(Clone, Debug)]
pub struct Alternative {
    pub id: String,
    pub name: String,
    pub files: crate::model::ModelFiles,
    pub weights: ModelWeights,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// The cap that the class of the device has.
    DefaultCap,
    /// Kept free for activations.
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
pub struct Suggestion {
    #[serde(flatten)]
    pub change: Change,
    /// What a button says: `Decode in tiles of 256`.
    pub text: String,
    /// What the plan says then.
    pub verdict: String,
}

impl Change {
    /// The request with the change; another model's files come with the model.
    pub fn applied(&self, request: &GenerateRequest) -> GenerateRequest {
        let mut changed = request.clone();
        match self {
            Self::DefaultCap => changed.memory.cap_bytes = None,
            Self::Preserved { bytes } => changed.memory.preserved_bytes = Some(*bytes),
            Self::UnloadBetween => changed.memory.keep_loaded = false,
            Self::Batch { batch_size } => changed.batch_size = *batch_size,
            Self::Tile { pixels } => changed.vae_tile = Some(*pixels),
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
            Self::Batch { batch_size: 1 } => "Make one picture at a time".to_owned(),
            Self::Batch { batch_size } => format!("Make {batch_size} pictures at a time"),
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

/// Sizes are multiples of this wherever nobody says otherwise.
const SIZE_MULTIPLE: u32 = 32;
/// Parts of the size that are tried, from the largest on.
const SCALES: [f64; 8] = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2];

/// The changes that bring the job to fit, the mildest first; for one that fits with help, those that make it need none.
pub fn suggestions(
    planner: &Planner<'_>,
    request: &GenerateRequest,
    plan: &Plan,
    alternatives: &[Alternative],
) -> Vec<Suggestion> {
    let rank = plan.rank();
    if rank == 0 {
        return Vec::new();
    }
    let helps = |change: Change| {
        let changed = change.applied(request);
        tried(planner.plan(&changed), rank, change, request)
    };
    let mut found = Vec::new();
    if request.memory.cap_bytes.is_some() {
        found.extend(helps(Change::DefaultCap));
    }
    if rank == 2 {
        found.extend(mild(planner, request).into_iter().filter_map(helps));
    }
    let others = alternatives
        .iter()
        .filter(|other| other.id != request.model);
    found.extend(
        others
            .filter_map(|other| of_model(planner, request, rank, other))
            .take(3),
    );
    if rank == 2 {
        found.extend(fewer_frames(planner, request, rank));
        found.extend(smaller(planner, request, rank));
    }
    found
}

/// What changes no picture.
fn mild(planner: &Planner<'_>, request: &GenerateRequest) -> Vec<Change> {
    let mut changes = Vec::new();
    if request.memory.preserved_bytes.is_some() {
        let free = GenerateRequest {
            memory: crate::memory::MemoryChoice {
                preserved_bytes: None,
                ..request.memory
            },
            ..request.clone()
        };
        let bytes = planner.plan(&free).suggested_preserved_bytes;
        changes.push(Change::Preserved { bytes });
    }
    if request.memory.keep_loaded {
        changes.push(Change::UnloadBetween);
    }
    if request.batch_size > 1 {
        changes.push(Change::Batch { batch_size: 1 });
    }
    let tiles = TILES.iter().chain(&[128]).copied();
    let smaller = tiles.filter(|tile| request.vae_tile.is_none_or(|asked| *tile < asked));
    changes.extend(smaller.map(|pixels| Change::Tile { pixels }).next_back());
    changes
}

/// The suggestion where the plan is better than `rank`.
fn tried(plan: Plan, rank: u8, change: Change, request: &GenerateRequest) -> Option<Suggestion> {
    let text = change.text(request);
    (plan.rank() < rank).then_some(Suggestion {
        change,
        text,
        verdict: plan.verdict.text,
    })
}

fn of_model(
    planner: &Planner<'_>,
    request: &GenerateRequest,
    rank: u8,
    other: &Alternative,
) -> Option<Suggestion> {
    let change = Change::Model {
        id: other.id.clone(),
        name: other.name.clone(),
    };
    let mut changed = change.applied(request);
    changed.files = other.files.clone();
    let with = Planner {
        weights: &other.weights,
        ..*planner
    };
    tried(with.plan(&changed), rank, change, request)
}

fn fewer_frames(planner: &Planner<'_>, request: &GenerateRequest, rank: u8) -> Option<Suggestion> {
    let change = |groups: u32| Change::Frames {
        num_frames: groups.saturating_mul(4).saturating_add(1),
    };
    let is_better = |groups: u32| planner.plan(&change(groups).applied(request)).rank() < rank;
    // Counted from 1, and fewer than there are.
    let groups = request.num_frames.saturating_sub(1) / 4;
    let fits = most(groups, &|count| is_better(count - 1))? - 1;
    let change = change(fits);
    let plan = planner.plan(&change.applied(request));
    tried(plan, rank, change, request)
}

/// The largest size of about the same aspect that fits.
fn smaller(planner: &Planner<'_>, request: &GenerateRequest, rank: u8) -> Option<Suggestion> {
    SCALES.into_iter().find_map(|scale| {
        let edge = |edge: u32| {
            let scaled = (f64::from(edge) * scale) as u32;
            (scaled / SIZE_MULTIPLE * SIZE_MULTIPLE).max(SIZE_MULTIPLE)
        };
        let (width, height) = (edge(request.width), edge(request.height));
        let change = Change::Size { width, height };
        if width >= request.width && height >= request.height {
            return None;
        }
        let plan = planner.plan(&change.applied(request));
        tried(plan, rank, change, request)
    })
}

/// The largest that fits of what was asked for: a size of the same aspect with as many frames, and frames of the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Largest {
    /// `None` where not even the smallest fits.
    pub size: Option<(u32, u32)>,
    /// `None` for pictures and clips made in sections, and where not even one frame fits.
    pub num_frames: Option<u32>,
}

/// Searches within a model's limits, by what the plan says of each try.
pub fn largest(planner: &Planner<'_>, request: &GenerateRequest, limits: &Limits) -> Largest {
    let fits = |change: Change| planner.plan(&change.applied(request)).fits();
    let multiple = limits.size_multiple.max(1);
    let (long, short) = (
        request.width.max(request.height),
        request.width.min(request.height),
    );
    // By the short edge, which is a whole number of multiples.
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
        is_allowed((width, height)) && fits(Change::Size { width, height })
    });
    let stride = limits.frame_stride.max(1);
    let frames = |groups: u32| (groups - 1) * stride + 1;
    let makes_clips = !request.family.makes_pictures && request.sections.is_none();
    let groups = makes_clips.then(|| {
        let end = limits.max_frames.saturating_sub(1) / stride + 1;
        most(end, &|groups| {
            fits(Change::Frames {
                num_frames: frames(groups),
            })
        })
    });
    Largest {
        size: steps.map(size),
        num_frames: groups.flatten().map(frames),
    }
}

/// The largest number from 1 to `end` that passes, where all below it do; `None` where 1 does not.
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

/// One line of the table of preserved values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PreservedRow {
    pub preserved_gib: u32,
    pub resident_bytes: u64,
    pub streamed_bytes_per_step: u64,
    pub copy_secs_per_step: f64,
    pub peak_bytes: u64,
    pub fits: bool,
}

/// What each whole number of GiB up to `most` would mean for the stage that streams most.
pub fn preserved_table(
    planner: &Planner<'_>,
    request: &GenerateRequest,
    most: u32,
) -> Vec<PreservedRow> {
    let row = |preserved_gib: u32| {
        let change = Change::Preserved {
            bytes: u64::from(preserved_gib) << 30,
        };
        let plan = planner.plan(&change.applied(request));
        let transformers = plan.stages.iter().filter(
            |stage| matches!(stage.part, Some(part) if part.label().ends_with("transformer")),
        );
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

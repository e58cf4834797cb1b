//! What `safelight-bench-engine` is asked to measure: the command lines of people, and what becomes of them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use safelight_core::job::DeviceChoice;

use crate::table::{self, Table};

#[derive(Args, Debug)]
pub(super) struct StepCacheArgs {
    /// teacache, magcache or first_block, perhaps with a threshold such as teacache:0.1; several may be given [default: all]
    #[arg(value_name = "CACHE[:X]")]
    caches: Vec<String>,
    /// A FramePack model: a diffusers folder or a transformer's file [default: random numbers]
    #[arg(long, value_name = "PATH")]
    model: Option<String>,
    /// Denoising steps [default: 25]
    #[arg(long, value_name = "N")]
    steps: Option<String>,
    /// As that of generate [default: unipc_bh1]
    #[arg(long, value_name = "NAME")]
    sampler: Option<String>,
    /// A small network of random numbers, for machines without a GPU
    #[arg(long)]
    small: bool,
    /// auto, cpu or cuda:N
    #[arg(long)]
    device: Option<DeviceChoice>,
    /// Print one JSON object a cache, or one that says why nothing is measured
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(super) struct LoadArgs {
    /// A weight file or component folder; without it, files of random numbers in the temporary folder
    #[arg(value_name = "FILE|DIR")]
    place: Option<PathBuf>,
    /// Size of each file of random numbers
    #[arg(long, value_name = "MIB")]
    mib: Option<String>,
    /// Timed runs of each file
    #[arg(long, value_name = "N")]
    runs: Option<String>,
    /// auto, cpu or cuda:N
    #[arg(long)]
    device: Option<DeviceChoice>,
    /// Print one JSON object a file, or one that says why nothing is measured
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(super) struct FamilyArgs {
    /// What to measure; may be given several times, everything by default
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Small networks of the same structure, for machines without a GPU
    #[arg(long)]
    small: bool,
    /// Timed runs of each case
    #[arg(long, value_name = "N")]
    runs: Option<String>,
    /// In place of the cases' own, in pixels
    #[arg(long, value_name = "PIXELS")]
    width: Option<String>,
    /// In place of the cases' own, in pixels
    #[arg(long, value_name = "PIXELS")]
    height: Option<String>,
    /// In place of the cases' own
    #[arg(long, value_name = "N")]
    frames: Option<String>,
    /// Texts or pictures at a time
    #[arg(long, value_name = "N")]
    batch: Option<String>,
    /// Edge of the tiles of an autoencoder, in pixels
    #[arg(long, value_name = "PIXELS")]
    tile: Option<String>,
    /// Also with so many GiB kept free of weights, which then stream from a file made for it
    #[arg(long, value_name = "GIB,…")]
    preserved: Option<String>,
    /// Use no more than so many GiB of the device where weights stream
    #[arg(long, value_name = "GIB")]
    cap: Option<String>,
    /// auto, cpu or cuda:N
    #[arg(long)]
    device: Option<DeviceChoice>,
    /// Print one JSON object a case, or one that says why nothing is measured
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(super) struct WaysArgs {
    /// What to measure; may be given several times, everything by default
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// A fraction of the work, for machines without a GPU
    #[arg(long)]
    small: bool,
    /// Timed runs of each case
    #[arg(long, value_name = "N")]
    runs: Option<String>,
    /// auto, cpu or cuda:N
    #[arg(long)]
    device: Option<DeviceChoice>,
}

#[derive(Args, Debug)]
pub(super) struct KernelsArgs {
    /// auto, cpu or cuda:N
    #[arg(long)]
    device: Option<DeviceChoice>,
}

#[derive(Args, Debug)]
pub(super) struct FragmentsArgs {
    /// What the allocator may hold
    #[arg(long, value_name = "GIB")]
    cap: String,
    /// What weights leave free of it
    #[arg(long, value_name = "GIB")]
    preserved: String,
    /// Pictures of random sizes
    #[arg(long, value_name = "N")]
    rounds: Option<String>,
    /// Give back what is unused behind each picture, as between the stages of a job
    #[arg(long)]
    flush: bool,
    /// A hundredth of the sizes, for machines without a GPU
    #[arg(long)]
    small: bool,
    /// auto, cpu or cuda:N
    #[arg(long)]
    device: Option<DeviceChoice>,
}

/// What is asked of `safelight-bench-engine`.
pub(super) struct Request {
    /// The engine's subject, behind `bench` where every engine has it.
    pub(super) subject: Vec<String>,
    pub(super) device: Option<DeviceChoice>,
    pub(super) options: Vec<String>,
    /// Cases or paths: no options, however they begin.
    pub(super) names: Vec<OsString>,
    pub(super) is_json: bool,
    pub(super) table: Table,
}

/// The options that were given, with their values.
fn given<const N: usize>(options: [(&str, &Option<String>); N]) -> Vec<String> {
    let given = options.into_iter().filter_map(|(name, value)| {
        let value = value.as_ref()?;
        Some([name.to_owned(), value.clone()])
    });
    given.flatten().collect()
}

/// `--small` where it was given.
fn small(is_small: bool) -> impl Iterator<Item = String> {
    is_small.then(|| "--small".to_owned()).into_iter()
}

impl FamilyArgs {
    pub(super) fn request(&self, subject: &str) -> Request {
        let values = given([
            ("--runs", &self.runs),
            ("--width", &self.width),
            ("--height", &self.height),
            ("--frames", &self.frames),
            ("--batch", &self.batch),
            ("--tile", &self.tile),
            ("--preserved", &self.preserved),
            ("--cap", &self.cap),
        ]);
        Request {
            subject: vec!["bench".to_owned(), subject.to_owned()],
            device: self.device,
            options: small(self.small).chain(values).collect(),
            names: self.cases.iter().map(OsString::from).collect(),
            is_json: self.json,
            table: table::NETWORKS,
        }
    }
}

impl StepCacheArgs {
    pub(super) fn request(&self) -> Request {
        let values = given([
            ("--model", &self.model),
            ("--steps", &self.steps),
            ("--sampler", &self.sampler),
        ]);
        Request {
            subject: vec!["step-cache".to_owned()],
            device: self.device,
            options: small(self.small).chain(values).collect(),
            names: self.caches.iter().map(OsString::from).collect(),
            is_json: self.json,
            table: table::STEP_CACHES,
        }
    }
}

impl LoadArgs {
    pub(super) fn request(&self) -> Request {
        Request {
            subject: vec!["bench".to_owned(), "load".to_owned()],
            device: self.device,
            options: given([("--runs", &self.runs), ("--mib", &self.mib)]),
            names: self.place.iter().map(OsString::from).collect(),
            is_json: self.json,
            table: table::LOADING,
        }
    }
}

impl WaysArgs {
    pub(super) fn request(&self, subject: &str) -> Request {
        let values = given([("--runs", &self.runs)]);
        Request {
            subject: vec!["bench".to_owned(), subject.to_owned()],
            device: self.device,
            options: small(self.small).chain(values).collect(),
            names: self.cases.iter().map(OsString::from).collect(),
            is_json: false,
            table: table::PLAIN,
        }
    }
}

impl KernelsArgs {
    pub(super) fn request(&self) -> Request {
        Request {
            subject: vec!["kernels".to_owned()],
            device: self.device,
            options: Vec::new(),
            names: Vec::new(),
            is_json: false,
            table: table::PLAIN,
        }
    }
}

impl FragmentsArgs {
    pub(super) fn request(&self) -> Request {
        let needed = ["--cap", &self.cap, "--preserved", &self.preserved].map(str::to_owned);
        let flush = self.flush.then(|| "--flush".to_owned());
        let values = given([("--rounds", &self.rounds)]);
        let options = needed.into_iter().chain(values).chain(flush);
        Request {
            subject: vec!["fragments".to_owned()],
            device: self.device,
            options: options.chain(small(self.small)).collect(),
            names: Vec::new(),
            is_json: false,
            table: table::PLAIN,
        }
    }
}

//! Waiting, stopped and finished jobs, and grids of them: plain data.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use safelight_core::job::{
    DeviceChoice, GenerateRequest, GridId, GridRecord, JobError, JobGrid, JobId, JobRequest, Video,
};
use safelight_core::job_update::JobOutput;
use safelight_core::media::{MediaError, open_rgba};

use crate::window::background::BackgroundTask;
use crate::window::create::choices::StripResult;
use crate::window::inputs::opening::continue_file;
use crate::window::thumbnails::ThumbSource;

#[derive(Clone, Debug)]
pub struct WaitingJob {
    pub id: JobId,
    pub request: JobRequest,
    pub device: DeviceChoice,
    /// The folder of the same job, where an earlier try left it.
    pub resume: Option<PathBuf>,
    /// It is from an earlier run of the program, and waits until the user resumes it.
    pub is_held: bool,
    /// Its inputs that were missing when the queue was read.
    pub missing: Vec<PathBuf>,
}

#[derive(Clone, Debug)]
pub enum StopReason {
    Failed(JobError),
    Paused,
    /// The program ended while it ran.
    Unfinished,
}

/// A job that does not run again automatically.
#[derive(Clone, Debug)]
pub struct StoppedJob {
    pub job: WaitingJob,
    pub why: StopReason,
    /// Text on its progress; empty if nothing of it exists.
    pub progress: String,
}

#[derive(Clone, Debug)]
pub enum RemovedJob {
    Waiting(usize, WaitingJob),
    Stopped(usize, StoppedJob),
    /// It was running.
    Cancelled(WaitingJob),
}

impl RemovedJob {
    pub fn job(&self) -> &WaitingJob {
        match self {
            Self::Waiting(_, job) | Self::Cancelled(job) => job,
            Self::Stopped(_, stopped) => &stopped.job,
        }
    }
}

impl WaitingJob {
    pub fn new(request: impl Into<JobRequest>, device: DeviceChoice) -> Self {
        Self {
            id: JobId::next(),
            request: request.into(),
            device,
            resume: None,
            is_held: false,
            missing: Vec::new(),
        }
    }
}

impl StoppedJob {
    pub fn has_failed(&self) -> bool {
        matches!(self.why, StopReason::Failed(_))
    }

    pub fn is_interrupted(&self) -> bool {
        matches!(self.why, StopReason::Unfinished)
    }

    pub fn new(job: WaitingJob, why: StopReason) -> Self {
        Self {
            job,
            why,
            progress: String::new(),
        }
    }
}

#[derive(Clone)]
pub struct ResultItem {
    pub id: JobId,
    pub request: JobRequest,
    /// With all frames of what was generated. Of what was finished there is one: the rest is in its file.
    pub output: JobOutput,
    /// All its frames are here; else its file is opened to be looked at.
    pub is_in_memory: bool,
}

impl StripResult {
    pub fn new(item: &ResultItem) -> Self {
        Self {
            request: item.request.clone(),
            paths: item.output.paths.clone(),
            num_frames: item.output.num_frames,
            fps: item.output.video.fps,
            secs: item.output.secs,
        }
    }

    /// Reads the images, or the thumbnail of a video. `None` if a file is not there any more.
    pub fn open(self) -> Option<ResultItem> {
        let is_in_memory = self.request.generate().is_some() && self.request.makes_images();
        let frames: Option<Vec<_>> = if is_in_memory {
            let open = |path: &PathBuf| Some(Arc::new(open_rgba(path).ok()?));
            self.paths.iter().map(open).collect()
        } else {
            let opened = continue_file(self.paths.first()?).ok()?;
            Some(vec![Arc::new(opened.thumb)])
        };
        let output = JobOutput {
            paths: self.paths,
            num_frames: self.num_frames,
            video: Arc::new(Video {
                frames: frames?,
                fps: self.fps,
            }),
            seed: self.request.generate().map(|request| request.seed),
            secs: self.secs,
            stages: Vec::new(),
            peak_bytes: 0,
            warnings: Vec::new(),
            plan: None,
            rungs: Vec::new(),
        };
        Some(ResultItem {
            id: JobId::next(),
            request: self.request,
            output,
            is_in_memory,
        })
    }
}

impl ResultItem {
    /// Request of the result, for a batch that of the image at this index. Without post-processing.
    pub fn generated(&self, index: usize) -> Option<GenerateRequest> {
        let request = self.request.generate()?;
        Some(request.of_one(index))
    }

    /// `None` for post-processing.
    pub fn seed(&self) -> Option<u64> {
        self.request.generate().map(|request| request.seed)
    }

    /// Returns whether its frames are images of a batch, or one, rather than a video.
    pub fn is_images(&self) -> bool {
        self.request.makes_images()
    }

    pub fn is_batch(&self) -> bool {
        self.request.batch_size() > 1
    }

    pub fn path_of(&self, index: usize) -> &Path {
        let paths = &self.output.paths;
        let own = paths.get(index).filter(|_| self.is_batch());
        own.map_or_else(|| self.output.path(), PathBuf::as_path)
    }

    pub fn shown(&self, index: usize) -> Option<ThumbSource> {
        let frame = self.output.video.frames.get(index)?;
        Some(ThumbSource::Made(self.id, index, Arc::clone(frame)))
    }

    /// Frame that represents it.
    pub fn middle(&self) -> Option<ThumbSource> {
        self.shown(self.output.video.frames.len() / 2)
    }
}

pub type SuspendMachine = Arc<dyn Fn() -> Result<(), JobError> + Send + Sync>;

#[derive(Default)]
pub(super) struct GridSheets {
    pub(super) records: Vec<GridRecord>,
    pub(super) making: BackgroundTask<(GridId, Result<PathBuf, MediaError>)>,
    /// The state of the queue that was looked at last.
    pub(super) looked: Option<u64>,
}

impl GridSheets {
    pub fn begin(&mut self, grids: Vec<JobGrid>, requests: &[GenerateRequest]) {
        let begun = grids.into_iter();
        let begun = begun.filter_map(|grid| GridRecord::begin(grid, requests));
        self.records.extend(begun);
    }

    pub fn finish_cell(&mut self, request: &JobRequest, path: &Path) {
        if let Some((id, index)) = request.cell()
            && let Some(record) = self.get_mut(id)
        {
            record.finish(index, path);
        }
    }

    pub fn get(&self, id: GridId) -> Option<&GridRecord> {
        self.records.iter().find(|record| record.grid.id == id)
    }

    pub fn get_mut(&mut self, id: GridId) -> Option<&mut GridRecord> {
        let mut records = self.records.iter_mut();
        records.find(|record| record.grid.id == id)
    }
}

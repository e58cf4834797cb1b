//! Upscaling a result: the networks that are found for it, the chosen one, and how a wish becomes a job of the queue.
//!
//! What can be asked for is checked in the background, where files may be read; computing is the worker's.

use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::finish::{
    FinishRequest, FoundUpscaler, TargetSize, UpscaleForm, ending_of, find_upscalers, look_at,
};
use safelight_core::job::{DtypeChoice, JobError, JobErrorKind};
use safelight_core::settings::Settings;

use crate::app::commands::UpscaleCommand;
use crate::app::cx::Cx;
use crate::app::notices::Severity;
use crate::app::pending::Pending;
use crate::app::queue::JobQueue;
use crate::app::words;

#[derive(Default)]
pub struct Upscaling {
    /// In the order of their names.
    pub found: Vec<FoundUpscaler>,
    /// The one that was chosen; the first where none was, or it is gone.
    chosen: Option<PathBuf>,
    has_looked: bool,
    looking: Pending<Vec<FoundUpscaler>>,
    /// Wishes on their way to become jobs.
    checking: Pending<Result<FinishRequest, JobError>>,
}

impl Upscaling {
    /// The network that is used.
    pub fn chosen(&self) -> Option<&FoundUpscaler> {
        let chosen = self.chosen.as_ref();
        let found = self.found.iter().find(|it| Some(&it.path) == chosen);
        found.or_else(|| self.found.first())
    }

    pub(super) fn update(&mut self, command: UpscaleCommand, cx: &Cx) {
        match command {
            UpscaleCommand::Look => self.has_looked = false,
            UpscaleCommand::Choose(path) => self.chosen = Some(path),
            UpscaleCommand::Make(source, factor) => self.make(source, factor, cx),
        }
    }

    fn make(&mut self, source: PathBuf, factor: u32, cx: &Cx) {
        let Some(network) = self.chosen().map(|it| it.path.clone()) else {
            return;
        };
        let folders = [true, false].map(|is_picture| cx.output_folder(is_picture));
        let settings = cx.settings.clone();
        let checking = cx
            .background
            .on_files(move || form(source, network, factor, folders, &settings)?.validate());
        if let Some(checking) = checking {
            self.checking.add(checking);
        }
    }

    pub(super) fn poll(&mut self, queue: &mut JobQueue, cx: &mut Cx) {
        if !std::mem::replace(&mut self.has_looked, true)
            && let Some(paths) = cx.paths.clone()
        {
            let settings = cx.settings.clone();
            let looking = cx
                .background
                .search(move || find_upscalers(&paths, &settings));
            self.looking = looking.unwrap_or_default();
        }
        if let Some(found) = self.looking.take() {
            self.found = found;
        }
        match self.checking.take() {
            None => {}
            Some(Ok(request)) => {
                cx.say(words::UPSCALING_QUEUED);
                queue.add(vec![request], cx);
            }
            Some(Err(err)) => cx.tell(Severity::Error, err),
        }
    }
}

/// What is asked for, with a place for its result: the queue gives it a free name when its turn comes. Makes the folder.
fn form(
    source: PathBuf,
    network: PathBuf,
    factor: u32,
    [of_pictures, of_clips]: [Option<PathBuf>; 2],
    settings: &Settings,
) -> Result<UpscaleForm, JobError> {
    let (is_picture, _) = look_at(&source)?;
    let folder = if is_picture { of_pictures } else { of_clips };
    let folder =
        folder.ok_or_else(|| JobError::new(JobErrorKind::Disk, words::NO_RESULT_FOLDER))?;
    let what = || words::result_folder_not_made(&folder);
    fs::create_dir_all(&folder).map_err(|err| JobError::disk(what(), &err))?;
    let stem = source.file_stem().unwrap_or_default();
    let out = Path::new(stem).with_extension(ending_of(&source, is_picture));
    Ok(UpscaleForm {
        out: folder.join(out),
        is_out_automatic: true,
        source,
        network,
        size: TargetSize::Factor(f64::from(factor)),
        // Eight bits of colour need more than the bf16 that others compute in.
        dtype: DtypeChoice::Auto,
        tile: None,
        memory: settings.memory.choice(),
        crf: settings.output.crf,
    })
}

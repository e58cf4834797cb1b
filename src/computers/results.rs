//! Result of a job on another computer: its files, which go where results of this computer go, and its frames.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safelight_core::job::{JobId, JobRequest, Video};
use safelight_core::job_update::{JobOutcome, JobOutput};
use safelight_core::media::{open_rgba, open_video};
use safelight_core::naming::free_path;
use serde::{Deserialize, Serialize};

use super::transfer::{FileContent, FileDownload};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ResultFile {
    /// On the computer that made it.
    pub(super) path: PathBuf,
    pub(super) content: FileContent,
}

/// Result whose files are being fetched.
pub(super) struct ResultDownload {
    outcome: JobOutcome,
    /// Paths of the files on the other computer.
    paths: Vec<PathBuf>,
    pub(super) files: FileDownload,
}

impl ResultDownload {
    /// `None` for an outcome without files.
    pub(super) fn new(
        id: JobId,
        outcome: &JobOutcome,
        files: Vec<ResultFile>,
        request: &JobRequest,
    ) -> Option<Self> {
        outcome.output()?;
        let paths = files.iter().map(|file| file.path.clone()).collect();
        let files = files.into_iter();
        let files = files.map(|file| (file.content, target_of(&file.path, request)));
        Some(Self {
            outcome: outcome.clone(),
            paths,
            files: FileDownload::new(id, files.collect(), false),
        })
    }

    /// The outcome with the files of this computer, and their frames.
    pub(super) fn finish(self, request: &JobRequest) -> JobOutcome {
        let with_files = |output: JobOutput| {
            let pairs = self.paths.iter().zip(self.files.targets());
            let pairs: Vec<_> = pairs.collect();
            let local = |path| pairs.iter().find(|(there, _)| *there == path);
            let paths = output.paths.iter().filter_map(local);
            let paths: Vec<PathBuf> = paths.map(|(_, here)| (*here).clone()).collect();
            let frames = if paths.len() > 1 || request.makes_images() {
                paths
                    .iter()
                    .map(|path| open_rgba(path).map(Arc::new))
                    .collect()
            } else {
                open_video(&paths.first().cloned().unwrap_or_default()).map(|video| video.frames)
            };
            let frames = frames.unwrap_or_else(|err| {
                tracing::warn!("the result cannot be shown: {err}");
                Vec::new()
            });
            let fps = request.fps();
            JobOutput {
                paths,
                video: Arc::new(Video { frames, fps }),
                ..output
            }
        };
        match self.outcome {
            JobOutcome::Finished(output) => JobOutcome::Finished(with_files(output)),
            JobOutcome::Kept(output) => JobOutcome::Kept(with_files(output)),
            outcome => outcome,
        }
    }
}

/// Path of a result file on this computer: in the folder of the request's, and a free name where that is automatic.
fn target_of(path: &Path, request: &JobRequest) -> PathBuf {
    let folder = request.out().parent().unwrap_or_else(|| Path::new("."));
    let target = folder.join(path.file_name().unwrap_or_default());
    let is_automatic = request.generate().is_some_and(|it| it.is_out_automatic);
    if is_automatic && target.exists() {
        let text = |part: Option<&OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        return free_path(folder, &text(target.file_stem()), &text(target.extension()));
    }
    target
}

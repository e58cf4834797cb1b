//! Export of the video that is shown, and its first and last frames as input images: work on frames that may have to be
//! read from the file first.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use safelight_core::media::{
    DEFAULT_VIDEO_ENDING, EXPORT_FORMATS, ExportedVideo, VideoExport, VideoFormat, VideoReader,
    export_name,
};

use crate::window::prelude::*;
use crate::window::viewer::commands::folder_for;
use crate::window::viewer::reading::ViewerFrames;
use crate::window::viewer::{FramePlayer, PlaybackPosition, ResultViewer, ViewerMode};

impl ResultViewer {
    /// The video of a result or file that is shown.
    fn shown_video(&self) -> Option<&FramePlayer> {
        let is_one = matches!(self.mode, ViewerMode::Result(_) | ViewerMode::File);
        self.player
            .as_ref()
            .filter(|player| is_one && player.can_play())
    }

    /// Playback of the video that can be trimmed.
    pub fn trimmed(&self) -> Option<&PlaybackPosition> {
        self.shown_video().map(|player| &player.playhead)
    }

    pub(super) fn export(&mut self, format: Option<VideoFormat>, cx: &mut AppContext) {
        let Some(player) = self.shown_video() else {
            return;
        };
        if self.exporting.is_busy() {
            cx.say("Wait for the export, or cancel it first");
            return;
        }
        let (first, last) = player.playhead.range();
        let source = player.path().to_path_buf();
        let ending = EXPORT_FORMATS
            .iter()
            .find_map(|(it, ending)| (Some(*it) == format).then_some(*ending))
            .unwrap_or(DEFAULT_VIDEO_ENDING);
        let range = first..=last;
        let part = player.playhead.is_trimmed().then_some(&range);
        let name = export_name(&source, part, ending);
        let export = VideoExport {
            out: source.with_file_name(name),
            source,
            frames: match &player.frames {
                ViewerFrames::Memory(video) => Some(Arc::clone(video)),
                ViewerFrames::File(_) => None,
            },
            range,
            crf: cx.settings.output.crf,
        };
        if format.is_some() {
            return self.begin_export(export, cx);
        }
        let instead = "Choose a format instead: the file is written beside the result";
        self.asking = cx.background.ask_or(instead, move || {
            let mut dialog = rfd::FileDialog::new().set_title("Export the video");
            if let Some(folder) = export.out.parent() {
                dialog = dialog.set_directory(folder);
            }
            dialog = dialog.set_file_name(file_name(&export.out));
            for (format, ending) in EXPORT_FORMATS {
                dialog = dialog.add_filter(format.name(), &[*ending]);
            }
            let out = dialog.save_file()?;
            Some(VideoExport { out, ..export })
        });
    }

    fn begin_export(&mut self, export: VideoExport, cx: &AppContext) {
        let hold = cx.background.hold();
        self.exporting = cx.background.long("export", move |cancel, report| {
            let count = export.range.end() + 1 - export.range.start();
            let end = export.write(&mut |done| {
                report((done, count));
                if cancel.is_cancelled() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            drop(hold);
            end
        });
    }

    pub(super) fn poll_export(&mut self, cx: &mut AppContext) {
        if let Some(Some(export)) = self.asking.take() {
            self.begin_export(export, cx);
        }
        match self.exporting.take() {
            None => {}
            Some(Ok(Some(exported))) => tell_exported(exported, cx),
            Some(Ok(None)) => cx.say("Export cancelled"),
            Some(Err(err)) => {
                let err = JobError::from_error(JobErrorKind::Disk, &err).advise(
                    "Choose another format or place, or free some space, and export it again",
                );
                cx.notify(NoticeSeverity::Error, err);
            }
        }
        match self.reading_end.take() {
            None => {}
            Some(Ok((slot, image, folder))) => {
                cx.push(InputsCommand::Take(slot, Arc::new(image), folder));
            }
            Some(Err(err)) => {
                let err = JobError::from_error(JobErrorKind::InvalidRequest, &err)
                    .advise("Show another frame and use that one");
                cx.notify(NoticeSeverity::Warning, err);
            }
        }
    }

    /// Puts the first or last frame that plays into a slot of the form.
    pub(super) fn use_end(&mut self, slot: InputSlot, is_last: bool, cx: &mut AppContext) {
        let Some(player) = self.shown_video() else {
            return;
        };
        let (first, last) = player.playhead.range();
        let index = if is_last { last } else { first };
        let path = player.path().to_path_buf();
        let folder = folder_for(&path, cx);
        if let ViewerFrames::Memory(video) = &player.frames
            && let Some(frame) = video.frames.get(index)
        {
            cx.push(InputsCommand::Take(slot, Arc::clone(frame), folder));
            return;
        }
        self.reading_end = cx.background.run("read-frame", move || {
            read_frame(&path, index as u32).map(|image| (slot, image, folder))
        });
    }
}

fn read_frame(path: &Path, index: u32) -> Result<RgbPixels, MediaError> {
    let mut found = None;
    VideoReader::open(path)?.read(index, &mut |_, image| {
        found = Some(image);
        ControlFlow::Break(())
    })?;
    found.ok_or_else(|| MediaError::with_path("this frame cannot be read", path))
}

fn tell_exported(exported: ExportedVideo, cx: &mut AppContext) {
    let ExportedVideo { path, notices } = exported;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let summary = format!("the video is exported as {}", file_name(&path));
    let mut advice = vec![format!("In the folder {}", folder.display())];
    let severity = if notices.is_empty() {
        NoticeSeverity::Info
    } else {
        NoticeSeverity::Warning
    };
    advice.extend(notices);
    cx.say(format!("Exported: {}", path.display()));
    let err = JobError::new(JobErrorKind::Internal, summary).advise(advice.join(".\n"));
    let hover = "Show the file in the file manager";
    let notice = UserNotice::new(severity, err);
    let command = GalleryCommand::OpenFolder(path);
    cx.notices.show(notice.offer("Open folder", hover, command));
}

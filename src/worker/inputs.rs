//! Input files of a job: images and videos are copied to its folder first, so that the originals may disappear, and the old video is put before the new frames at the end. Model files of the user's choice are fingerprinted only; LoRAs for another model are reported at once.
//!
//! The engine resizes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safelight_core::families::control_network;
use safelight_core::files::{
    copy_private, make_private, make_private_folder, read_json_or_default, write_optional_json,
};
use safelight_core::fitting;
use safelight_core::job::{
    GenerateRequest, JobError, JobErrorKind, JobFolder, ResizeMode, SEEN_FRAMES, Video, disk_advice,
};
use safelight_core::lora::CheckedLora;
use safelight_core::media::{
    self, MAX_VIDEO_PIXELS, MediaError, RgbPixels, SampledSound, VideoReader,
};
use safelight_core::model::CatalogError;

use super::fingerprints;
use super::result_sound::ResultSound;
use super::save;

/// Frame rates that differ by less are the same: a second in a quarter of an hour.
const FPS_TOLERANCE: f64 = 1e-3;

#[derive(Clone, Debug, Default)]
pub(super) struct JobInputs {
    /// Fingerprints of the files by the names of their fields in the request.
    pub(super) fingerprints: BTreeMap<String, String>,
    /// Coverage of each LoRA.
    pub(super) loras: Vec<CheckedLora>,
    /// The copy of the video that is extended.
    extended: Option<PathBuf>,
    pub(super) num_extended: usize,
    /// The copy of the video whose sound the result keeps.
    sound_source: Option<PathBuf>,
    /// Notices on how the files are used.
    pub(super) notices: Vec<String>,
}

impl JobInputs {
    /// Copies the images and the video that the request names into the job's folder, and looks into its LoRAs.
    pub(super) fn copy(request: &GenerateRequest, folder: &JobFolder) -> Result<Self, JobError> {
        let mut inputs = Self::default();
        // The mask of a video may be a video.
        let mask = request
            .mask
            .as_ref()
            .filter(|_| request.source_video.is_none());
        for (field, source, copy) in [
            ("image", request.image.as_ref(), folder.start_image()),
            (
                "last_image",
                request.last_image.as_ref(),
                folder.end_image(),
            ),
            ("mask", mask, folder.mask()),
        ] {
            if let Some(source) = source {
                inputs.copy_image(field, source, &copy)?;
            }
        }
        for (index, source) in request.references.iter().enumerate() {
            let field = GenerateRequest::reference_name(index);
            inputs.copy_image(&field, source, &folder.reference(index))?;
        }
        for (index, image) in request.prompt_images.iter().enumerate() {
            let field = GenerateRequest::prompt_image_name(index);
            inputs.copy_image(&field, &image.path, &folder.prompt_image(index))?;
        }
        inputs.copy_controls(request, folder)?;
        if let Some(source) = &request.source_video {
            let copies = (folder.source_image(), folder.source_video());
            inputs.copy_shown("source_video", source, copies, request)?;
            if let Some(mask) = &request.mask {
                let copies = (folder.mask(), folder.mask_video());
                inputs.copy_shown("mask", mask, copies, request)?;
            }
            let copy = folder
                .source_video()
                .join(source.file_name().unwrap_or_default());
            inputs.keep_sound(source, copy, request);
        }
        if let Some(video) = &request.extend {
            inputs.copy_video(video, request, folder)?;
            if let Some(copy) = inputs.extended.clone() {
                inputs.keep_sound(video, copy, request);
            }
            inputs.remember("extend", media::video_fingerprint(video))?;
        }
        for (field, place) in request.companions.each() {
            // One that cannot be read is an error of loading.
            let found = place.map(|place| media::component_fingerprint(place));
            if let Some(Ok(fingerprint)) = found {
                inputs.fingerprints.insert(field.to_owned(), fingerprint);
            }
        }
        inputs.loras = fitting::check(&request.loras, request.family, &request.files)?;
        inputs.fingerprints.extend(fingerprints::of_added(request));
        Ok(inputs)
    }

    /// Opens the copied inputs of a resumed job.
    pub(super) fn reopen(request: &GenerateRequest, folder: &JobFolder) -> Result<Self, JobError> {
        let mut inputs = Self {
            // Without them the video only says less of what it was made of.
            fingerprints: read_json_or_default(&folder.inputs_file()),
            ..Self::default()
        };
        if let Some(video) = &request.extend {
            let copy = folder
                .extended()
                .join(video.file_name().unwrap_or_default());
            let info = media::video_info(&copy)?;
            let info = info.for_model(request.fps);
            inputs.num_extended = info.num_frames as usize;
            inputs.extended = Some(copy.clone());
            inputs.keep_sound(video, copy, request);
        }
        if let Some(source) = &request.source_video {
            let copy = folder
                .source_video()
                .join(source.file_name().unwrap_or_default());
            inputs.keep_sound(source, copy, request);
        }
        inputs.loras = fitting::check(&request.loras, request.family, &request.files)?;
        Ok(inputs)
    }

    /// Stores the fingerprints for a resumed job.
    pub(super) fn keep(&self, folder: &JobFolder) {
        write_optional_json(&folder.inputs_file(), &self.fingerprints, "a job's files");
    }

    /// Copies the control images and videos with their masks, and looks into the networks that bring them in.
    fn copy_controls(
        &mut self,
        request: &GenerateRequest,
        folder: &JobFolder,
    ) -> Result<(), JobError> {
        for (index, control) in request.controls.iter().enumerate() {
            let copies = [
                (folder.control(index), folder.control_video(index)),
                (folder.control_mask(index), folder.control_mask_video(index)),
            ];
            for ((field, source), (image, video)) in control.files(index).zip(copies) {
                self.copy_shown(&field, source, (image, video), request)?;
            }
            if let Some(network) = &control.settings.network {
                let found = control_network(network)?;
                let (kind, has_mask) = (control.settings.kind, control.mask.is_some());
                if let Some(problem) = found.problem(request.family, kind, has_mask) {
                    return Err(JobError::from(&CatalogError::config(problem, network)));
                }
            }
        }
        Ok(())
    }

    /// Copies a video with all its files to the second of these places, or the image of which one is made to the first.
    fn copy_shown(
        &mut self,
        field: &str,
        source: &Path,
        (image, video): (PathBuf, PathBuf),
        request: &GenerateRequest,
    ) -> Result<(), JobError> {
        let info = media::video_or_image_info(source)?;
        if info.num_frames > 1 && !request.makes_images() {
            let num_frames = info.for_model(request.fps).num_frames;
            check_length(num_frames.into(), request, source)?;
            self.add_video_notices(source, request.fps)?;
            copy_files(source, &video)?;
            return self.remember(field, media::video_fingerprint(source));
        }
        self.copy_image(field, source, &image)
    }

    /// Copies the image, or the first frame of a video.
    fn copy_image(&mut self, field: &str, source: &Path, copy: &Path) -> Result<(), JobError> {
        let image = media::open_image(source)?;
        let notices = image.notices(source);
        if field.starts_with("reference") {
            write_image(copy, &image.into_rgba())?;
        } else {
            write_image(copy, &image.image)?;
        }
        self.notices.extend(
            notices
                .into_iter()
                .map(|text| format!("{text}: {}", source.display())),
        );
        self.remember(field, media::image_fingerprint(source))
    }

    /// Adds the reader's notices, and one where uneven frame times are resampled to `fps`.
    fn add_video_notices(&mut self, path: &Path, fps: f64) -> Result<(), JobError> {
        let reader = VideoReader::open(path)?;
        let fps = (fps * 100.0).round() / 100.0;
        let uneven = reader
            .starts()
            .map(|_| format!("Uneven frame times: resampled to {fps} fps"));
        let notices = reader.notices().into_iter().chain(uneven);
        self.notices
            .extend(notices.map(|text| format!("{text}: {}", path.display())));
        Ok(())
    }

    /// Keeps the sound of a video whose `copy` is extended or regenerated for the result, or says why that has none.
    fn keep_sound(&mut self, path: &Path, copy: PathBuf, request: &GenerateRequest) {
        // Errors are reported where the frames are read.
        let found = media::sound_for(&copy, &request.out).unwrap_or_default();
        let fps = media::video_info(&copy).map_or(0.0, |info| info.for_model(request.fps).fps);
        let is_in_step = (fps / request.fps - 1.0).abs() < FPS_TOLERANCE;
        let mut notice = found.left_out;
        if found.sound.is_some() {
            if is_in_step {
                self.sound_source = Some(copy);
            } else {
                let text = "The result has no sound: it plays at another frame rate than the video";
                notice = Some(text.to_owned());
            }
        }
        self.notices
            .extend(notice.map(|text| format!("{text}: {}", path.display())));
    }

    /// Sound for the result of `secs` seconds, in its format: that of the input video, and after it the one that the
    /// job has made.
    pub(super) fn sound(
        &self,
        request: &GenerateRequest,
        made: Option<&SampledSound>,
        secs: f64,
    ) -> ResultSound {
        let old = self.sound_source.as_ref();
        let time = |frames: usize| frames as f64 / request.fps;
        let (kept, skipped) = self.seam(request, self.num_extended);
        match (made, old) {
            (None, None) => ResultSound::default(),
            (None, Some(source)) => {
                let is_extended = self.extended.is_some();
                let end = if is_extended {
                    time(self.num_extended)
                } else {
                    secs
                };
                ResultSound::copied(source, &request.out, end)
            }
            (Some(made), source) if self.extended.is_none() => {
                let mut sound = ResultSound::encoded(made.cut(0.0, secs), &request.out);
                let replaced = source.map(|_| "The new sound replaces that of the source");
                sound.warnings.extend(replaced.map(str::to_owned));
                sound
            }
            (Some(made), source) => {
                let new = made.cut(time(skipped), f64::MAX);
                let old = source.map_or(Ok(None), |it| media::open_sound(it));
                let old = old.ok().flatten();
                let silence = SampledSound {
                    samples: Vec::new(),
                    ..*made
                };
                let joined = old
                    .as_ref()
                    .and_then(|old| old.followed_by(time(kept), &new));
                let is_lost = source.is_some() && joined.is_none();
                let joined = joined.or_else(|| silence.followed_by(time(kept), &new));
                let mut sound = ResultSound::encoded(joined.unwrap_or(new), &request.out);
                if is_lost {
                    let text = "The old video's sound does not fit the new one, and is left out";
                    sound.warnings.push(text.to_owned());
                }
                sound
            }
        }
    }

    fn remember(&mut self, field: &str, found: Result<String, MediaError>) -> Result<(), JobError> {
        let fingerprint = found?;
        self.fingerprints.insert(field.to_owned(), fingerprint);
        Ok(())
    }

    /// Copies the video's files and makes its last frame the start image. Decodes the whole video, so that damage is reported before the new part is made.
    fn copy_video(
        &mut self,
        path: &Path,
        request: &GenerateRequest,
        folder: &JobFolder,
    ) -> Result<(), JobError> {
        let info = media::video_info(path)?;
        let num_frames = info.for_model(request.fps).num_frames;
        check_length(num_frames.into(), request, path)?;
        self.add_video_notices(path, request.fps)?;
        let Some(first) = copy_files(path, &folder.extended())? else {
            return Ok(());
        };
        let video = media::open_video_for_model(&first, request.fps)?;
        // It may have more frames than its header said.
        check_length(video.frames.len() as u64, request, path)?;
        if video.frames.len() < num_frames as usize {
            let text = format!(
                "The file says {num_frames} frames, and only {} can be read: {}",
                video.frames.len(),
                path.display()
            );
            self.notices.push(text);
        }
        if let Some(last) = video.frames.last() {
            write_image(&folder.start_image(), last)?;
        }
        keep_seen(&video.frames, request, folder)?;
        self.num_extended = video.frames.len();
        self.extended = Some(first);
        Ok(())
    }

    /// The video to write: the old frames, if any, and the new ones without the first, which is the old video's last.
    /// If more frames repeat the end of the old video, blended ones replace those, and frames that only the model saw are removed.
    pub(super) fn join(&self, request: &GenerateRequest, new: Video) -> Result<Video, JobError> {
        let Some(extended) = &self.extended else {
            return Ok(new);
        };
        let old = media::open_video_for_model(extended, request.fps)?;
        let size = (request.width, request.height);
        let mut frames = Vec::with_capacity(old.frames.len() + new.frames.len());
        let (kept, skipped) = self.seam(request, old.frames.len());
        for frame in old.frames.into_iter().take(kept) {
            frames.push(if (frame.width, frame.height) == size {
                frame
            } else {
                let fitted = fitted(&frame, request)?;
                Arc::new(fitted)
            });
        }
        frames.extend(new.frames.into_iter().skip(skipped));
        Ok(Video {
            frames,
            fps: new.fps,
        })
    }

    /// Number of frames of the old video that are kept before the new ones, and of new frames that are left out.
    fn seam(&self, request: &GenerateRequest, num_old: usize) -> (usize, usize) {
        if self.extended.is_none() {
            return (0, 0);
        }
        let lead = request.lead_frames();
        if lead > 1 && request.files.takes_control {
            // They were shown as they are, and stay so.
            (num_old, lead)
        } else if lead > 1 {
            // A video may have fewer frames than its header said.
            (num_old.saturating_sub(lead), lead.saturating_sub(num_old))
        } else {
            (num_old, 1)
        }
    }
}

/// Copies all files of a video into a folder of the job -> the copy of the first.
fn copy_files(path: &Path, target: &Path) -> Result<Option<PathBuf>, JobError> {
    let files = media::video_files(path)?;
    let disk = |err: std::io::Error| {
        let what = format!("the video cannot be copied ({err}): {}", path.display());
        JobError::new(JobErrorKind::Disk, what).advise(disk_advice(&err))
    };
    make_private_folder(target).map_err(disk)?;
    let mut first = None;
    for file in &files {
        let copy = target.join(file.file_name().unwrap_or_default());
        copy_private(file, &copy).map_err(disk)?;
        first.get_or_insert(copy);
    }
    Ok(first)
}

/// The video's frames are held in the result's size when the result is written.
fn check_length(num_frames: u64, request: &GenerateRequest, path: &Path) -> Result<(), JobError> {
    let (width, height) = (request.width, request.height);
    let pixels = num_frames.saturating_mul(u64::from(width) * u64::from(height));
    if pixels <= MAX_VIDEO_PIXELS {
        return Ok(());
    }
    let what = format!(
        "the video has too many frames, {num_frames}, for {width}×{height}: {}",
        path.display()
    );
    Err(JobError::invalid(what).advise("Continue a shorter part of it, or choose a smaller size"))
}

/// Keeps the last frames of a video for a model that is shown more than the last: up to [`SEEN_FRAMES`] and at least as
/// many as the request counts on, the first one again where the video has fewer.
fn keep_seen(
    frames: &[Arc<RgbPixels>],
    request: &GenerateRequest,
    folder: &JobFolder,
) -> Result<(), JobError> {
    let (Some(first), lead) = (frames.first(), request.lead_frames()) else {
        return Ok(());
    };
    if lead <= 1 {
        return Ok(());
    }
    let seen = &frames[frames.len().saturating_sub(SEEN_FRAMES as usize)..];
    // Latents hold four frames each, but for the first.
    let whole = seen.len() - (seen.len() - 1) % 4;
    let missing = lead.saturating_sub(whole);
    let seen = &seen[seen.len() - whole..];
    let all = std::iter::repeat_n(first, missing).chain(seen);
    make_private_folder(&folder.seen())
        .map_err(|err| JobError::disk("the video's last frames cannot be saved", &err))?;
    for (index, frame) in all.enumerate() {
        let frame = fitted(frame, request)?;
        write_image(&folder.seen_frame(index), &frame)?;
    }
    Ok(())
}

/// Images of a job are as private as its prompt.
fn write_image(path: &Path, image: &RgbPixels) -> Result<(), JobError> {
    media::write_png(path, image).map_err(save::error_of)?;
    make_private(path).map_err(|err| JobError::disk("an image of the job cannot be kept", &err))
}

/// The image in the video's size, as the engine brings a start image to it.
fn fitted(image: &RgbPixels, request: &GenerateRequest) -> Result<RgbPixels, MediaError> {
    let (width, height) = (request.width, request.height);
    match request.fit {
        ResizeMode::Stretch => media::resize_lanczos(image, width, height),
        ResizeMode::Crop => {
            let cropped = media::crop_to_aspect(image, width, height)?;
            media::resize_lanczos(&cropped, width, height)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::testing::request;

    #[test]
    fn a_video_that_would_be_too_much_in_the_results_size_is_refused_before_it_is_read() {
        let request = request();
        let path = Path::new("/a.gif");
        assert!(check_length(2500, &request, path).is_ok());
        let err = check_length(100_000, &request, path).unwrap_err();
        let said = "the video has too many frames, 100000, for 832×480: /a.gif";
        assert_eq!(err.summary, said);
        assert!(check_length(u64::MAX, &request, path).is_err());
    }
}

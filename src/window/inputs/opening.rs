//! Opens input files: images, videos to extend, images of the clipboard, and folders of images.
//!
//! Runs on the file thread; slots are chosen by [`crate::window::inputs`].

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use egui::ColorImage;
use safelight_core::files::{has_ending, make_private, make_private_folder, open_regular};
use safelight_core::gallery::THUMB_SIDE;
use safelight_core::job::{self, InputMedia, JobError, JobErrorKind, SourceVideo, StartImage};
use safelight_core::media::{
    self, MediaError, RgbPixels, VideoReader, has_image_name, has_video_name, media_info,
};
use safelight_core::naming::{names_like, timestamp};
use safelight_core::restore;

use crate::window::background::{NOT_SURVIVED, guarded as caught};
use crate::window::create::choices::{ContinuedResult, SlotTarget};

/// Images of one folder that are taken, and may become a job each.
const MAX_IMAGES: usize = 500;
/// Levels of folders inside one of models, as in ComfyUI and in diffusers.
const MODEL_DEPTH: u32 = 2;

pub struct OpenedInput {
    pub source: InputMedia,
    pub thumb: RgbPixels,
    pub notices: Vec<String>,
}

pub struct OpenedInputs {
    pub placing: SlotTarget,
    /// As many opened ones as there was room for, and broken ones.
    pub files: Vec<Result<OpenedInput, JobError>>,
    pub num_files: usize,
}

/// Opens files in order until `room` of them are open.
pub fn open_inputs(paths: &[PathBuf], placing: SlotTarget, room: usize) -> OpenedInputs {
    let mut files: Vec<Result<OpenedInput, JobError>> = Vec::new();
    for path in paths {
        if files.iter().filter(|file| file.is_ok()).count() >= room {
            break;
        }
        files.push(if placing.joins_frames {
            continue_file(path)
        } else {
            open_input(path)
        });
    }
    OpenedInputs {
        placing,
        files,
        num_files: paths.len(),
    }
}

pub fn opened_one(opened: Result<OpenedInput, JobError>, placing: SlotTarget) -> OpenedInputs {
    OpenedInputs {
        placing,
        files: vec![opened],
        num_files: 1,
    }
}

pub fn open_input(path: &Path) -> Result<OpenedInput, JobError> {
    guarded(path, || read_input(path))
}

/// The thread survives a decoder that panics on a file.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, JobError>) -> Result<T, JobError> {
    caught(read).unwrap_or_else(|| {
        let text = format!("{NOT_SURVIVED}: {}", path.display());
        Err(JobError::invalid(text)
            .advise("Choose another file, or save this one again in another program"))
    })
}

fn read_input(path: &Path) -> Result<OpenedInput, JobError> {
    match VideoReader::open_moving(path) {
        Ok(Some(reader)) => return video_input(&reader),
        // A damaged animation may still begin with an image.
        Err(err) if !may_move(path) => return Err(video_error(&err)),
        _ => {}
    }
    let image = media::open_image(path).map_err(|err| image_error(&err))?;
    image_input(path.to_path_buf(), &image.image, image.notices(path))
}

/// Returns whether it is of a kind that is an image or a video: only a look inside tells.
pub(crate) fn may_move(path: &Path) -> bool {
    let mut head = [0; 4];
    // Errors are reported when the file is opened.
    let read = open_regular(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && [b"GIF8", b"RIFF", b"\x89PNG"].contains(&&head)
}

fn image_input(
    path: PathBuf,
    image: &RgbPixels,
    notices: Vec<String>,
) -> Result<OpenedInput, JobError> {
    let image_of_file = StartImage {
        path,
        width: image.width,
        height: image.height,
    };
    Ok(OpenedInput {
        source: InputMedia::Image(image_of_file),
        thumb: thumb(image)?,
        notices,
    })
}

fn video_input(reader: &VideoReader) -> Result<OpenedInput, JobError> {
    let path = reader.path();
    let last = media::last_frame(path).map_err(|err| video_error(&err))?;
    Ok(OpenedInput {
        source: InputMedia::Video(SourceVideo {
            path: path.to_path_buf(),
            info: reader.info(),
        }),
        thumb: thumb(&last)?,
        notices: reader.notices(),
    })
}

/// Continues from the file of a result, or else from its frame alone.
pub fn continue_result(result: &ContinuedResult) -> Result<OpenedInput, JobError> {
    // An image of a batch has a number, and is none of a video.
    let (opened, name) = if result.is_video {
        (continue_file(&result.path), "last-frame")
    } else {
        (open_input(&result.path), "image")
    };
    opened.or_else(|_| keep_image(&result.frame, &result.folder, name))
}

/// A file where a video may be: all its numbered images when it was written as those.
pub fn continue_file(path: &Path) -> Result<OpenedInput, JobError> {
    guarded(path, || {
        if media::video_info(path).is_ok_and(|info| info.num_frames > 1) {
            video_input(&VideoReader::open(path).map_err(|err| video_error(&err))?)
        } else {
            read_input(path)
        }
    })
}

pub fn keep_pasted(image: &ColorImage, folder: &Path) -> Result<OpenedInput, JobError> {
    let rgb = image
        .pixels
        .iter()
        .flat_map(|pixel| [pixel.r(), pixel.g(), pixel.b()])
        .collect();
    let [width, height] = image.size;
    let image = RgbPixels::new(width as u32, height as u32, rgb).map_err(|err| keep_error(&err))?;
    keep_image(&image, folder, "pasted")
}

pub fn keep_first_frame(video: SourceVideo, folder: &Path) -> Result<OpenedInput, JobError> {
    let path = video.path.clone();
    guarded(&path, || {
        let first = job::first_of(&InputMedia::Video(video)).map_err(|err| video_error(&err))?;
        keep_image(&first, folder, "first-frame")
    })
}

pub fn keep_image(image: &RgbPixels, folder: &Path, name: &str) -> Result<OpenedInput, JobError> {
    make_private_folder(folder).map_err(|err| keep_error(&err))?;
    let path = new_file(folder, name).map_err(|err| keep_error(&err))?;
    media::write_png(&path, image).map_err(|err| keep_error(&err))?;
    make_private(&path).map_err(|err| keep_error(&err))?;
    image_input(path, image, Vec::new())
}

/// New file named by the time: results refer to it, so names are never reused.
fn new_file(folder: &Path, name: &str) -> io::Result<PathBuf> {
    let first = folder.join(format!("{name}-{}.png", timestamp()));
    let mut names = names_like(&first);
    loop {
        let path = names.next().unwrap_or_else(|| first.clone());
        match File::create_new(&path) {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|_| path),
        }
    }
}

fn thumb(image: &RgbPixels) -> Result<RgbPixels, JobError> {
    media::thumbnail(image, THUMB_SIDE, THUMB_SIDE).map_err(|err| image_error(&err))
}

fn keep_error(err: &dyn std::error::Error) -> JobError {
    JobError::from_error(JobErrorKind::Disk, err).advise("Save the image as a file and drop that")
}

fn image_error(err: &MediaError) -> JobError {
    JobError::from_error(JobErrorKind::InvalidRequest, err)
        .advise("Choose another image, or a video to continue")
}

fn video_error(err: &MediaError) -> JobError {
    JobError::from_error(JobErrorKind::InvalidRequest, err)
        .advise("Choose another video, or drop an image of its last frame")
}

#[derive(Default)]
pub struct InputFiles {
    pub paths: Vec<PathBuf>,
    pub placing: SlotTarget,
    pub problems: Vec<JobError>,
    /// Weight files: LoRAs, or reported not to be one.
    pub loras: Vec<PathBuf>,
    /// Folders with models instead of images.
    pub model_folders: Vec<PathBuf>,
    pub model_files: Vec<PathBuf>,
    /// A video that says how it was made and was given for no place: whether it is extended, its user says.
    pub played: Option<PathBuf>,
}

/// Returns whether a folder, or one so many levels inside it, contains weights.
fn has_models(folder: &Path, depth: u32) -> bool {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.take(MAX_IMAGES).any(|entry| {
        let path = entry.path();
        has_ending(&path, &["safetensors", "gguf"]) || (depth > 0 && has_models(&path, depth - 1))
    })
}

/// Replaces each folder with the images in it.
pub(super) fn unfold(paths: Vec<PathBuf>, placing: SlotTarget) -> InputFiles {
    let mut given = InputFiles {
        placing,
        ..InputFiles::default()
    };
    for path in paths {
        if !path.is_dir() {
            let files = if has_ending(&path, &["gguf"]) {
                &mut given.model_files
            } else if has_ending(&path, &["safetensors"]) {
                &mut given.loras
            } else {
                &mut given.paths
            };
            files.push(path);
            continue;
        }
        match images_in(&path) {
            Ok(images) => given.paths.extend(images),
            Err(_) if has_models(&path, MODEL_DEPTH) => given.model_folders.push(path),
            Err(err) => given.problems.push(err),
        }
    }
    if let [path] = &given.paths[..]
        && placing.slot.is_none()
        && is_video_with_settings(path)
    {
        given.played = given.paths.pop();
    }
    given
}

fn is_video_with_settings(path: &Path) -> bool {
    let is_video = has_video_name(path) || may_move(path);
    is_video
        && restore::read(path).is_ok_and(|found| found.is_some())
        && media_info(path).is_ok_and(|info| info.num_frames > 1)
}

/// Images directly in the folder, in the order of their names.
fn images_in(folder: &Path) -> Result<Vec<PathBuf>, JobError> {
    let refused = |what: String| {
        let text = format!("{what}: {}", folder.display());
        JobError::invalid(text)
    };
    let unreadable = |err: io::Error| refused(format!("the folder cannot be read ({err})"));
    let mut images = Vec::new();
    for entry in folder.read_dir().map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if has_image_name(&path) && !is_hidden(&path) && path.is_file() {
            images.push(path);
        }
        if images.len() > MAX_IMAGES {
            let what = format!("there are more than {MAX_IMAGES} images in this folder");
            return Err(refused(what).advise("Select some of its images and drop those"));
        }
    }
    if images.is_empty() {
        return Err(refused("there are no images in this folder".to_owned())
            .advise("Images in folders inside it do not count"));
    }
    images.sort_unstable();
    Ok(images)
}

/// Hidden ones are other programs' leftovers.
fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(b".")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_reader_that_does_not_survive_a_file_is_an_error_of_that_file() {
        let path = Path::new("/images/odd.webp");
        let read = guarded(path, || -> Result<(), JobError> { panic!("a bad offset") });
        let err = read.expect_err("it panicked");
        assert!(err.summary.contains("/images/odd.webp"), "{err}");
        assert!(guarded(path, || Ok(1)).is_ok());
    }

    fn given(path: &Path) -> InputFiles {
        unfold(vec![path.to_owned()], SlotTarget::default())
    }

    #[test]
    fn folder_expands_to_its_sorted_images_and_a_file_to_itself() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.png", "a.JPG", ".hidden.png", "notes.txt", "video.mp4"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("deeper.png")).unwrap();
        let found = given(folder.path());
        assert!(found.problems.is_empty());
        let expected = ["a.JPG", "b.png"].map(|name| folder.path().join(name));
        assert_eq!(found.paths, expected);
        let alone = folder.path().join("notes.txt");
        assert_eq!(given(&alone).paths, [alone]);
    }

    #[test]
    fn a_folder_of_no_images_and_one_of_too_many_are_refused_with_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |folder: &Path| {
            let found = given(folder);
            assert!(found.paths.is_empty());
            found.problems[0].summary.clone()
        };
        assert!(refused(folder.path()).contains("no images in this folder"));
        for number in 0..=MAX_IMAGES {
            fs::write(folder.path().join(format!("{number}.png")), "").unwrap();
        }
        assert!(refused(folder.path()).contains("more than 500 images"));
    }
}

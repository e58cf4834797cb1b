//! Opening what a mask is painted on, and keeping what was painted; blocks, so it is for the mask's own thread.

use std::path::{Path, PathBuf};

use safelight_core::files::{make_private, make_private_folder};
use safelight_core::job::{JobError, JobErrorKind, JobId};
use safelight_core::media::{self, Extended, Mask, MediaError};
use safelight_core::naming;

use crate::app::inputs::Source;
use crate::app::mask::tiles::Levels;
use crate::app::mask::words;

/// A picture and the mask to go on from.
pub(super) struct Opened {
    pub(super) picture: PathBuf,
    /// The mask's file, where there is one.
    pub(super) mask_file: Option<PathBuf>,
    pub(super) mask: Mask,
    /// And no clip's last frame.
    pub(super) is_picture: bool,
    pub(super) levels: Levels,
}

/// Opens a picture, or a clip's last frame, with a mask of its size.
pub(super) fn open(start: &Source, mask_file: Option<PathBuf>) -> Result<Opened, JobError> {
    let picture = match start {
        Source::Picture(picture) => media::open_picture(&picture.path),
        Source::Clip(clip) => media::last_frame(&clip.path),
    };
    let picture = picture.map_err(|err| opening_error(&err))?;
    let (width, height) = (picture.width, picture.height);
    let mask = match &mask_file {
        Some(path) => media::open_mask(path, width, height).map_err(|err| opening_error(&err))?,
        None => Mask::new(width, height),
    };
    Ok(Opened {
        picture: start.path().to_path_buf(),
        mask_file,
        mask,
        is_picture: matches!(start, Source::Picture(_)),
        levels: Levels::of(picture).map_err(|err| opening_error(&err))?,
    })
}

/// Writes a mask under a name of its own: jobs that wait may go by an earlier one.
pub(super) fn keep(folder: &Path, picture: &Path, mask: &Mask) -> Result<PathBuf, JobError> {
    let stem = picture.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{}-mask-{}.png", naming::slug(&stem), JobId::next());
    let path = folder.join(name);
    let made = make_private_folder(folder);
    made.map_err(|err| {
        JobError::from_error(JobErrorKind::Disk, &err).advise(words::make_room(folder))
    })?;
    media::write_mask(&path, mask.width(), mask.height(), mask.values()).map_err(|err| {
        JobError::from_error(JobErrorKind::Disk, &err).advise(words::make_room(folder))
    })?;
    make_private(&path).map_err(|err| {
        JobError::from_error(JobErrorKind::Disk, &err).advise(words::make_room(folder))
    })?;
    Ok(path)
}

/// Writes an extended picture and its mask under names of their own; gives them in this order.
pub(super) fn keep_extended(
    folder: &Path,
    picture: &Path,
    extended: &Extended,
) -> Result<(PathBuf, PathBuf), JobError> {
    let stem = picture.file_stem().unwrap_or_default().to_string_lossy();
    media::write_extended(folder, &stem, extended).map_err(|err| {
        JobError::from_error(JobErrorKind::Disk, &err).advise(words::make_room(folder))
    })
}

pub(super) fn opening_error(err: &MediaError) -> JobError {
    JobError::from_error(JobErrorKind::InvalidRequest, err).advise(words::CHOOSE_AGAIN)
}

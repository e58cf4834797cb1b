//! Opening what a mask is painted on, and keeping what was painted; blocks, so it is for the mask's own thread.

use std::path::{Path, PathBuf};

use safelight_core::files::{make_private, make_private_folder};
use safelight_core::job::{JobError, JobErrorKind, JobId};
use safelight_core::media::{self, Extended, Margins, Mask, MediaError};
use safelight_core::naming;

use crate::app::inputs::{MaskOf, Source};
use crate::app::mask::tiles::Levels;

/// What is painted on and the mask to go on from.
pub(super) struct Opened {
    pub(super) of: MaskOf,
    pub(super) source: Source,
    /// The mask's file, where there is one.
    pub(super) mask_file: Option<PathBuf>,
    pub(super) mask: Mask,
    pub(super) levels: Levels,
}

/// Opens a picture, or a clip's first frame, with a mask of its size.
pub(super) fn open(
    of: MaskOf,
    source: Source,
    mask_file: Option<PathBuf>,
) -> Result<Opened, JobError> {
    let picture = media::first_of(&source).map_err(|err| opening_error(&err))?;
    let (width, height) = (picture.width, picture.height);
    let mask = match &mask_file {
        Some(path) => media::open_mask(path, width, height).map_err(|err| opening_error(&err))?,
        None => Mask::new(width, height),
    };
    Ok(Opened {
        of,
        source,
        mask_file,
        mask,
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
        JobError::from_error(JobErrorKind::Disk, &err).advise(make_room_advice(folder))
    })?;
    media::write_mask(&path, mask.width(), mask.height(), mask.values()).map_err(|err| {
        JobError::from_error(JobErrorKind::Disk, &err).advise(make_room_advice(folder))
    })?;
    make_private(&path).map_err(|err| {
        JobError::from_error(JobErrorKind::Disk, &err).advise(make_room_advice(folder))
    })?;
    Ok(path)
}

fn make_room_advice(folder: &Path) -> String {
    format!(
        "What you painted is still here. Free some space or make this folder writable, then use the mask again: {}",
        folder.display()
    )
}

/// Writes an extended picture and its mask under names of their own; gives them in this order.
pub(super) fn keep_extended(
    folder: &Path,
    picture: &Path,
    extended: &Extended,
) -> Result<(PathBuf, PathBuf), JobError> {
    let stem = picture.file_stem().unwrap_or_default().to_string_lossy();
    media::write_extended(folder, &stem, extended).map_err(|err| {
        JobError::from_error(JobErrorKind::Disk, &err).advise(make_room_advice(folder))
    })
}

/// The same of a control, of which at most so many frames are written.
pub(super) fn keep_extended_control(
    folder: &Path,
    source: &Source,
    num_frames: u32,
    margins: Margins,
    mask: &Mask,
) -> Result<(Source, PathBuf), JobError> {
    let made = media::write_extended_clip(folder, source, num_frames, margins, mask);
    let (source, mask) = made.map_err(|err| {
        JobError::from_error(JobErrorKind::Disk, &err).advise(make_room_advice(folder))
    })?;
    Ok((source, mask.path))
}

pub(super) fn opening_error(err: &MediaError) -> JobError {
    JobError::from_error(JobErrorKind::InvalidRequest, err)
        .advise("Choose the picture or the mask again")
}

//! Folders among the files that are given: each stands for the pictures that lie in it.
//!
//! FrameSegments on the file thread. It asks for names; of files it opens a clip that is given alone, for what that says of itself.

use std::io;
use std::path::{Path, PathBuf};

use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::media::{has_clip_name, has_picture_name, media_info};
use safelight_core::restore;

use crate::app::inputs::opening::may_move;
use crate::app::inputs::slots::Placing;

/// Pictures of one folder that are taken, and may become a job each.
const MAX_PICTURES: usize = 500;

/// Files that were dropped, chosen or handed over together, without folders.
pub struct Given {
    pub paths: Vec<PathBuf>,
    pub placing: Placing,
    /// Of folders.
    pub problems: Vec<JobError>,
    /// A clip that says how it was made and was given for no place: whether it is extended, its user says.
    pub played: Option<PathBuf>,
}

/// Puts the pictures of each folder in its place.
pub(super) fn unfold(paths: Vec<PathBuf>, placing: Placing) -> Given {
    let mut given = Given {
        paths: Vec::new(),
        placing,
        problems: Vec::new(),
        played: None,
    };
    for path in paths {
        if !path.is_dir() {
            given.paths.push(path);
            continue;
        }
        match pictures_in(&path) {
            Ok(pictures) => given.paths.extend(pictures),
            Err(err) => given.problems.push(err),
        }
    }
    if let [path] = &given.paths[..]
        && placing.slot.is_none()
        && is_clip_with_settings(path)
    {
        given.played = given.paths.pop();
    }
    given
}

fn is_clip_with_settings(path: &Path) -> bool {
    let is_clip = has_clip_name(path) || may_move(path);
    is_clip
        && restore::read(path).is_ok_and(|found| found.is_some())
        && media_info(path).is_ok_and(|info| info.num_frames > 1)
}

/// The pictures right in the folder, in the order of their names.
fn pictures_in(folder: &Path) -> Result<Vec<PathBuf>, JobError> {
    let refused = |what: String| {
        JobError::new(
            JobErrorKind::InvalidRequest,
            format!("{what}: {}", folder.display()),
        )
    };
    let unreadable = |err: io::Error| refused(format!("the folder cannot be read ({err})"));
    let mut pictures = Vec::new();
    for entry in folder.read_dir().map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if has_picture_name(&path) && !is_hidden(&path) && path.is_file() {
            pictures.push(path);
        }
        if pictures.len() > MAX_PICTURES {
            let what = format!("there are more than {MAX_PICTURES} pictures in this folder");
            return Err(refused(what).advise("Select some of its pictures and drop those"));
        }
    }
    if pictures.is_empty() {
        return Err(refused("there are no pictures in this folder".to_owned())
            .advise("Pictures in folders inside it do not count"));
    }
    pictures.sort_unstable();
    Ok(pictures)
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

    fn given(path: &Path) -> Given {
        unfold(vec![path.to_owned()], Placing::default())
    }

    #[test]
    fn a_folder_stands_for_its_pictures_in_order_and_a_file_for_itself() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.png", "a.JPG", ".hidden.png", "notes.txt", "clip.mp4"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("deeper.png")).unwrap();
        let found = given(folder.path());
        assert!(found.problems.is_empty());
        assert_eq!(
            found.paths,
            ["a.JPG", "b.png"].map(|name| folder.path().join(name))
        );
        let alone = folder.path().join("notes.txt");
        assert_eq!(given(&alone).paths, [alone]);
    }

    #[test]
    fn a_folder_of_no_pictures_and_one_of_too_many_are_refused_with_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |folder: &Path| {
            let found = given(folder);
            assert!(found.paths.is_empty());
            found.problems[0].summary.clone()
        };
        assert!(refused(folder.path()).contains("no pictures in this folder"));
        for number in 0..=MAX_PICTURES {
            fs::write(folder.path().join(format!("{number}.png")), "").unwrap();
        }
        assert!(refused(folder.path()).contains("more than 500 pictures"));
    }
}

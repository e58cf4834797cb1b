//! What is said of pictures, clips and folders that come into the form, as whole sentences.

use std::fmt::Display;
use std::path::Path;

pub(super) const CHOOSE_START: &str = "Choose a start picture, or a clip to continue or to change";
pub(super) const CHOOSE_END: &str = "Choose an end picture";
pub(super) const CHOOSE_MASK: &str = "Choose a mask: white is regenerated, black stays";
pub(super) const CHOOSE_REFERENCES: &str = "Choose reference pictures";
pub(super) const CHOOSE_CONTROLS: &str = "Choose control pictures";
pub(super) const CHOOSE_PROMPTS: &str = "Choose pictures as prompts";
pub(super) const PICTURES: &str = "Pictures";
pub(super) const PICTURES_AND_CLIPS: &str = "Pictures and clips";
pub(super) const ALL_FILES: &str = "All files";

pub(super) const SAVE_ANEW: &str = "Choose another file, or save this one again in another program";
pub(super) const DROP_AS_FILE: &str = "Save the picture as a file and drop that";
pub(super) const OTHER_PICTURE: &str = "Choose another picture, or a clip to continue";
pub(super) const OTHER_CLIP: &str = "Choose another clip, or drop a picture of its last frame";

pub(super) const DROP_SOME: &str = "Select some of its pictures and drop those";
pub(super) const NO_PICTURES: &str = "there are no pictures in this folder";
pub(super) const INNER_FOLDERS: &str = "Pictures in folders inside it do not count";

pub(super) const MASK_IS_PICTURE: &str = "A mask must be a picture";
pub(super) const END_IS_PICTURE: &str = "An end picture must be a picture";
pub(super) const REFERENCE_IS_PICTURE: &str = "A reference must be a picture";
pub(super) const SOME_REFERENCES: &str =
    "The model takes no more reference pictures. Remove one first";
pub(super) const SOME_CONTROLS: &str = "The model takes no more control pictures. Remove one first";
pub(super) const ONE_MASK: &str = "There is one picture and one mask. Press Generate, then drop the next one: it waits in the queue";
pub(super) const ONE_END: &str = "A clip has one start and one end picture. Press Generate, then drop the next one: it waits in the queue";
pub(super) const ONE_START_OF_PICTURE: &str = "A picture starts from one picture. Press Generate, then drop the next one: it waits in the queue";
pub(super) const ONE_START_OF_CLIP: &str =
    "A clip starts from one picture. Press Generate, then drop the next one: it waits in the queue";

/// What is wrong with a folder.
pub(super) fn of_folder(what: &str, folder: &Path) -> String {
    format!("{what}: {}", folder.display())
}

pub(super) fn folder_unread(why: &dyn Display) -> String {
    format!("the folder cannot be read ({why})")
}

pub(super) fn too_many_pictures(most: usize) -> String {
    format!("there are more than {most} pictures in this folder")
}

pub(super) fn clip_is_extended(name: &str) -> String {
    format!("{name} is a clip: it is extended")
}

pub(super) fn clip_is_changed(name: &str) -> String {
    format!("{name} is a clip: it is changed")
}

pub(super) fn one_taken(num_files: usize, name: &str) -> String {
    format!("only one of {num_files} files is used: {name}")
}

pub(super) fn some_taken(num_files: usize, names: &str) -> String {
    format!("not all of {num_files} files are used, only these: {names}")
}

/// Counted from 1.
pub(super) fn control_needs_mask(number: usize) -> String {
    format!(
        "the ControlNet of control picture {number} regenerates a part of it and needs a mask: paint that part, or drop a mask"
    )
}

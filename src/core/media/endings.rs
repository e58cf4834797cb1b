//! Extensions of images and videos: for filters, and for texts before a file is read.
//!
//! The format of a file is decided by its content.

use std::path::Path;

use crate::files::has_ending;

/// Of images, some of which are animated.
pub const PICTURE_ENDINGS: [&str; 11] = [
    "png", "jpg", "jpeg", "webp", "gif", "bmp", "tif", "tiff", "avif", "heic", "heif",
];
/// Of videos alone.
pub const CLIP_ENDINGS: [&str; 19] = [
    "mp4", "m4v", "mov", "webm", "mkv", "3gp", "avi", "ts", "mts", "m2ts", "mpg", "mpeg", "m2v",
    "vob", "flv", "wmv", "asf", "ogv", "mxf",
];

pub fn has_picture_name(path: &Path) -> bool {
    has_ending(path, &PICTURE_ENDINGS)
}

pub fn has_clip_name(path: &Path) -> bool {
    has_ending(path, &CLIP_ENDINGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whether_it_is_a_clips_or_a_pictures_however_it_is_written() {
        let kinds = |name: &str| {
            let path = Path::new(name);
            (has_picture_name(path), has_clip_name(path))
        };
        assert_eq!(kinds("/a/b.TIFF"), (true, false));
        assert_eq!(kinds("b.mp4.MKV"), (false, true));
        assert_eq!(kinds("b.AVI"), (false, true));
        assert_eq!(kinds("mp4"), (false, false));
    }
}

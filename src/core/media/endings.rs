//! Extensions of images and videos: for filters, and for texts before a file is read.
//!
//! The format of a file is decided by its content.

use std::path::Path;

use crate::files::has_ending;

/// Of images, some of which are animated.
pub const IMAGE_ENDINGS: [&str; 11] = [
    "png", "jpg", "jpeg", "webp", "gif", "bmp", "tif", "tiff", "avif", "heic", "heif",
];
/// Of videos alone.
pub const VIDEO_ENDINGS: [&str; 19] = [
    "mp4", "m4v", "mov", "webm", "mkv", "3gp", "avi", "ts", "mts", "m2ts", "mpg", "mpeg", "m2v",
    "vob", "flv", "wmv", "asf", "ogv", "mxf",
];

pub fn has_image_name(path: &Path) -> bool {
    has_ending(path, &IMAGE_ENDINGS)
}

pub fn has_video_name(path: &Path) -> bool {
    has_ending(path, &VIDEO_ENDINGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_extensions_identify_images_and_videos_in_any_case() {
        let kinds = |name: &str| {
            let path = Path::new(name);
            (has_image_name(path), has_video_name(path))
        };
        assert_eq!(kinds("/a/b.TIFF"), (true, false));
        assert_eq!(kinds("b.mp4.MKV"), (false, true));
        assert_eq!(kinds("b.AVI"), (false, true));
        assert_eq!(kinds("mp4"), (false, false));
    }
}

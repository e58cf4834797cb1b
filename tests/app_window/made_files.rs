//! Pictures and clips that a test finds on the disk of its user.

use std::path::PathBuf;

use safelight_core::media::{ClipOptions, Picture, write_clip};

use super::Bench;

impl Bench {
    /// A clip file of this size and length, whose frames get brighter.
    pub fn clip_file(&self, name: &str, width: u32, height: u32, num_frames: u8) -> PathBuf {
        let path = self.home.path().join(name);
        let frame = |index: u8| Picture::from_fn(width, height, |_, _| [index * 9, 40, 90]);
        let frames = (0..num_frames).map(|index| frame(index).expect("it has pixels"));
        let frames: Vec<Picture> = frames.collect();
        let options = ClipOptions {
            fps: 10.0,
            ..Default::default()
        };
        write_clip(&path, &frames, options).expect("a clip is written");
        path
    }

    /// A picture file of this size.
    pub fn picture_file(&self, name: &str, width: u32, height: u32) -> PathBuf {
        let path = self.home.path().join(name);
        image::RgbImage::from_fn(width, height, |x, y| image::Rgb([x as u8, y as u8, 90]))
            .save(&path)
            .expect("a picture is written");
        path
    }
}

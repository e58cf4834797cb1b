//! Images and videos that a test finds on the disk of its user, and files that are held over the window and dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safelight_core::media::{RgbPixels, VideoOptions, write_video};
use serde_json::{Value, json};

use super::Bench;

pub fn write_made(path: &Path, size: [u32; 2], num_frames: u8, fps: f64, settings: Option<String>) {
    let frame = |index: u8| RgbPixels::from_fn(size[0], size[1], |_, _| [index * 9, 40, 90]);
    let frames: Result<Vec<RgbPixels>, _> = (0..num_frames).map(frame).collect();
    let options = VideoOptions {
        fps,
        settings,
        ..VideoOptions::default()
    };
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    write_video(path, &frames.expect("they have pixels"), options).expect("it is written");
}

pub fn made_with(request: &Value) -> String {
    json!({"app": "Safelight", "request": request}).to_string()
}

impl Bench {
    pub fn video_file(&self, name: &str, width: u32, height: u32, num_frames: u8) -> PathBuf {
        let path = self.home.path().join(name);
        write_made(&path, [width, height], num_frames, 10.0, None);
        path
    }

    pub fn image_file(&self, name: &str, width: u32, height: u32) -> PathBuf {
        let path = self.home.path().join(name);
        image::RgbImage::from_fn(width, height, |x, y| image::Rgb([x as u8, y as u8, 90]))
            .save(&path)
            .expect("an image is written");
        path
    }

    pub fn drop_video(
        &mut self,
        name: &str,
        width: u32,
        height: u32,
        num_frames: u8,
        text: &str,
    ) -> PathBuf {
        let path = self.video_file(name, width, height, num_frames);
        self.drop_until(&path, text);
        path
    }

    pub fn drop_image(&mut self, name: &str, width: u32, height: u32, text: &str) -> PathBuf {
        let path = self.image_file(name, width, height);
        self.drop_until(&path, text);
        path
    }

    /// Drops an image of 640 by 320 and waits until it is there as, for example, `Start image`.
    pub fn drop_as(&mut self, shown_as: &str, name: &str) -> PathBuf {
        self.drop_image(name, 640, 320, &format!("{shown_as} {name}"))
    }

    pub fn text_file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        fs::write(&path, text).expect("it is written");
        path
    }

    pub fn hold_files(&mut self, paths: &[impl AsRef<Path>]) {
        let files = paths.iter().map(|path| egui::HoveredFile {
            path: Some(path.as_ref().to_owned()),
            ..Default::default()
        });
        self.harness.input_mut().hovered_files = files.collect();
        self.harness.run_steps(3);
    }

    pub fn drop_file(&mut self, path: &Path) {
        self.drop_files(&[path]);
    }

    pub fn drop_until(&mut self, path: &Path, text: &str) {
        self.drop_file(path);
        self.wait_for(text);
    }

    pub fn drop_files(&mut self, paths: &[&Path]) {
        for path in paths {
            let file = Arc::new(Dropped(path.to_path_buf()));
            self.harness.input_mut().dropped_files.push(file);
        }
        self.harness.step();
    }
}

#[derive(Debug)]
struct Dropped(PathBuf);

impl egui::DroppedFile for Dropped {
    fn path(&self) -> &Path {
        &self.0
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        Err("the window must not read files".to_owned())
    }
}

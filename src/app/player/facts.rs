//! What is known of a file that is played: its size and length, and the settings that it carries.
//!
//! Reads no file; what the settings mean for a form is others' to say.

use std::path::{Path, PathBuf};

use safelight_core::job::SheetCells;
use serde_json::Value;

use crate::app::gallery::wishes::TrashWish;

/// A picture, batch or clip from disk.
#[derive(Clone, Debug, PartialEq)]
pub struct PlayedFile {
    /// Several for the pictures of a batch.
    pub paths: Vec<PathBuf>,
    pub width: u32,
    pub height: u32,
    pub num_frames: usize,
    pub fps: f64,
    /// It plays; else it is a picture, or several.
    pub is_clip: bool,
    /// The settings inside each, as far as they are ours.
    pub settings: Vec<Option<Value>>,
}

impl PlayedFile {
    /// The file of a picture of a batch; the only one of others.
    pub fn path_of(&self, index: usize) -> &Path {
        let path = self.paths.get(index).or_else(|| self.paths.first());
        path.map_or_else(|| Path::new(""), PathBuf::as_path)
    }

    pub fn name_of(&self, index: usize) -> String {
        let name = self.path_of(index).file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The request that made it, as its file tells.
    pub fn request_of(&self, index: usize) -> Option<&Value> {
        let settings = self.settings.get(index).or_else(|| self.settings.first())?;
        settings.as_ref()?.get("request")
    }

    /// What is thrown away with it: the clip, or the picture of a batch that is looked at.
    pub fn trash_wish(&self, shown: usize) -> TrashWish {
        let path = self.path_of(shown);
        if self.is_clip {
            TrashWish::clip(path)
        } else {
            TrashWish::picture(path)
        }
    }

    /// The result that a contact sheet shows at this pixel of it; nothing of other pictures.
    pub fn cell_at(&self, shown: usize, x: u32, y: u32) -> Option<PathBuf> {
        let settings = self.settings.get(shown).or_else(|| self.settings.first())?;
        let cells = SheetCells::of_settings(settings.as_ref()?)?;
        cells.file_at(self.path_of(shown), x, y)
    }

    /// The prompt, where the file tells it.
    pub fn prompt(&self, shown: usize) -> Option<&str> {
        self.request_of(shown)?["prompt"].as_str()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_tells_its_prompt_and_another_program_s_settings_tell_nothing() {
        let mut file = PlayedFile {
            paths: vec!["/a/boat.mp4".into()],
            width: 832,
            height: 480,
            num_frames: 81,
            fps: 16.0,
            is_clip: true,
            settings: vec![Some(json!({"request": {"seed": 12, "prompt": "a boat"}}))],
        };
        assert_eq!(file.prompt(0), Some("a boat"));
        assert_eq!(file.name_of(0), "boat.mp4");
        file.settings = vec![None];
        assert_eq!(file.prompt(0), None);
        // Another program's settings have other names and kinds.
        file.settings = vec![Some(json!(["what", "is this"]))];
        assert_eq!(file.prompt(0), None);
    }
}

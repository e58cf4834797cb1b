//! Files that the window keeps contain prompts and images: only their owner may read them.

use safelight_core::presets::{self, OwnPreset, PresetContent, PresetEdit, PresetValues};

use crate::app_window::prelude::*;
use crate::common::modes::{everything, mode};

#[test]
fn files_saved_by_the_window_are_accessible_only_to_their_owner() {
    let mut bench = Bench::new();
    let paths = bench.paths();
    bench.write_prompt("a red boat");
    bench.paste_image();
    bench.press("Light theme");
    bench.until("the settings are saved", |_| {
        paths.settings_file().is_file()
    });
    let preset = OwnPreset {
        name: "mine".to_owned(),
        model: None,
        values: PresetValues::default(),
        content: PresetContent::default(),
    };
    presets::edit(&paths.presets_file(), &PresetEdit::Save(Box::new(preset))).unwrap();
    bench.make_video(1);
    bench.press_generate();
    bench.until("the queue is kept", |_| paths.queue_file().is_file());
    bench.until("the prompt is kept", |_| {
        paths.data.join("prompts.jsonl").is_file()
    });
    bench.until("the form is kept", |_| paths.state_file().is_file());
    let home = bench.close();
    let kept: Vec<PathBuf> = [&paths.config, &paths.data, &paths.cache]
        .into_iter()
        .filter(|folder| folder.exists())
        .flat_map(|folder| everything(folder))
        .collect();
    assert!(kept.len() > 8, "{kept:?}");
    let open: Vec<String> = kept
        .iter()
        .filter(|path| mode(path) & 0o077 != 0)
        .map(|path| format!("{:o} {}", mode(path), path.display()))
        .collect();
    assert!(open.is_empty(), "others may look into {}", open.join("\n"));
    drop(home);
}

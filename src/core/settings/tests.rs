//! What the settings file promises: comments stay, broken files stay, every key is known.

use std::fs;

use super::super::{AllocatorChoice, ThemeChoice};
use super::*;
use crate::job::DeviceChoice;
use crate::media::DEFAULT_VIDEO_ENDING;
use std::path::PathBuf;

fn file_with(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.toml");
    fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn without_a_file_everything_has_its_default() {
    let folder = tempfile::tempdir().unwrap();
    let loaded = Settings::load(&folder.path().join("none.toml"));
    assert_eq!(loaded.settings, Settings::default());
    assert!(loaded.error.is_none() && loaded.warnings.is_empty());
}

#[test]
fn default_settings_file_contains_exactly_all_defaults() {
    let (settings, warnings) = Settings::parse(&table::default_file(), Path::new("")).unwrap();
    assert_eq!(settings, Settings::default());
    assert_eq!(warnings, [""; 0]);
    let known = table::default_file().parse::<DocumentMut>().unwrap();
    let written = Settings {
        runtime: super::super::RuntimeSettings {
            libtorch: Some("a".into()),
            ..Default::default()
        },
        output: OutputSettings {
            folder: Some("b".into()),
            images_folder: Some("c".into()),
            ..Default::default()
        },
        ..Default::default()
    }
    .to_document()
    .unwrap();
    for (section, item) in written.iter() {
        for (key, _) in item.as_table_like().unwrap().iter() {
            let is_there = known.get(section).is_some_and(|s| s.get(key).is_some());
            assert!(is_there, "{section}.{key}");
        }
    }
}

#[test]
fn a_file_that_asks_for_mp4_opens_with_the_default_in_a_build_without_h264() {
    let (_folder, path) = file_with("[output]\nformat = \"mp4\"\n");
    let loaded = Settings::load(&path);
    assert!(loaded.error.is_none());
    assert_eq!(loaded.settings.output.format, DEFAULT_VIDEO_ENDING);
    let message: &[&str] = if HAS_H264 {
        &[]
    } else {
        &[
            "This build of Safelight has no H.264 and writes no MP4 (output.format): videos become .webp",
        ]
    };
    assert_eq!(loaded.warnings, message);
}

#[test]
fn a_first_save_writes_the_comments_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/er/settings.toml");
    let mut settings = Settings::default();
    settings.interface.theme = ThemeChoice::Light;
    settings.save(&path).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let holds = text.contains("# Dark, light, or the same as your desktop");
    assert!(holds, "{text}");
    assert!(text.contains("\ntheme = \"light\"\n"), "{text}");
    assert_eq!(Settings::load(&path).settings, settings);
}

#[test]
fn saving_keeps_comments_order_and_unknown_keys() {
    let text = "# mine\n[interface]\nscale = 1.5 # big\n\n[runtime]\nfuture = [1, 2]\ndevice = 'cpu' # no gpu here\n";
    let (_folder, path) = file_with(text);
    let loaded = Settings::load(&path);
    assert_eq!(loaded.settings.runtime.device, DeviceChoice::Cpu);
    assert_eq!(
        loaded.warnings,
        ["the settings have an unknown key 'runtime.future'"]
    );
    let mut settings = loaded.settings;
    settings.interface.scale = 1.1;
    settings.runtime.libtorch = Some("/opt/torch".into());
    settings.save(&path).unwrap();
    let saved = fs::read_to_string(&path).unwrap();
    let holds = saved.starts_with("# mine\n[interface]\nscale = 1.1 # big\n");
    assert!(holds, "{saved}");
    assert!(saved.contains("future = [1, 2]\n") && saved.contains("# no gpu here"));
    assert_eq!(Settings::load(&path).settings, settings);
    settings.runtime.libtorch = None;
    settings.save(&path).unwrap();
    assert_eq!(Settings::load(&path).settings, settings);
}

#[test]
fn saving_unchanged_settings_keeps_the_file_byte_for_byte() {
    let (_folder, path) = file_with(&table::default_file());
    Settings::load(&path).settings.save(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), table::default_file());
}

#[test]
fn a_broken_file_gives_defaults_with_the_place_and_stays_untouched() {
    for (text, place) in [
        ("[runtime]\ndevice = 'gpu'\n", (2, 10)),
        ("[runtime]\ndevice = \n", (2, 10)),
        ("[output]\nformat = 'avi'\n", (2, 10)),
        ("[interface]\nscale = nan\n", (2, 9)),
        ("[runtime]\nstall_limit_secs = 0\n", (2, 20)),
        ("[runtime]\nstall_limit_secs = -1\n", (2, 20)),
        ("interface = 3\n", (1, 13)),
    ] {
        let (_folder, path) = file_with(text);
        let loaded = Settings::load(&path);
        assert_eq!(loaded.settings, Settings::default());
        let Some(SettingsError::Broken(err)) = loaded.error else {
            panic!("{text}: {:?}", loaded.error);
        };
        let (line, column) = place;
        let expected = format!("line {line}, column {column} of the settings: ");
        assert!(err.to_string().starts_with(&expected), "{text}: {err}");
        assert!(Settings::default().save(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn variables_for_the_engine_are_a_table_and_survive_a_save() {
    let text = "[runtime]\ndevice = 'cpu'\nallocator = 'expandable'\n\n[runtime.environment]\nMIOPEN_FIND_MODE = '1' # mine\nGOMP_SPINCOUNT = ''\n";
    let (_folder, path) = file_with(text);
    let loaded = Settings::load(&path);
    assert!(loaded.error.is_none(), "{loaded:?}");
    assert!(loaded.warnings.is_empty(), "{loaded:?}");
    let runtime = &loaded.settings.runtime;
    assert_eq!(runtime.environment["MIOPEN_FIND_MODE"], "1");
    assert_eq!(runtime.environment["GOMP_SPINCOUNT"], "");
    assert_eq!(runtime.allocator, AllocatorChoice::Expandable);
    loaded.settings.save(&path).unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains("# mine"));
    assert_eq!(Settings::load(&path).settings, loaded.settings);
    let (_folder, path) = file_with("[runtime.environment]\n'A=B' = 'c'\n");
    assert!(Settings::load(&path).error.is_some());
    let (_folder, path) = file_with("[runtime]\nallocator = 'best'\n");
    assert!(Settings::load(&path).error.is_some());
}

#[test]
fn paths_under_the_home_folder_can_be_written_with_a_tilde() {
    let text = "[models]\nfolders = ['~/models', '/a/~/b', '~other/c']\nwildcards = ['~/w']\n[runtime]\nlibtorch = '~'\n";
    let (mut settings, _) = Settings::parse(text, Path::new("")).unwrap();
    settings.expand_home(Path::new("/home/me"));
    let folders = ["/home/me/models", "/a/~/b", "~other/c"].map(PathBuf::from);
    assert_eq!(settings.models.folders, folders);
    assert_eq!(settings.models.wildcards, [PathBuf::from("/home/me/w")]);
    assert_eq!(settings.runtime.libtorch, Some("/home/me".into()));
}

#[test]
fn a_file_that_is_no_text_is_an_error_and_no_panic() {
    let (_folder, path) = file_with("");
    fs::write(&path, [0xff, 0xfe, 0]).unwrap();
    assert!(matches!(
        Settings::load(&path).error,
        Some(SettingsError::Read { .. })
    ));
}

#[test]
fn saving_adds_only_changed_keys_to_a_partial_settings_file() {
    let text = "[models]\nfolders = [\n    '~/a', # the big disk\n    '/b',\n]\n";
    let (_folder, path) = file_with(text);
    let mut settings = Settings::load(&path).settings;
    settings.models.folders.push("/c".into());
    settings.memory.cap_gib = Some(20.0);
    settings.save(&path).unwrap();
    let saved = fs::read_to_string(&path).unwrap();
    let expected = "[models]\nfolders = [\n    '~/a', # the big disk\n    '/b',\n    \"/c\",\n]\n\n[memory]\ncap_gib = 20.0\n";
    assert_eq!(saved, expected);
    settings.models.folders.remove(1);
    settings.memory.cap_gib = None;
    settings.save(&path).unwrap();
    let saved = fs::read_to_string(&path).unwrap();
    let holds = saved.contains("    '~/a', # the big disk\n    \"/c\",\n]");
    assert!(holds, "{saved}");
    assert!(saved.contains("cap_gib = \"\""), "{saved}");
    assert_eq!(Settings::load(&path).settings, settings);
}

#[test]
fn a_variable_that_was_taken_away_is_gone_from_the_file() {
    let (_folder, path) = file_with("[runtime.environment]\nA = '1'\nB = '2' # mine\n");
    let mut settings = Settings::load(&path).settings;
    settings.runtime.environment.remove("A");
    settings.runtime.environment.insert("C".into(), "3".into());
    settings.save(&path).unwrap();
    let saved = fs::read_to_string(&path).unwrap();
    assert_eq!(saved, "[runtime.environment]\nB = '2' # mine\nC = \"3\"\n");
}

#[test]
fn jobs_run_on_every_gpu_unless_devices_are_chosen() {
    use DeviceChoice::{Auto, Cpu, Cuda};
    let (none, both): (&[DeviceChoice], &[DeviceChoice]) = (&[], &[Cuda(0), Cuda(1)]);
    for (device, devices, gpus, expected) in [
        (Auto, none, none, &[Auto][..]),
        (Auto, none, &[Cuda(0)], &[Auto]),
        (Auto, none, both, both),
        (Cpu, none, both, &[Cpu]),
        (Cuda(1), none, both, &[Cuda(1)]),
        (Cpu, both, none, both),
        (Auto, &[Cpu, Cpu], both, &[Cpu, Cpu]),
    ] {
        let mut runtime = Settings::default().runtime;
        (runtime.device, runtime.devices) = (device, devices.to_vec());
        assert_eq!(
            runtime.job_devices(gpus.to_vec()),
            expected,
            "{device} {devices:?}"
        );
    }
}

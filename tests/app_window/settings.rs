//! The settings page and its file: each key has a control, changes of either act at once, and nothing is lost.

use safelight_core::settings::{Settings, ThemeChoice, default_file, table};

use crate::app_window::prelude::*;

fn with_file(text: &str) -> (Bench, PathBuf) {
    let mut bench = Bench::new();
    let file = bench.home.path().join("config/settings.toml");
    fs::create_dir_all(bench.home.path().join("config")).expect("a folder");
    write(&file, text);
    bench.press("Settings");
    (bench, file)
}

/// As editors do it: another file, renamed.
fn write(file: &Path, text: &str) {
    let other = file.with_extension("new");
    fs::write(&other, text).expect("a file");
    fs::rename(other, file).expect("it is renamed");
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

fn searched(words: &str) -> Bench {
    let mut bench = Bench::new();
    bench.press("Settings");
    bench.panels().settings.search = words.to_owned();
    bench.settle();
    bench
}

#[test]
fn every_key_of_the_settings_file_has_a_row_with_a_control_of_its_name() {
    let mut bench = Bench::new();
    bench.press("Settings");
    let file: toml::Table = default_file().parse().unwrap();
    for (section, table) in &file {
        for key in table.as_table().unwrap().keys() {
            let key = format!("{section}.{key}");
            let row = table::settings().find(|row| row.key == key);
            let row = row.unwrap_or_else(|| panic!("{key} has no row"));
            assert!(!row.explanation.is_empty(), "{key}");
            let written = [Role::TextInput, Role::ComboBox, Role::SpinButton];
            let pressed = [Role::CheckBox, Role::Slider, Role::Button];
            let is_there = written.into_iter().chain(pressed).any(|role| {
                let mut found = bench.harness.query_all_by_role(role);
                let own = [row.name.to_owned(), format!("Add: {}", row.name)];
                found.any(|node| {
                    let name = node.accesskit_node().label().unwrap_or_default();
                    own.contains(&name) || name.starts_with(&format!("{}:", row.name))
                })
            });
            assert!(is_there, "{key} has no control called {}", row.name);
        }
    }
}

#[test]
fn a_change_acts_at_once_and_is_in_the_file_a_moment_later_with_the_comments() {
    let (mut bench, file) = with_file("# mine\n[output]\nsidecar = false # never\n");
    bench.click(Role::CheckBox, "Settings beside results");
    assert!(bench.app().cx.settings.output.sidecar);
    bench.until("it is saved", |_| read(&file).contains("true"));
    assert_eq!(read(&file), "# mine\n[output]\nsidecar = true # never\n");
    bench.press("Reset: Settings beside results");
    assert!(!bench.app().cx.settings.output.sidecar);
    bench.until("it is saved", |_| read(&file).contains("false"));
}

#[test]
fn edited_settings_file_applies_immediately_with_one_quiet_message() {
    let (mut bench, file) = with_file("[interface]\ntheme = 'dark'\n");
    write(&file, "[interface]\ntheme = 'light'\n");
    let interface = |bench: &mut Bench| bench.app().cx.settings.interface.clone();
    bench.until("it acts", |bench| {
        interface(bench).theme == ThemeChoice::Light
    });
    assert_eq!(bench.harness.ctx.theme(), egui::Theme::Light);
    bench.assert_shows("Taken from the settings file: interface.theme");
    assert!(!bench.has_cards());
    let edit = "[interface]\nscale = 2.0\n[models]\nfolders = ['/models']\n[future]\na = 1\n";
    write(&file, edit);
    bench.until("it acts", |bench| interface(bench).scale == 2.0);
    assert_eq!(bench.harness.ctx.zoom_factor(), 2.0);
    let told = "the settings have an unknown section 'future'";
    assert_eq!(bench.told(), [told]);
    assert_eq!(read(&file).lines().count(), 6, "nothing was written");
    // The card goes when the key goes; it would leave by itself otherwise.
    let card = bench.harness.get_by_label_contains("'future'").rect();
    bench.harness.hover_at(card.center());
    write(&file, "[interface]\nscale = 1.0\n");
    bench.until_no_card();
}

#[test]
fn broken_settings_edit_keeps_values_and_changes_until_fixed_or_deleted() {
    for mended in [Some("[interface]\nscale = 1.25\n# mended\n"), None] {
        let (mut bench, file) = with_file("[interface]\nscale = 1.5\n");
        let scale = |bench: &mut Bench| bench.app().cx.settings.interface.scale;
        bench.until("it acts", |bench| scale(bench) == 1.5);
        let broken = "[interface]\nscale = 1.5\ntheme = purple\n";
        write(&file, broken);
        bench.until_card();
        bench.assert_shows("Line 3, column 9 of the settings");
        assert_eq!(scale(&mut bench), 1.5);
        let check = bench.node(Role::CheckBox, "Settings beside results");
        check.click_accesskit();
        bench.harness.run_steps(20);
        assert!(bench.app().cx.settings.output.sidecar, "it counts");
        assert_eq!(read(&file), broken, "what is being edited stays");
        match mended {
            Some(text) => write(&file, text),
            None => fs::remove_file(&file).unwrap(),
        }
        bench.until_no_card();
        let is_saved = |_: &mut Bench| read(&file).contains("sidecar = true");
        bench.until("the change is saved", is_saved);
        if mended.is_some() {
            assert!(read(&file).contains("# mended"));
            assert_eq!(scale(&mut bench), 1.25);
        }
    }
}

#[test]
fn a_folder_counts_when_its_field_is_left_and_images_go_to_their_own() {
    let mut bench = Bench::of(flux_spec());
    bench.press("Settings");
    let folder = bench.home.path().join("art");
    let text = folder.display().to_string();
    bench.focus_and_type(Role::TextInput, "Folder for images", &text);
    let set = |bench: &mut Bench| bench.app().cx.settings.output.images_folder.clone();
    assert_eq!(set(&mut bench), None, "it is being typed");
    bench.press_key(Key::Enter);
    assert_eq!(set(&mut bench), Some(folder.clone()));
    bench.form().prompt = "a boat".into();
    let out = bench.request().out;
    assert_eq!(out.parent(), Some(folder.as_path()));
}

#[test]
fn the_search_finds_a_setting_by_any_of_its_words_and_hides_the_others() {
    let mut bench = searched("miopen LOG");
    let shown = |bench: &Bench, name| bench.harness.query_all_by_label(name).count();
    assert_eq!(shown(&bench, "MIOpen's log"), 2);
    assert_eq!(shown(&bench, "Look"), 0);
    bench.panels().settings.search = "zzz".into();
    bench.settle();
    bench.assert_shows("No matches for");
}

#[test]
fn a_variable_of_the_engine_is_added_and_taken_away() {
    let mut bench = Bench::new();
    bench.press("Settings");
    bench.scroll_to("Engine's variables: new");
    bench.type_into("Engine's variables: new", "MIOPEN_FIND_MODE=1");
    bench.press_key(Key::Enter);
    let environment = &bench.app().cx.settings.runtime.environment;
    assert_eq!(environment["MIOPEN_FIND_MODE"], "1");
    bench.scroll_to("Remove: MIOPEN_FIND_MODE");
    bench.press("Remove: MIOPEN_FIND_MODE");
    assert_eq!(bench.app().cx.settings, Settings::default());
}

#[test]
fn last_setting_change_is_saved_when_the_window_closes() {
    let mut bench = Bench::new();
    let file = bench.home.path().join("config/settings.toml");
    bench.press("Light theme");
    let home = bench.home;
    eframe_exit(bench.harness);
    assert!(read(&file).contains("theme = \"light\""));
    drop(home);
}

/// As the window library ends it.
fn eframe_exit(mut harness: egui_kittest::Harness<'static, safelight::window::AppWindow>) {
    eframe::App::on_exit(harness.state_mut());
}

#[test]
fn mirror_address_is_accepted_only_with_https() {
    let mut bench = searched("mirror");
    let write = |bench: &mut Bench, text: &str| {
        bench.focus_and_type(Role::TextInput, "Mirror for libtorch", text);
        bench.press_key(Key::Tab);
    };
    write(&mut bench, "http://mirror.example");
    bench.assert_shows("An address begins with https://");
    assert_eq!(bench.app().cx.settings.runtime.mirror, None);
    let mut bench = searched("mirror");
    write(&mut bench, "https://mirror.example/simple");
    let mirror = bench.app().cx.settings.runtime.mirror.clone();
    assert_eq!(mirror.as_deref(), Some("https://mirror.example/simple"));
    bench.assert_hides("An address begins with https://");
}

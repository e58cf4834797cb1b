//! The table against the settings themselves, and the documentation against the table.

use super::super::OutputSettings;
use super::*;

#[test]
fn every_choice_can_be_read_and_its_default_is_among_them() {
    let defaults = Settings::default();
    for setting in settings() {
        let SettingControl::Choice(choices) = setting.control else {
            continue;
        };
        let own = &defaults.values()[setting.key];
        let is_there = choices
            .iter()
            .any(|(value, _)| own.as_str() == Some(*value));
        assert!(is_there, "{}", setting.key);
        for (value, _) in choices {
            let changed = defaults.with_value(setting.key, Some(Value::from(*value)));
            let read = &changed.values()[setting.key];
            assert_eq!(read.as_str(), Some(*value), "{}", setting.key);
        }
    }
    let formats = OutputSettings::FORMATS;
    let known = settings().find(|setting| setting.key == "output.format");
    let Some(SettingControl::Choice(choices)) = known.map(|setting| setting.control) else {
        panic!("the format is chosen");
    };
    assert!(choices.iter().map(|(value, _)| value).eq(formats));
}

// Of a build that has all formats.
#[cfg(feature = "h264")]
#[test]
fn settings_documentation_matches_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let expected = documentation();
    if text != expected {
        std::fs::write(path, &expected).unwrap();
    }
    assert_eq!(text, expected, "docs/settings.md is written anew");
}

//! The checks on which ways of computing were measured to be the fastest, with their figures.
//!
//! Reads what the worker keeps, and says nothing where nothing was measured. Of convolutions `counters` tells.

use safelight_core::memory::choices::{StoredChoice, halves, stored};
use safelight_core::settings::Paths;

use super::Check;

const NAME: &str = "choices";

pub(super) fn all(paths: &Paths) -> Vec<Check> {
    let mut told = stored(paths);
    told.retain(|it| it.choice != "convolutions");
    let mut checks: Vec<Check> = told.iter().map(check).collect();
    let halves = halves(&told).into_iter();
    checks.extend(halves.map(|line| Check::ok(NAME, line)));
    checks
}

fn check(told: &StoredChoice) -> Check {
    Check::ok(NAME, format!("{}: {}", told.device, told.line()))
}

#[cfg(test)]
mod tests {
    use safelight_core::memory::choices::{
        Alternative, Choice, ChoiceFile, ChoiceKey, Choices, Measured,
    };
    use safelight_core::memory::tiers::TierEnd;

    use super::*;

    #[test]
    fn each_choice_is_told_with_its_figures_and_what_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::under(folder.path());
        assert_eq!(all(&paths), []);
        let mut file = ChoiceFile::default();
        file.put(Measured {
            key: ChoiceKey {
                choice: Choice::Copies,
                device: "Radeon 8060S".to_owned(),
                driver: "6.18.4".to_owned(),
                libtorch: "2.11.0".to_owned(),
                dtype: String::new(),
                shape: "weights from the page cache".to_owned(),
            },
            since_secs: 0,
            alternatives: vec![Alternative {
                choices: Choices::default(),
                end: TierEnd::Right {
                    secs: 0.0125,
                    error: 0.0,
                },
            }],
        });
        file.save(&paths.choices_file()).unwrap();
        let checks = all(&paths);
        let text = "ok    choices       Radeon 8060S: Copies to the device (weights from the page cache): by the driver 12.5 ms -> by the driver\n";
        assert_eq!(checks[0].text(), text);
    }
}

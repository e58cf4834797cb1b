//! The choices that were measured on this machine and are remembered: the one place where a report takes them from.
//!
//! Measures nothing and chooses nothing.

use safelight_core::memory::choices::StoredChoice;
use safelight_core::settings::Paths;
use serde::{Deserialize, Serialize};

/// What was chosen among alternatives, with what each was found to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Choice {
    /// What is chosen.
    pub about: String,
    /// What it holds for.
    pub for_what: String,
    pub chosen: String,
    pub found: Vec<String>,
}

/// Everything that is remembered of this machine's devices.
pub fn stored(paths: &Paths) -> Vec<Choice> {
    let stored = safelight_core::memory::choices::stored(paths);
    stored.into_iter().map(Choice::of).collect()
}

impl Choice {
    fn of(stored: StoredChoice) -> Self {
        let StoredChoice {
            device,
            dtype,
            shape,
            libtorch,
            driver,
            ..
        } = stored;
        let found = stored.figures.iter().map(|figure| {
            let end = match (figure.secs, &figure.problem, figure.error) {
                (Some(secs), _, Some(error)) => format!("{:.2} ms, {error:.1e} off", secs * 1e3),
                (_, problem, _) => problem.clone().unwrap_or_default(),
            };
            format!("{}: {end}", figure.way)
        });
        let sizes = [dtype, shape].join(" ");
        Self {
            about: stored.label.to_owned(),
            for_what: format!(
                "{device}, {}, libtorch {libtorch}, driver {driver}",
                sizes.trim()
            ),
            chosen: stored.chosen,
            found: found.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use safelight_core::memory::tiers::{
        ConvolutionTier, MiopenWay, ShapeClass, TierEnd, TierFile, TierKey, TierRecord, Verdict,
    };

    use super::*;

    #[test]
    fn what_a_probe_found_is_listed_with_its_figures() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::under(root.path());
        assert!(stored(&paths).is_empty());
        let key = TierKey {
            device: "AMD gfx1151".to_owned(),
            driver: "6.18.4".to_owned(),
            libtorch: "2.11.0".to_owned(),
            dtype: "bf16".to_owned(),
            shape: ShapeClass::Small,
            convolutions: Default::default(),
        };
        let record = |tier, probe| TierRecord::probed(tier, MiopenWay::Quick, probe);
        let right = TierEnd::Right {
            secs: 0.0123,
            error: 2e-3,
        };
        let hung = TierEnd::TimedOut { secs: 60.0 };
        let records = vec![
            record(ConvolutionTier::Direct, hung),
            record(ConvolutionTier::Frames, right),
        ];
        let mut file = TierFile::default();
        file.put(Verdict::of_probe(key, records, 0));
        std::fs::create_dir_all(&paths.cache).unwrap();
        file.save(&paths.tiers_file()).unwrap();
        let choices = stored(&paths);
        assert_eq!(choices.len(), 1);
        assert!(
            choices[0].chosen.starts_with("frame by frame"),
            "{choices:?}"
        );
        assert!(choices[0].for_what.contains("gfx1151"));
        assert!(choices[0].found[0].contains("hung for 60 s"), "{choices:?}");
        assert!(choices[0].found[1].contains("12.30 ms"), "{choices:?}");
    }
}

//! What the memory graph shows of one job: samples on one time axis, and the stages as bands.
//!
//! The axis is the engine's own clock, so a burst of late messages does not bend the graph; a
//! restarted engine begins at zero again and is put behind the old one.

mod exporting;
pub mod planning;

use safelight_core::job::{MemorySample, Reclaim, Stage};

/// More than this and every second sample goes.
const MAX_SAMPLES: usize = 1200;

/// One stage's place on the time axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    pub stage: Stage,
    pub from_secs: f64,
    /// Open while the stage runs.
    pub to_secs: Option<f64>,
}

/// Memory given back, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    pub at_secs: f64,
    pub reclaim: Reclaim,
}

/// The samples, bands and marks of one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryHistory {
    samples: Vec<MemorySample>,
    bands: Vec<Band>,
    marks: Vec<Mark>,
    /// The engine's clock at the first sample, less what earlier engines lived.
    origin_secs: f64,
    last_engine_secs: f64,
    /// What the plan said that the allocator would count at most.
    predicted_bytes: Option<u64>,
}

impl MemoryHistory {
    /// The samples, with times since the job's first.
    pub fn samples(&self) -> &[MemorySample] {
        &self.samples
    }

    pub fn bands(&self) -> &[Band] {
        &self.bands
    }

    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    pub fn last(&self) -> Option<&MemorySample> {
        self.samples.last()
    }

    /// What the plan said of the highest peak.
    pub fn predicted_bytes(&self) -> Option<u64> {
        self.predicted_bytes
    }

    pub fn predict(&mut self, peak_bytes: u64) {
        self.predicted_bytes = Some(peak_bytes);
    }

    /// The end of the time axis.
    pub fn end_secs(&self) -> f64 {
        self.last().map_or(0.0, |sample| sample.at_secs)
    }

    pub fn push(&mut self, sample: MemorySample) {
        if !sample.at_secs.is_finite() {
            return;
        }
        if self.samples.is_empty() {
            self.origin_secs = sample.at_secs;
        } else if sample.at_secs < self.last_engine_secs {
            self.origin_secs = sample.at_secs - self.end_secs();
        }
        self.last_engine_secs = sample.at_secs;
        let at_secs = sample.at_secs - self.origin_secs;
        self.samples.push(MemorySample { at_secs, ..sample });
        if self.samples.len() > MAX_SAMPLES {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
    }

    pub fn begin(&mut self, stage: Stage) {
        self.end();
        self.bands.push(Band {
            stage,
            from_secs: self.end_secs(),
            to_secs: None,
        });
    }

    pub fn reclaimed(&mut self, reclaim: Reclaim) {
        let at_secs = self.end_secs();
        self.marks.push(Mark { at_secs, reclaim });
    }

    pub fn end(&mut self) {
        let now = self.end_secs();
        if let Some(band) = self.bands.last_mut()
            && band.to_secs.is_none()
        {
            band.to_secs = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at_secs: f64) -> MemorySample {
        MemorySample {
            at_secs,
            ..Default::default()
        }
    }

    #[test]
    fn a_restarted_engine_goes_on_behind_the_old_one() {
        let mut history = MemoryHistory::default();
        for secs in [100.0, 101.0, 102.0, 0.5, 1.5] {
            history.push(at(secs));
        }
        let times: Vec<f64> = history
            .samples()
            .iter()
            .map(|sample| sample.at_secs)
            .collect();
        assert_eq!(times, [0.0, 1.0, 2.0, 2.0, 3.0]);
    }

    #[test]
    fn stages_are_bands_that_follow_each_other() {
        let mut history = MemoryHistory::default();
        history.begin(Stage::EncodeText);
        history.push(at(10.0));
        history.push(at(12.0));
        history.begin(Stage::Denoise);
        history.push(at(15.0));
        history.end();
        history.end();
        assert_eq!(
            history.bands(),
            [
                Band {
                    stage: Stage::EncodeText,
                    from_secs: 0.0,
                    to_secs: Some(2.0)
                },
                Band {
                    stage: Stage::Denoise,
                    from_secs: 2.0,
                    to_secs: Some(5.0)
                },
            ]
        );
    }

    #[test]
    fn a_long_job_keeps_a_bounded_history_of_its_whole_length() {
        let mut history = MemoryHistory::default();
        for index in 0..10_000 {
            history.push(at(f64::from(index)));
        }
        assert!(history.samples().len() <= MAX_SAMPLES);
        assert_eq!(history.samples()[0].at_secs, 0.0);
        assert!(history.end_secs() > 9_000.0);
    }
}

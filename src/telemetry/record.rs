//! Record of one job in a file: samples, stages and reclaimed memory between them.
//!
//! Stored as JSON in a folder of records, of which the newest are kept; exported as CSV on request.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use safelight_core::files::{read_bounded, write_atomically, write_json};
use safelight_core::job::{JobId, Stage};
use safelight_core::job_update::{MemoryReclaim, MemorySample};
use serde::{Deserialize, Serialize};

/// An hour at ten a second; beyond it every second sample goes, so that the whole job stays.
const MAX_SAMPLES: usize = 36_000;
/// Stages of one job, and what it gave back: a job of days that has one in ten seconds. Later ones are not kept.
const MAX_STAGES: usize = 20_000;
/// A sample has up to 450 bytes, a stage and what was given back up to 200 together.
const MAX_RECORD_BYTES: u64 = 24 << 20;
/// So many jobs' records are kept.
const MAX_RECORDS: usize = 100;

const COLUMNS: [&str; 18] = [
    "job",
    "seconds",
    "event",
    "stage",
    "used_bytes",
    "allocated_bytes",
    "reserved_bytes",
    "total_bytes",
    "vram_used_bytes",
    "gtt_used_bytes",
    "host_available_bytes",
    "page_cache_bytes",
    "temperature_celsius",
    "power_watts",
    "busy_percent",
    "boundary",
    "before_bytes",
    "after_bytes",
];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedStage {
    pub stage: Stage,
    pub from_secs: f64,
    pub to_secs: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedReclaim {
    pub at_secs: f64,
    #[serde(flatten)]
    pub reclaim: MemoryReclaim,
}

/// One job's telemetry. Times are seconds since the job began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TelemetryRecord {
    pub job: JobId,
    pub model: String,
    /// The engine's line on its device; empty when none started.
    pub device: String,
    pub samples: Vec<MemorySample>,
    /// In the order of time.
    pub stages: Vec<RecordedStage>,
    pub reclaims: Vec<RecordedReclaim>,
}

impl TelemetryRecord {
    /// With room for all samples, so that taking one allocates nothing.
    pub fn new(job: JobId, model: String) -> Self {
        Self {
            job,
            model,
            device: String::new(),
            samples: Vec::with_capacity(MAX_SAMPLES),
            stages: Vec::new(),
            reclaims: Vec::new(),
        }
    }

    pub fn push(&mut self, sample: MemorySample) {
        if self.samples.len() == MAX_SAMPLES {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        self.samples.push(sample);
    }

    /// A stage begins; the one before ends.
    pub fn begin(&mut self, stage: Stage, at_secs: f64) {
        self.end(at_secs);
        if self.stages.len() < MAX_STAGES {
            self.stages.push(RecordedStage {
                stage,
                from_secs: at_secs,
                to_secs: None,
            });
        }
    }

    pub fn end(&mut self, at_secs: f64) {
        if let Some(stage) = self.stages.last_mut() {
            stage.to_secs.get_or_insert(at_secs);
        }
    }

    pub fn reclaimed(&mut self, reclaim: MemoryReclaim, at_secs: f64) {
        if self.reclaims.len() < MAX_STAGES {
            self.reclaims.push(RecordedReclaim { at_secs, reclaim });
        }
    }

    /// Rows in the order of time: samples, beginnings and ends of stages, and what was given back.
    pub fn to_csv(&self) -> String {
        let mut rows: Vec<(f64, String)> = Vec::new();
        let job = self.job;
        for sample in &self.samples {
            rows.push((sample.at_secs, self.sample_row(sample)));
        }
        for stage in &self.stages {
            let name = stage.stage.name();
            let row = |at: f64, event: &str| format!("{job},{at:.3},{event},{name},,,,,,,,,,,,,,");
            rows.push((stage.from_secs, row(stage.from_secs, "stage-begin")));
            if let Some(to) = stage.to_secs {
                rows.push((to, row(to, "stage-end")));
            }
        }
        for RecordedReclaim { at_secs, reclaim } in &self.reclaims {
            let (before_bytes, after_bytes) = (reclaim.before_bytes, reclaim.after_bytes);
            let stage = self.stage_at(*at_secs);
            // A boundary is one of a few names of ours; commas cannot be in it.
            let boundary = reclaim.boundary.replace([',', '\n', '"'], " ");
            let row = format!(
                "{job},{at_secs:.3},reclaim,{stage},,,,,,,,,,,,{boundary},{before_bytes},{after_bytes}"
            );
            rows.push((*at_secs, row));
        }
        rows.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let mut text = String::new();
        for (_, row) in rows {
            text.push_str(&row);
            text.push('\n');
        }
        text
    }

    /// The line above the rows of [`Self::to_csv`].
    pub fn csv_header() -> String {
        format!("{}\n", COLUMNS.join(","))
    }

    fn sample_row(&self, sample: &MemorySample) -> String {
        let MemorySample {
            at_secs,
            used_bytes,
            allocated_bytes,
            reserved_bytes,
            total_bytes,
            machine,
        } = sample;
        let stage = self.stage_at(*at_secs);
        let mut row = format!(
            "{},{at_secs:.3},sample,{stage},{used_bytes},{allocated_bytes},{reserved_bytes},{total_bytes}",
            self.job
        );
        let bytes = [
            machine.vram_used_bytes,
            machine.gtt_used_bytes,
            machine.host_available_bytes,
            machine.page_cache_bytes,
        ];
        // Writing to a string cannot fail.
        for bytes in bytes {
            row.push(',');
            if let Some(bytes) = bytes {
                write!(row, "{bytes}").unwrap_or(());
            }
        }
        let figures = [
            machine.temperature_celsius,
            machine.power_watts,
            machine.busy_percent,
        ];
        for figure in figures {
            row.push(',');
            if let Some(figure) = figure {
                write!(row, "{figure:.1}").unwrap_or(());
            }
        }
        row.push_str(",,,");
        row
    }

    fn stage_at(&self, at_secs: f64) -> &'static str {
        let stages = &self.stages;
        let num_begun = stages.partition_point(|stage| stage.from_secs <= at_secs);
        stages[..num_begun]
            .last()
            .filter(|stage| stage.to_secs.is_none_or(|to| at_secs <= to))
            .map_or("", |stage| stage.stage.name())
    }

    /// Writes it into the folder of records and removes the oldest ones there.
    pub fn save(&self, folder: &Path) -> io::Result<PathBuf> {
        let path = path_of(folder, self.job);
        write_json(&path, self)?;
        forget_old(folder);
        Ok(path)
    }

    /// Record of a job.
    pub fn load(folder: &Path, job: JobId) -> io::Result<Self> {
        let text = read_bounded(&path_of(folder, job), MAX_RECORD_BYTES)?;
        let mut record: Self = serde_json::from_slice(&text).map_err(io::Error::other)?;
        let is_of_a_job = record.samples.len() <= MAX_SAMPLES
            && record.stages.len().max(record.reclaims.len()) <= MAX_STAGES;
        if !is_of_a_job {
            return Err(io::Error::other(
                "this record has more entries than any job",
            ));
        }
        // They are searched by their times, and a file may have been changed.
        let stages = &mut record.stages;
        stages.sort_by(|a, b| a.from_secs.total_cmp(&b.from_secs));
        Ok(record)
    }

    /// Exports it: JSON to a `.json` file, CSV to any other.
    pub fn export(&self, path: &Path) -> io::Result<()> {
        write_all(path, std::slice::from_ref(self))
    }
}

/// Writes the records of several jobs into one file: as an object or a list in a `.json` file, else as one table.
pub fn write_all(path: &Path, records: &[TelemetryRecord]) -> io::Result<()> {
    let is_json = path.extension().is_some_and(|ending| ending == "json");
    if !is_json {
        let rows: String = records.iter().map(TelemetryRecord::to_csv).collect();
        let table = format!("{}{rows}", TelemetryRecord::csv_header());
        return write_atomically(path, table.as_bytes());
    }
    let text = match records {
        [record] => serde_json::to_vec_pretty(record),
        records => serde_json::to_vec_pretty(records),
    };
    write_atomically(path, &text?)
}

fn path_of(folder: &Path, job: JobId) -> PathBuf {
    folder.join(format!("{job}.json"))
}

/// Only files of our own shape go: a job's number, and later jobs have larger ones.
fn forget_old(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut jobs: Vec<u64> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.strip_suffix(".json")?.parse().ok()
        })
        .collect();
    jobs.sort_unstable();
    let num_old = jobs.len().saturating_sub(MAX_RECORDS);
    for job in &jobs[..num_old] {
        // One that stays is removed another time.
        fs::remove_file(path_of(folder, JobId(*job))).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use safelight_core::job_update::MachineSample;

    use super::*;

    fn record() -> TelemetryRecord {
        let mut record = TelemetryRecord::new(JobId(7), "a model".to_owned());
        record.begin(Stage::EncodeText, 0.05);
        record.push(MemorySample {
            at_secs: 0.1,
            used_bytes: 5,
            allocated_bytes: 3,
            reserved_bytes: 4,
            total_bytes: 9,
            machine: MachineSample {
                gtt_used_bytes: Some(2),
                temperature_celsius: Some(61.25),
                ..MachineSample::default()
            },
        });
        record.begin(Stage::Denoise, 0.2);
        let reclaim = MemoryReclaim {
            boundary: "post-text-encoding".to_owned(),
            before_bytes: 4,
            after_bytes: 0,
        };
        record.reclaimed(reclaim, 0.21);
        record.end(0.5);
        record
    }

    #[test]
    fn a_record_is_a_table_in_the_order_of_time_with_as_many_cells_in_each_row() {
        let text = format!("{}{}", TelemetryRecord::csv_header(), record().to_csv());
        let rows: Vec<&str> = text.lines().collect();
        let is_whole = |row: &&str| row.split(',').count() == COLUMNS.len();
        assert!(rows.iter().all(is_whole), "{text}");
        assert_eq!(rows[1], "7,0.050,stage-begin,encode_text,,,,,,,,,,,,,,");
        assert_eq!(rows[2], "7,0.100,sample,encode_text,5,3,4,9,,2,,,61.2,,,,,");
        let expected = "7,0.210,reclaim,denoise,,,,,,,,,,,,post-text-encoding,4,0";
        assert_eq!(rows[5], expected);
        assert_eq!(rows.len(), 7);
    }

    #[test]
    fn record_is_reloaded_from_its_folder_and_exported_to_csv_and_json() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("records");
        record().save(&at).unwrap();
        let kept = TelemetryRecord::load(&at, JobId(7)).unwrap();
        assert_eq!(kept, record());
        let csv = folder.path().join("a.csv");
        kept.export(&csv).unwrap();
        let text = fs::read_to_string(&csv).unwrap();
        assert!(text.starts_with("job,seconds,event"), "{text}");
        let json = folder.path().join("a.json");
        kept.export(&json).unwrap();
        let text = fs::read_to_string(&json).unwrap();
        let found = serde_json::from_str::<TelemetryRecord>(&text).unwrap();
        assert_eq!(found, kept);
        write_all(&csv, &[record(), record()]).unwrap();
        let text = fs::read_to_string(&csv).unwrap();
        assert_eq!(text.lines().count(), 1 + 2 * 6);
    }

    #[test]
    fn a_record_that_is_no_plain_file_is_an_error_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = path_of(folder.path(), JobId(1));
        let made = Command::new("mkfifo").arg(pipe).status();
        assert!(made.unwrap().success());
        symlink("/dev/zero", path_of(folder.path(), JobId(2))).unwrap();
        for job in [1, 2] {
            let err = TelemetryRecord::load(folder.path(), JobId(job)).unwrap_err();
            assert_eq!(err.to_string(), "this is not a file");
        }
    }

    #[test]
    fn a_record_of_more_than_any_job_measures_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = path_of(folder.path(), JobId(1));
        let load = |[samples, stages, reclaims]: [&str; 3]| {
            let text = format!(
                r#"{{"job":1,"model":"","device":"","samples":[{samples}],"stages":[{stages}],"reclaims":[{reclaims}]}}"#
            );
            fs::write(&path, text).unwrap();
            TelemetryRecord::load(folder.path(), JobId(1))
        };
        let many = |entry: &str, count: usize| vec![entry; count].join(",");
        let sample = r#"{"at_secs":0,"used_bytes":0,"allocated_bytes":0,"reserved_bytes":0,"total_bytes":0}"#;
        let stage = r#"["save",0,null]"#;
        let reclaim = r#"{"at_secs":0,"boundary":"","before_bytes":0,"after_bytes":0}"#;
        let (samples, stages) = (many(sample, MAX_SAMPLES), many(stage, MAX_STAGES));
        let reclaims = many(reclaim, MAX_STAGES);
        let most = load([&samples, &stages, &reclaims]).unwrap();
        assert_eq!(most.samples.len(), MAX_SAMPLES);
        for lists in [
            [&*format!("{samples},{sample}"), "", ""],
            ["", &*format!("{stages},{stage}"), ""],
            ["", "", &*format!("{reclaims},{reclaim}")],
        ] {
            let err = load(lists).unwrap_err().to_string();
            assert!(err.contains("more entries than any job"), "{err}");
        }
        let large = fs::File::create(&path).unwrap();
        large.set_len(MAX_RECORD_BYTES + 1).unwrap();
        let err = TelemetryRecord::load(folder.path(), JobId(1)).unwrap_err();
        assert!(err.to_string().contains("more than"), "{err}");
    }

    #[test]
    fn a_job_of_more_stages_than_are_kept_leaves_a_record_that_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = TelemetryRecord::new(JobId(1), String::new());
        for second in 0..MAX_STAGES as u32 + 5 {
            record.begin(Stage::Denoise, f64::from(second));
            record.reclaimed(MemoryReclaim::default(), f64::from(second));
        }
        record.save(folder.path()).unwrap();
        let kept = TelemetryRecord::load(folder.path(), JobId(1)).unwrap();
        assert_eq!(kept.stages.len(), MAX_STAGES);
        assert_eq!(kept.stages.last().unwrap().to_secs, Some(MAX_STAGES as f64));
        assert_eq!(kept.reclaims.len(), MAX_STAGES);
    }

    #[test]
    fn the_stage_of_a_moment_is_found_in_a_record_whose_stages_are_in_no_order() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"job":1,"model":"","device":"","samples":[],
            "stages":[["save",4,5],["encode_text",0,1],["denoise",1,null]],"reclaims":[]}"#;
        fs::write(path_of(folder.path(), JobId(1)), text).unwrap();
        let record = TelemetryRecord::load(folder.path(), JobId(1)).unwrap();
        let found = [-1.0, 0.5, 1.0, 3.0, 4.0, 6.0].map(|at| record.stage_at(at));
        assert_eq!(found, ["", "encode_text", "denoise", "denoise", "save", ""]);
    }

    #[test]
    fn the_newest_records_stay_and_foreign_files_are_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("mine.json"), "").unwrap();
        for job in 1..=MAX_RECORDS as u64 + 3 {
            let record = TelemetryRecord::new(JobId(job), String::new());
            record.save(folder.path()).unwrap();
        }
        assert!(TelemetryRecord::load(folder.path(), JobId(3)).is_err());
        assert!(TelemetryRecord::load(folder.path(), JobId(4)).is_ok());
        assert!(folder.path().join("mine.json").exists());
    }

    #[test]
    fn a_long_job_keeps_a_bounded_number_of_samples_of_its_whole_length() {
        let mut record = TelemetryRecord::new(JobId(1), String::new());
        let room = record.samples.capacity();
        for index in 0..100_000 {
            record.push(MemorySample {
                at_secs: f64::from(index),
                ..MemorySample::default()
            });
        }
        assert!(record.samples.len() <= MAX_SAMPLES);
        assert_eq!(record.samples.capacity(), room);
        assert_eq!(record.samples[0].at_secs, 0.0);
        assert_eq!(record.samples.last().unwrap().at_secs, 99_999.0);
    }
}

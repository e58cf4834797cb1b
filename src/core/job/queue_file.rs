//! The queue as a file: the jobs that wait, the one that runs, and those that stopped.
//!
//! A job that cannot be read costs itself alone. Whether a job's inputs are still there, and what happens with the
//! jobs, others decide.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{DeviceChoice, GridRecord, JobError, JobId, JobRequest};
use crate::files::{FileError, read_bounded, write_json};

/// Version that is written, and the newest that is read.
const VERSION: u64 = 1;
/// A file beyond this is no queue of anybody's.
const MAX_BYTES: u64 = 256 << 20;

/// State of a job when the file was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueuedState {
    #[default]
    Waiting,
    /// It had begun: whoever reads this finds it unfinished.
    Running,
    Paused,
    Failed,
    Unfinished,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueuedJob {
    pub id: JobId,
    pub state: QueuedState,
    pub device: DeviceChoice,
    pub request: JobRequest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<JobError>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueFile {
    pub jobs: Vec<QueuedJob>,
    /// Jobs with folders that are not offered any more.
    pub forgotten: BTreeSet<JobId>,
    /// The grids of which some jobs are not finished, or the contact sheet is not made.
    pub grids: Vec<GridRecord>,
    /// Reasons why jobs could not be read, a sentence for each.
    pub unread: Vec<String>,
}

impl QueueFile {
    /// Content of the file; an empty queue if it does not exist.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let unreadable =
            |err| FileError::new(format!("the queue's file cannot be read ({err})"), path);
        let broken = |reason: &str| {
            FileError::new(format!("this is not a queue of Safelight ({reason})"), path)
        };
        let text = match read_bounded(path, MAX_BYTES) {
            Ok(text) => text,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(err) if err.kind() == io::ErrorKind::InvalidData => {
                return Err(broken(&err.to_string()));
            }
            Err(err) => return Err(unreadable(err)),
        };
        let mut json: Value =
            serde_json::from_slice(&text).map_err(|err| broken(&err.to_string()))?;
        let version = json.get("version").and_then(Value::as_u64);
        match version {
            None => return Err(broken("it names no version")),
            Some(found) if found > VERSION => {
                let sentence = format!(
                    "this queue is of version {found}, and Safelight reads up to version {VERSION}: install a newer Safelight"
                );
                return Err(FileError::new(sentence, path));
            }
            Some(_) => {}
        }
        let forgotten = json.get_mut("forgotten").map(Value::take);
        let forgotten = forgotten.and_then(|ids| serde_json::from_value(ids).ok());
        let grids = json.get_mut("grids").map(Value::take);
        let Some(Value::Array(jobs)) = json.get_mut("jobs").map(Value::take) else {
            return Err(broken("it has no list of jobs"));
        };
        let mut file = Self {
            forgotten: forgotten.unwrap_or_default(),
            ..Self::default()
        };
        if let Some(Value::Array(grids)) = grids {
            // One that cannot be read costs its sheet, and none of its jobs.
            let read = grids.into_iter().map(serde_json::from_value::<GridRecord>);
            let read = read.inspect(|read| {
                if let Err(err) = read {
                    tracing::warn!("a grid of the queue cannot be read: {err}");
                }
            });
            file.grids.extend(read.flatten());
        }
        let mut known = BTreeSet::new();
        for job in jobs {
            match serde_json::from_value::<QueuedJob>(job) {
                // One job twice would run twice.
                Ok(job) if known.insert(job.id) => file.jobs.push(job),
                Ok(_) => {}
                Err(err) => {
                    tracing::warn!("a job of the queue cannot be read: {err}");
                    file.unread.push(err.to_string());
                }
            }
        }
        Ok(file)
    }

    /// Writes the file as a whole or not at all.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let json = serde_json::json!({
            "version": VERSION,
            "jobs": self.jobs,
            "forgotten": self.forgotten,
            "grids": self.grids,
        });
        write_json(path, &json)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn request() -> Value {
        serde_json::json!({
            "model": "little-world", "family": "wan", "prompt": "a boat", "negative_prompt": "",
            "width": 256, "height": 256, "num_frames": 17, "fps": 8.0, "num_steps": 12,
            "guidance_scale": 4.0, "sampler": "unipc", "seed": 7,
        })
    }

    fn waiting(id: u64, request: &Value) -> Value {
        serde_json::json!({
            "id": id, "state": "waiting", "device": "auto", "request": request,
        })
    }

    fn load(text: &str) -> Result<QueueFile, FileError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue.json");
        fs::write(&path, text).unwrap();
        QueueFile::load(&path)
    }

    #[test]
    fn a_queue_comes_back_as_it_was_written_and_none_is_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/queue.json");
        assert_eq!(QueueFile::load(&path).unwrap(), QueueFile::default());
        let job = |id: u64, state| QueuedJob {
            id: JobId(id),
            state,
            device: DeviceChoice::Cuda(1),
            request: serde_json::from_value(request()).unwrap(),
            error: None,
        };
        let file = QueueFile {
            jobs: vec![
                job(3, QueuedState::Running),
                job(1, QueuedState::Waiting),
                job(2, QueuedState::Failed),
            ],
            forgotten: [JobId(9)].into(),
            grids: Vec::new(),
            unread: Vec::new(),
        };
        file.save(&path).unwrap();
        assert_eq!(QueueFile::load(&path).unwrap(), file);
    }

    #[test]
    fn a_job_that_cannot_be_read_costs_itself_alone_and_one_job_is_never_there_twice() {
        let mut dreaming = waiting(3, &request());
        dreaming["state"] = "dreaming".into();
        let text = serde_json::json!({
            "version": 1,
            "jobs": [
                waiting(1, &request()),
                waiting(2, &serde_json::json!({"model": 5})),
                waiting(1, &request()),
                dreaming,
            ],
        });
        let file = load(&text.to_string()).unwrap();
        assert_eq!((file.jobs.len(), file.unread.len()), (1, 2));
        assert!(file.forgotten.is_empty());
    }

    #[test]
    fn a_job_of_an_unknown_family_is_named_and_the_others_stay() {
        let mut foreign = request();
        foreign["family"] = "sora".into();
        let text = serde_json::json!({
            "version": 1,
            "jobs": [waiting(1, &foreign), waiting(2, &request())],
        });
        let file = load(&text.to_string()).unwrap();
        assert_eq!(file.jobs.len(), 1);
        let said = &file.unread[0];
        assert!(said.contains("'sora' is not a family"), "{said}");
    }

    #[test]
    fn broken_and_newer_queue_files_return_different_errors() {
        for text in [
            "",
            r#"{"version": 1, "jobs": ["#,
            "[1]",
            r#"{"version": 1}"#,
            "{}",
        ] {
            let err = load(text).unwrap_err().to_string();
            assert!(err.contains("not a queue of Safelight"), "{text}: {err}");
        }
        let newer = load("{\"version\": 2, \"jobs\": []}").unwrap_err();
        assert!(newer.to_string().contains("of version 2"), "{newer}");
    }
}

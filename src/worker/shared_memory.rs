//! Main memory that the workers of this program share, with GPUs that have no memory of their own.
//!
//! A job reserves its planned peak before it loads anything. What is reserved and not taken yet is not free for the plans
//! of other jobs, and a job that would fit without them waits for their end. Engines of other workers are not other
//! programs: no job gives memory up for them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shares of all workers of a program.
#[derive(Clone, Default)]
pub struct SharedMemory(Arc<Mutex<Vec<MemoryShare>>>);

#[derive(Clone, Copy, Default)]
struct MemoryShare {
    /// Process id of the last engine.
    engine: Option<u32>,
    /// Of the running job, in bytes.
    reserved: u64,
    held: u64,
}

/// Memory of the other workers' jobs, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OtherJobs {
    pub(super) reserved: u64,
    /// Part of it that no engine holds yet.
    pub(super) expected: u64,
}

/// Share of one worker.
pub(super) struct WorkerMemory {
    all: SharedMemory,
    index: usize,
}

impl SharedMemory {
    pub(super) fn join(&self) -> WorkerMemory {
        let mut shares = self.lock();
        shares.push(MemoryShare::default());
        WorkerMemory {
            all: self.clone(),
            index: shares.len() - 1,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<MemoryShare>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkerMemory {
    /// Process ids of all workers' engines.
    pub(super) fn engines(&self) -> Vec<u32> {
        let shares = self.all.lock();
        shares.iter().filter_map(|share| share.engine).collect()
    }

    /// Sets the engine that runs, and the bytes that it holds.
    pub(super) fn hold(&self, engine: Option<u32>, held: u64) {
        let share = &mut self.all.lock()[self.index];
        (share.engine, share.held) = (engine.or(share.engine), held);
    }

    /// Reserves the bytes that `plan` gives with its result; nothing, where it gives none. No other job plans meanwhile.
    pub(super) fn reserve<T>(&self, plan: impl FnOnce(OtherJobs) -> Option<(u64, T)>) -> Option<T> {
        let mut shares = self.all.lock();
        let mut others = OtherJobs::default();
        for (index, share) in shares.iter().enumerate() {
            if index != self.index {
                others.reserved += share.reserved;
                others.expected += share.reserved.saturating_sub(share.held);
            }
        }
        let (bytes, made) = plan(others)?;
        shares[self.index].reserved = bytes;
        Some(made)
    }

    /// Ends the job's reservation.
    pub(super) fn release(&self) {
        self.all.lock()[self.index].reserved = 0;
    }
}

impl Drop for WorkerMemory {
    fn drop(&mut self) {
        self.all.lock()[self.index] = MemoryShare::default();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::thread;

    use crossbeam_channel::bounded;
    use safelight_core::job::{CancelToken, DeviceChoice, GenerateRequest, JobId, JobRequest};
    use safelight_core::job_update::JobUpdate;
    use safelight_core::model::ModelFiles;
    use safelight_core::protocol::{EngineReport, PROTOCOL_VERSION};

    use super::*;
    use crate::worker::events::WorkerEvents;
    use crate::worker::plan::JobPlan;
    use crate::worker::testing;

    #[test]
    fn a_job_sees_what_others_reserved_and_do_not_hold_yet_until_they_end() {
        let all = SharedMemory::default();
        let (first, second) = (all.join(), all.join());
        let others = |of: &WorkerMemory| of.reserve(|others| Some((0, others))).unwrap();
        first.reserve(|_| Some((10, ()))).unwrap();
        first.hold(Some(7), 4);
        let seen = |reserved, expected| OtherJobs { reserved, expected };
        assert_eq!(others(&second), seen(10, 6));
        // A worker's own reservation is none of others.
        assert_eq!(second.reserve(|_| None::<(u64, ())>), None);
        first.hold(None, 12);
        assert_eq!(others(&second), seen(10, 0));
        assert_eq!(second.engines(), [7]);
        first.release();
        assert_eq!(others(&second), seen(0, 0));
        drop(first);
        assert_eq!(second.engines(), [0; 0]);
    }

    #[test]
    fn a_job_waits_for_one_of_another_device_where_both_need_the_same_memory() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wan/pipeline");
        let request = GenerateRequest {
            files: ModelFiles::of_folder(&folder).unwrap(),
            width: 64,
            height: 32,
            num_frames: 5,
            ..testing::request()
        };
        let (request, shared) = (JobRequest::from(request), SharedMemory::default());
        let report = EngineReport {
            protocol: PROTOCOL_VERSION,
            libtorch: String::new(),
            device: DeviceChoice::Cpu,
            device_name: "CPU".to_owned(),
            pci: String::new(),
            total_bytes: 1 << 50,
            used_bytes: 0,
            class: None,
            line: String::new(),
            gpu_problem: None,
            addresses: None,
        };
        let other = shared.join();
        other.reserve(|_| Some((u64::MAX, ()))).unwrap();
        let (sender, updates) = bounded(9);
        let events = WorkerEvents {
            sender,
            wake: Box::new(|| {}),
            gone: CancelToken::default(),
            monitor: None,
            memory: shared.join(),
        };
        thread::scope(|scope| {
            let waiting = scope.spawn(move || {
                let file = folder.join("none.json");
                let plan = JobPlan::new(&request, file);
                let events = events.of(JobId(1), "wan", CancelToken::default());
                plan.settle(&request, &report, None, &events)
                    .unwrap()
                    .is_some()
            });
            let JobUpdate::Waiting(wait) = updates.recv().unwrap().update else {
                panic!("it does not wait");
            };
            assert!(
                wait.to_string()
                    .starts_with("Waiting for memory: other jobs use")
            );
            assert!(!waiting.is_finished());
            other.release();
            assert!(waiting.join().unwrap(), "it is planned");
        });
    }
}

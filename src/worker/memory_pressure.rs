//! Memory pressure from other processes: detection, and the wait before a paused job resumes.
//!
//! A job releases its memory when a pool (host RAM, cgroup or GPU) is nearly exhausted *and* other processes have grown
//! since the job started, or its cgroup limit was lowered. The job's own growth never counts: running out of memory by
//! itself is handled by [`oom_fallback`](super::oom_fallback).

use std::thread;
use std::time::{Duration, Instant};

use safelight_core::job::JobError;
use safelight_core::job_update::{JobUpdate, MemorySample, MemoryWait};
use safelight_core::memory::ResourceFault;

use super::WorkerOptions;
use super::engine::{EngineManager, StageResult};
use super::events::JobEvents;
use crate::telemetry::SystemRoots;
use crate::telemetry::host_pools::{MemoryPool, RoomReader};

/// Interval of reading the kernel's files, which costs a thousandth of a core.
const READ_EVERY: Duration = Duration::from_millis(100);
/// Time with enough memory before the job resumes, doubled after each wait up to [`SETTLE_MOST`].
const SETTLE: Duration = Duration::from_secs(1);
const SETTLE_MOST: Duration = Duration::from_secs(64);
/// Running time after which a job waits [`SETTLE`] again.
const CALM: Duration = Duration::from_mins(2);
/// Interval of progress reports while it waits.
const REPORT_EVERY: Duration = Duration::from_secs(2);
/// Wait of a job on a GPU whose driver does not report its memory.
const BLIND: Duration = Duration::from_secs(30);
/// Percent of the last ten seconds in which every process waited for memory: it is scarce.
const STALLED: f32 = 20.0;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A pool since the job began or last resumed, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct PoolHistory {
    is_device: bool,
    /// Least bytes of others, and largest limit.
    base: Option<(u64, u64)>,
    /// Most bytes of the job.
    own_peak: u64,
    /// Bytes that others have taken beyond the base.
    taken: u64,
    last: MemoryPool,
}

impl PoolHistory {
    /// Available bytes that are scarce, and growth of others that makes them the reason.
    fn thresholds(&self) -> [u64; 2] {
        let limit = self.last.limit_bytes;
        if self.is_device {
            // Memory of the engine outside its allocator grows by less than a GiB.
            [(limit / 50).clamp(256 * MIB, GIB), GIB]
        } else {
            let low = (limit / 20).clamp(128 * MIB, 2 * GIB);
            [low, (limit / 50).clamp(64 * MIB, 512 * MIB)]
        }
    }

    fn see(&mut self, pool: MemoryPool) {
        let (others, limit) = self.base.unwrap_or((u64::MAX, 0));
        let others = others.min(pool.others_most_bytes);
        let limit = limit.max(pool.limit_bytes);
        self.base = Some((others, limit));
        self.own_peak = self.own_peak.max(pool.own_bytes);
        self.taken = pool.others_least_bytes.saturating_sub(others) + (limit - pool.limit_bytes);
        self.last = pool;
    }

    /// Returns whether others are why memory is scarce; `Some(true)` if there is no time to wait for the engine.
    fn is_scarce(&self) -> Option<bool> {
        let (pool, [low, grown]) = (&self.last, self.thresholds());
        let is_low = pool.available_bytes < low || pool.stalled_percent >= STALLED;
        (is_low && self.taken >= grown).then_some(pool.available_bytes < low / 4)
    }

    /// Takes a reading of the pool with this index. Returns the pressure on it, if there is any.
    fn yields(&mut self, pool: usize, reading: MemoryPool) -> Option<MemoryPressure> {
        self.see(reading);
        let is_urgent = self.is_scarce()?;
        Some(MemoryPressure { pool, is_urgent })
    }

    /// Returns whether others have grown by what makes them the reason.
    fn is_crowded(&self) -> bool {
        let [_, grown] = self.thresholds();
        self.base.is_some() && self.taken >= grown
    }

    /// Returns whether the job has room again: for its peak and twice what counts as scarce, or because others freed what
    /// they took, which also lets a job resume that never had room.
    fn has_room(&self) -> bool {
        let (pool, [low, grown]) = (&self.last, self.thresholds());
        let is_free = pool.available_bytes + pool.own_bytes >= self.own_peak + 2 * low;
        self.taken <= grown / 4 || (is_free && pool.stalled_percent < STALLED / 2.0)
    }
}

/// Index of the GPU's memory among the pools; main memory and the process's cgroups follow.
const DEVICE: usize = 0;

/// Memory that other programs need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryPressure {
    /// Index of the pool that is scarce.
    pool: usize,
    /// The engine must be killed at once.
    pub(super) is_urgent: bool,
}

/// Memory of other programs during one job.
pub(super) struct MemoryPressureMonitor {
    reader: RoomReader,
    is_enabled: bool,
    /// At [`DEVICE`] that of the GPU.
    pools: Vec<PoolHistory>,
    last_read: Option<Instant>,
    settle: Duration,
    resumed_at: Option<Instant>,
    num_waits: u32,
}

impl MemoryPressureMonitor {
    pub(super) fn new(roots: &SystemRoots, is_enabled: bool) -> Self {
        Self {
            reader: RoomReader::new(roots),
            is_enabled,
            pools: vec![PoolHistory {
                is_device: true,
                ..PoolHistory::default()
            }],
            last_read: None,
            settle: SETTLE,
            resumed_at: None,
            num_waits: 0,
        }
    }

    pub(super) fn has_waited(&self) -> bool {
        self.num_waits > 0
    }

    /// Reads main memory, if it is time to. `engines`: process ids of this program's engines.
    pub(super) fn look(&mut self, engines: &[u32]) -> Option<MemoryPressure> {
        let is_due = self.last_read.is_none_or(|at| at.elapsed() >= READ_EVERY);
        if !self.is_enabled || !is_due {
            return None;
        }
        self.last_read = Some(Instant::now());
        let pools = self.reader.read(engines);
        self.see(&pools)
    }

    fn see(&mut self, pools: &[Option<MemoryPool>]) -> Option<MemoryPressure> {
        self.pools.resize(pools.len() + 1, PoolHistory::default());
        let pools = self.pools.iter_mut().enumerate().skip(1).zip(pools);
        let scarce = pools.filter_map(|((index, history), pool)| history.yields(index, (*pool)?));
        scarce.max_by_key(|scarce| scarce.is_urgent)
    }

    /// Takes a sample of the engine's GPU.
    pub(super) fn hear(&mut self, sample: &MemorySample) -> Option<MemoryPressure> {
        if !self.is_enabled || sample.total_bytes == 0 {
            return None;
        }
        let (total, used) = (sample.total_bytes, sample.used_bytes);
        let pool = device_pool(total, used, sample.reserved_bytes);
        self.pools[DEVICE].yields(DEVICE, pool)
    }

    /// Returns the pool whose pressure ended a stage. If memory ran out because others took it, the job waits instead of
    /// falling back.
    pub(super) fn is_why(&self, ended: &Result<StageResult, JobError>) -> Option<MemoryPressure> {
        match ended {
            Ok(StageResult::Yielded(scarce)) => Some(*scarce),
            Ok(StageResult::Finished { .. } | StageResult::Cancelled) => None,
            Err(err) => self.blamed(err.fault?),
        }
    }

    fn blamed(&self, fault: ResourceFault) -> Option<MemoryPressure> {
        let mut pools = match fault {
            ResourceFault::HostMemory => DEVICE + 1..self.pools.len(),
            ResourceFault::DeviceMemory | ResourceFault::RuntimeMemory => DEVICE..DEVICE + 1,
            ResourceFault::Device => 0..0,
        };
        let pool = pools.find(|index| self.pools[*index].is_crowded());
        let pool = pool.filter(|_| self.is_enabled)?;
        Some(MemoryPressure {
            pool,
            is_urgent: true,
        })
    }

    /// Returns whether there is room, while the job has no engine. `engines`: those of other jobs. `device_used`: bytes
    /// that all programs use of the GPU, if known.
    fn has_room(
        &mut self,
        pool: usize,
        engines: &[u32],
        device_used: Option<u64>,
        since: Instant,
    ) -> bool {
        let pools = self.reader.read(engines);
        let is_scarce = self.see(&pools).is_some();
        if pool == DEVICE {
            let limit = self.pools[DEVICE].last.limit_bytes;
            let Some(used) = device_used else {
                return since.elapsed() >= BLIND;
            };
            self.pools[DEVICE].see(device_pool(limit, used, 0));
        }
        !is_scarce && self.pools.get(pool).is_none_or(PoolHistory::has_room)
    }

    fn crowded(&self, pool: usize) -> MemoryWait {
        let last = self.pools.get(pool).map(|history| history.last);
        let last = last.unwrap_or_default();
        MemoryWait {
            is_device: pool == DEVICE,
            is_for_jobs: false,
            others_bytes: last.others_least_bytes,
            limit_bytes: last.limit_bytes,
        }
    }

    /// Returns how long room must last before the job resumes.
    fn begin_wait(&mut self) -> Duration {
        if self.resumed_at.is_none_or(|at| at.elapsed() >= CALM) {
            self.settle = SETTLE;
        }
        let settle = self.settle;
        self.settle = (settle * 2).min(SETTLE_MOST);
        self.num_waits += 1;
        settle
    }

    /// Resets the base: what others have now is no reason to yield again.
    fn resume(&mut self) {
        self.resumed_at = Some(Instant::now());
        self.last_read = None;
        for history in &mut self.pools {
            history.base = None;
            history.taken = 0;
        }
    }

    /// Frees all memory and waits for room; `false` when the job is stopped meanwhile.
    pub(super) fn wait_for_room(
        &mut self,
        scarce: MemoryPressure,
        engine: &mut EngineManager,
        events: &JobEvents<'_>,
        options: &WorkerOptions,
    ) -> bool {
        engine.drop_engine();
        let crowded = self.crowded(scarce.pool);
        tracing::info!("{crowded}");
        events.certain(JobUpdate::Waiting(crowded));
        let settle = self.begin_wait();
        let (began, mut reported) = (Instant::now(), Instant::now());
        let mut room_since: Option<Instant> = None;
        while !events.is_cancelled() {
            let is_enabled = (options.settings)().memory.yields && !events.waits_no_more();
            let used = events.device_used_bytes();
            let engines = events.memory().engines();
            let has_room = self.has_room(scarce.pool, &engines, used, began);
            if has_room {
                room_since.get_or_insert_with(Instant::now);
            } else {
                room_since = None;
            }
            if !is_enabled || room_since.is_some_and(|since| since.elapsed() >= settle) {
                tracing::info!("the job continues after {:.0?}", began.elapsed());
                self.is_enabled = is_enabled;
                self.resume();
                return true;
            }
            if reported.elapsed() >= REPORT_EVERY {
                reported = Instant::now();
                let now = self.crowded(scarce.pool);
                events.lossy(JobUpdate::Waiting(now));
            }
            thread::sleep(READ_EVERY);
        }
        false
    }
}

fn device_pool(limit: u64, used: u64, own: u64) -> MemoryPool {
    let others = used.saturating_sub(own);
    MemoryPool {
        limit_bytes: limit,
        available_bytes: limit.saturating_sub(used),
        own_bytes: own,
        others_least_bytes: others,
        others_most_bytes: others,
        stalled_percent: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool of 10 GiB; available, own and others' memory in MiB.
    fn pool(available: u64, own: u64, others: u64) -> MemoryPool {
        MemoryPool {
            limit_bytes: 10 * GIB,
            available_bytes: available * MIB,
            own_bytes: own * MIB,
            others_least_bytes: others * MIB,
            others_most_bytes: others * MIB,
            stalled_percent: 0.0,
        }
    }

    fn monitor() -> MemoryPressureMonitor {
        let root = tempfile::tempdir().unwrap();
        MemoryPressureMonitor::new(&SystemRoots::under(root.path()), true)
    }

    fn after(pools: &[MemoryPool]) -> Option<MemoryPressure> {
        let mut monitor = monitor();
        let seen = pools.iter().map(|pool| monitor.see(&[Some(*pool)]));
        seen.last().unwrap()
    }

    #[test]
    fn a_job_yields_to_another_program_and_never_to_itself() {
        let begin = pool(6000, 1000, 2000);
        let is_urgent = |scarce: Option<MemoryPressure>| scarce.map(|scarce| scarce.is_urgent);
        // Alone, with all that there is.
        assert_eq!(after(&[begin, pool(1, 7000, 2000)]), None);
        assert_eq!(after(&[pool(1, 7000, 2000), pool(0, 7000, 2000)]), None);
        // Others took little, or left enough.
        assert_eq!(after(&[begin, pool(400, 6000, 2100)]), None);
        assert_eq!(after(&[begin, pool(600, 1000, 7000)]), None);
        for (available, urgent) in [(500, false), (100, true)] {
            let scarce = after(&[begin, pool(available, 1000, 7000)]);
            assert_eq!(is_urgent(scarce), Some(urgent));
        }
        // Room on paper, but everyone waits for memory.
        let stalled = MemoryPool {
            stalled_percent: STALLED,
            ..pool(3000, 1000, 5000)
        };
        assert_eq!(is_urgent(after(&[begin, stalled])), Some(false));
        let alone = MemoryPool {
            stalled_percent: 90.0,
            ..pool(300, 7000, 2000)
        };
        assert_eq!(after(&[begin, alone]), None);
        // A limit that is lowered is as much a reason.
        let lowered = MemoryPool {
            limit_bytes: 4 * GIB,
            ..pool(100, 1000, 2000)
        };
        assert!(after(&[begin, lowered]).is_some());
    }

    #[test]
    fn inconsistent_reading_during_an_allocation_reports_no_memory_pressure() {
        let begin = pool(6000, 1000, 2000);
        // The engine took 5000 MiB between two files that were read.
        let between = MemoryPool {
            others_least_bytes: 0,
            others_most_bytes: 7000 * MIB,
            ..pool(200, 6000, 0)
        };
        let mut monitor = monitor();
        for pool in [begin, between, pool(200, 6000, 2000)] {
            assert_eq!(monitor.see(&[Some(pool)]), None);
        }
    }

    #[test]
    fn job_resumes_when_it_fits_with_a_margin_or_others_freed_their_memory() {
        let mut history = PoolHistory::default();
        history.see(pool(4000, 3000, 2000));
        assert_eq!(history.thresholds()[0], 512 * MIB);
        history.see(pool(300, 3000, 5000));
        assert!(history.is_scarce().is_some());
        let room = |available, others| {
            let mut history = history;
            history.see(pool(available, 0, others));
            history.has_room()
        };
        assert!(!room(3300, 5000), "it would be scarce again at once");
        assert!(!room(4000, 4000));
        assert!(room(4100, 4000), "what it had and twice the mark");
        assert!(room(900, 2010), "as it was when the job began");
    }

    #[test]
    fn memory_that_others_keep_does_not_make_a_job_yield_twice() {
        let mut monitor = monitor();
        monitor.see(&[Some(pool(4000, 3000, 2000))]);
        let scarce = monitor.see(&[Some(pool(300, 3000, 5000))]);
        let found = monitor.blamed(ResourceFault::HostMemory).map(|it| it.pool);
        assert_eq!(found, scarce.map(|it| it.pool));
        assert_eq!(monitor.blamed(ResourceFault::DeviceMemory), None);
        monitor.resume();
        assert_eq!(monitor.see(&[Some(pool(300, 3000, 5000))]), None);
        assert_eq!(monitor.blamed(ResourceFault::HostMemory), None);
        assert!(monitor.see(&[Some(pool(300, 3000, 6000))]).is_some());
        // Each wait lasts longer than the one before, so that two jobs do not take turns every second.
        for secs in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert_eq!(monitor.begin_wait().as_secs(), secs);
            monitor.resume();
        }
    }

    #[test]
    fn gpu_memory_pressure_ignores_the_engines_own_context() {
        let sample = |used: u64, reserved: u64| MemorySample {
            used_bytes: used * MIB,
            reserved_bytes: reserved * MIB,
            total_bytes: 24 * GIB,
            ..MemorySample::default()
        };
        let mut monitor = monitor();
        for alone in [sample(500, 0), sample(1200, 200), sample(24_500, 23_500)] {
            assert_eq!(monitor.hear(&alone), None);
        }
        let found = monitor.hear(&sample(20_000, 12_000));
        assert_eq!(found, None, "there is room for both");
        let scarce = monitor.hear(&sample(24_300, 12_000)).unwrap();
        assert_eq!(scarce.pool, DEVICE);
        assert!(monitor.blamed(ResourceFault::DeviceMemory).is_some());
        let text = monitor.crowded(DEVICE).to_string();
        let expected = "Waiting for GPU memory: other programs use 12.0 GiB of 24.0 GiB. The job continues by itself.";
        assert_eq!(text, expected);
        let now = Instant::now();
        for (used, expected) in [(Some(13_000), false), (Some(700), true), (None, false)] {
            let used = used.map(|used| used * MIB);
            let has_room = monitor.has_room(DEVICE, &[], used, now);
            assert_eq!(has_room, expected, "{used:?}");
        }
        monitor.is_enabled = false;
        assert_eq!(monitor.hear(&sample(24_300, 12_000)), None);
        assert_eq!(monitor.look(&[]), None);
    }
}

//! The good neighbour: whether other programs need the memory that a job has, when there is room again, and the wait
//! between.
//!
//! A job yields when memory is scarce *and* others have taken more since it began, or its group's limit was lowered.
//! What it takes itself is never a reason: that is the ladder's.

use std::thread;
use std::time::{Duration, Instant};

use safelight_core::job::{Crowded, JobError, JobUpdate, MemorySample};
use safelight_core::memory::Fault;

use super::WorkerOptions;
use super::engine::{EngineSlot, StageResult};
use super::events::JobEvents;
use crate::telemetry::Roots;
use crate::telemetry::room::{Pool, RoomReader};

/// Files of the kernel are read no more often, which costs a thousandth of a core.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// There must have been room for so long before the job goes on, twice as long after each wait, up to the most.
const SETTLE: Duration = Duration::from_secs(1);
const SETTLE_MOST: Duration = Duration::from_secs(64);
/// A job that ran for so long begins with the shortest wait again.
const CALM: Duration = Duration::from_mins(2);
/// Numbers are told again while it waits.
const TELL_EVERY: Duration = Duration::from_secs(2);
/// Where nothing tells what a GPU's memory holds, the job tries again after this.
const BLIND: Duration = Duration::from_secs(30);
/// Every process waited for memory for this part of the last ten seconds, in percent: it is scarce.
const STALLED: f32 = 20.0;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What is scarce in a pool, and what others must have taken to be the reason, in bytes.
#[derive(Clone, Copy, Debug)]
struct Marks {
    low: u64,
    grown: u64,
}

impl Marks {
    fn of_main(limit: u64) -> Self {
        Self {
            low: (limit / 20).clamp(128 * MIB, 2 * GIB),
            grown: (limit / 50).clamp(64 * MIB, 512 * MIB),
        }
    }

    /// What the engine has beside its allocator, such as its context, grows by less than a GiB.
    fn of_device(limit: u64) -> Self {
        Self {
            low: (limit / 50).clamp(256 * MIB, GIB),
            grown: GIB,
        }
    }
}

/// One pool since the job began, or since it last went on.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    /// The least that others had, and the most that there was for all.
    base: Option<(u64, u64)>,
    /// The most that the job had.
    own_peak: u64,
    /// What others took beyond the base when it was last looked at.
    taken: u64,
    last: Pool,
}

impl Side {
    fn see(&mut self, pool: Pool) {
        let (others, limit) = self.base.unwrap_or((u64::MAX, 0));
        let others = others.min(pool.others_most_bytes);
        let limit = limit.max(pool.limit_bytes);
        self.base = Some((others, limit));
        self.own_peak = self.own_peak.max(pool.own_bytes);
        self.taken = pool.others_least_bytes.saturating_sub(others) + (limit - pool.limit_bytes);
        self.last = pool;
    }

    /// Whether others are why memory is scarce; `Some(true)` where nothing is left to wait for the engine with.
    fn is_scarce(&self, marks: Marks) -> Option<bool> {
        let pool = &self.last;
        let is_low = pool.available_bytes < marks.low || pool.stalled_percent >= STALLED;
        let is_crowded = is_low && self.taken >= marks.grown;
        is_crowded.then_some(pool.available_bytes < marks.low / 4)
    }

    /// Whether the job has room again: for all that it had and twice what counts as scarce, or others gave back what
    /// they took. The second always comes where they do, also for a job that never had room.
    fn has_room(&self, marks: Marks) -> bool {
        let pool = &self.last;
        let needed = self.own_peak + 2 * marks.low;
        let is_free = pool.available_bytes + pool.own_bytes >= needed;
        self.taken <= marks.grown / 4 || (is_free && pool.stalled_percent < STALLED / 2.0)
    }
}

/// Which pool is scarce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The machine's, or that of one of its groups.
    Main(usize),
    Device,
}

/// Other programs need memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scarce {
    place: Place,
    /// The engine is to be ended at once.
    pub(super) is_urgent: bool,
}

/// What one job knows of the other programs.
pub(super) struct Neighbour {
    reader: RoomReader,
    is_wanted: bool,
    main: Vec<Side>,
    device: Side,
    looked: Option<Instant>,
    settle: Duration,
    went_on: Option<Instant>,
    num_waits: u32,
}

impl Neighbour {
    pub(super) fn new(roots: &Roots, is_wanted: bool) -> Self {
        Self {
            reader: RoomReader::new(roots),
            is_wanted,
            main: Vec::new(),
            device: Side::default(),
            looked: None,
            settle: SETTLE,
            went_on: None,
            num_waits: 0,
        }
    }

    /// Whether the job has waited.
    pub(super) fn has_waited(&self) -> bool {
        self.num_waits > 0
    }

    /// Looks at main memory, where the last look is old enough. `engine`: the process that computes.
    pub(super) fn look(&mut self, engine: Option<u32>) -> Option<Scarce> {
        let is_due = self.looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY);
        if !self.is_wanted || !is_due {
            return None;
        }
        self.looked = Some(Instant::now());
        let pools = self.reader.read(engine);
        self.see(&pools)
    }

    fn see(&mut self, pools: &[Option<Pool>]) -> Option<Scarce> {
        self.main.resize(pools.len(), Side::default());
        let sides = self.main.iter_mut().zip(pools).enumerate();
        let scarce = sides.filter_map(|(index, (side, pool))| {
            side.see((*pool)?);
            let is_urgent = side.is_scarce(Marks::of_main(side.last.limit_bytes))?;
            let place = Place::Main(index);
            Some(Scarce { place, is_urgent })
        });
        scarce.max_by_key(|scarce| scarce.is_urgent)
    }

    /// What the engine said of the memory of its GPU.
    pub(super) fn hear(&mut self, sample: &MemorySample) -> Option<Scarce> {
        if !self.is_wanted || sample.total_bytes == 0 {
            return None;
        }
        self.device.see(device_pool(
            sample.total_bytes,
            sample.used_bytes,
            sample.reserved_bytes,
        ));
        let marks = Marks::of_device(sample.total_bytes);
        let is_urgent = self.device.is_scarce(marks)?;
        let place = Place::Device;
        Some(Scarce { place, is_urgent })
    }

    /// Whether other programs are why a stage ended so. Where memory ran out and others took it, the job waits for them
    /// instead of taking less.
    pub(super) fn is_why(&self, ended: &Result<StageResult, JobError>) -> Option<Scarce> {
        match ended {
            Ok(StageResult::Yielded(scarce)) => Some(*scarce),
            Ok(StageResult::Lost { reason }) => self.blamed(Fault::of_last_words(reason)?),
            Ok(StageResult::Finished { .. } | StageResult::Cancelled) => None,
            Err(err) => self.blamed(err.fault?),
        }
    }

    fn blamed(&self, fault: Fault) -> Option<Scarce> {
        let has_grown =
            |side: &Side, marks: Marks| side.base.is_some() && side.taken >= marks.grown;
        let place = match fault {
            _ if !self.is_wanted => None,
            Fault::HostMemory => {
                let mut sides = self.main.iter();
                sides
                    .position(|side| has_grown(side, Marks::of_main(side.last.limit_bytes)))
                    .map(Place::Main)
            }
            Fault::DeviceMemory | Fault::RuntimeMemory => {
                let marks = Marks::of_device(self.device.last.limit_bytes);
                has_grown(&self.device, marks).then_some(Place::Device)
            }
            Fault::Device => None,
        };
        place.map(|place| Scarce {
            place,
            is_urgent: true,
        })
    }

    /// Whether there is room, now that no engine runs. `device_used`: what all programs use of the GPU, where that is
    /// known.
    fn has_room(&mut self, place: Place, device_used: Option<u64>, since: Instant) -> bool {
        let pools = self.reader.read(None);
        let is_scarce = self.see(&pools).is_some();
        let has_main = |side: &Side| side.has_room(Marks::of_main(side.last.limit_bytes));
        match place {
            Place::Main(index) => !is_scarce && self.main.get(index).is_none_or(has_main),
            Place::Device => {
                let limit = self.device.last.limit_bytes;
                let Some(used) = device_used else {
                    return since.elapsed() >= BLIND;
                };
                self.device.see(device_pool(limit, used, 0));
                !is_scarce && self.device.has_room(Marks::of_device(limit))
            }
        }
    }

    fn crowded(&self, place: Place) -> Crowded {
        let pool = match place {
            Place::Main(index) => self.main.get(index).map(|side| side.last),
            Place::Device => Some(self.device.last),
        };
        let pool = pool.unwrap_or_default();
        Crowded {
            is_device: place == Place::Device,
            others_bytes: pool.others_least_bytes,
            limit_bytes: pool.limit_bytes,
        }
    }

    /// How long room must last before the job goes on.
    fn begin_wait(&mut self) -> Duration {
        if self.went_on.is_none_or(|at| at.elapsed() >= CALM) {
            self.settle = SETTLE;
        }
        let settle = self.settle;
        self.settle = (settle * 2).min(SETTLE_MOST);
        self.num_waits += 1;
        settle
    }

    /// The job goes on with what there is: what others have now is no reason to yield again.
    fn go_on(&mut self) {
        self.went_on = Some(Instant::now());
        self.looked = None;
        for side in self.main.iter_mut().chain([&mut self.device]) {
            side.base = None;
            side.taken = 0;
        }
    }
}

fn device_pool(limit: u64, used: u64, own: u64) -> Pool {
    let others = used.saturating_sub(own);
    Pool {
        limit_bytes: limit,
        available_bytes: limit.saturating_sub(used),
        own_bytes: own,
        others_least_bytes: others,
        others_most_bytes: others,
        stalled_percent: 0.0,
    }
}

impl Neighbour {
    /// Gives all memory back and waits for room; `false` when the job is stopped meanwhile.
    pub(super) fn wait_for_room(
        &mut self,
        scarce: Scarce,
        engine: &mut EngineSlot,
        events: &JobEvents<'_>,
        options: &WorkerOptions,
    ) -> bool {
        engine.drop_engine();
        let crowded = self.crowded(scarce.place);
        tracing::info!("{crowded}");
        events.certain(JobUpdate::Waiting(crowded));
        let settle = self.begin_wait();
        let (began, mut told) = (Instant::now(), Instant::now());
        let mut room_since: Option<Instant> = None;
        while !events.is_cancelled() {
            let is_wanted = (options.limits)().yields && !events.waits_no_more();
            let used = events.device_used_bytes();
            let has_room = self.has_room(scarce.place, used, began);
            if has_room {
                room_since.get_or_insert_with(Instant::now);
            } else {
                room_since = None;
            }
            if !is_wanted || room_since.is_some_and(|since| since.elapsed() >= settle) {
                tracing::info!("the job continues after {:.0?}", began.elapsed());
                self.is_wanted = is_wanted;
                self.go_on();
                return true;
            }
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                let now = self.crowded(scarce.place);
                events.lossy(JobUpdate::Waiting(now));
            }
            thread::sleep(LOOK_EVERY);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool of 10 GiB; in MiB what can be had, and what the job and others have.
    fn pool(available: u64, own: u64, others: u64) -> Pool {
        Pool {
            limit_bytes: 10 * GIB,
            available_bytes: available * MIB,
            own_bytes: own * MIB,
            others_least_bytes: others * MIB,
            others_most_bytes: others * MIB,
            stalled_percent: 0.0,
        }
    }

    fn neighbour() -> Neighbour {
        let root = tempfile::tempdir().unwrap();
        Neighbour::new(&Roots::under(root.path()), true)
    }

    /// What a job does that saw these one after the other.
    fn after(pools: &[Pool]) -> Option<Scarce> {
        let mut neighbour = neighbour();
        pools
            .iter()
            .map(|pool| neighbour.see(&[Some(*pool)]))
            .last()
            .unwrap()
    }

    #[test]
    fn a_job_yields_to_another_program_and_never_to_itself() {
        let begin = pool(6000, 1000, 2000);
        let is_urgent = |scarce: Option<Scarce>| scarce.map(|scarce| scarce.is_urgent);
        // Alone, with all that there is.
        assert_eq!(after(&[begin, pool(1, 7000, 2000)]), None);
        assert_eq!(after(&[pool(1, 7000, 2000), pool(0, 7000, 2000)]), None);
        // Others took little, or left enough.
        assert_eq!(after(&[begin, pool(400, 6000, 2100)]), None);
        assert_eq!(after(&[begin, pool(600, 1000, 7000)]), None);
        assert_eq!(
            is_urgent(after(&[begin, pool(500, 1000, 7000)])),
            Some(false)
        );
        assert_eq!(
            is_urgent(after(&[begin, pool(100, 1000, 7000)])),
            Some(true)
        );
        // Room on paper, but everyone waits for memory.
        let stalled = Pool {
            stalled_percent: STALLED,
            ..pool(3000, 1000, 5000)
        };
        assert_eq!(is_urgent(after(&[begin, stalled])), Some(false));
        let alone = Pool {
            stalled_percent: 90.0,
            ..pool(300, 7000, 2000)
        };
        assert_eq!(after(&[begin, alone]), None);
        // A limit that is lowered is as much a reason.
        let lowered = Pool {
            limit_bytes: 4 * GIB,
            ..pool(100, 1000, 2000)
        };
        assert!(after(&[begin, lowered]).is_some());
    }

    #[test]
    fn a_reading_between_two_moments_blames_nobody() {
        let begin = pool(6000, 1000, 2000);
        // The engine took 5000 MiB between two files that were read.
        let between = Pool {
            others_least_bytes: 0,
            others_most_bytes: 7000 * MIB,
            ..pool(200, 6000, 0)
        };
        let mut neighbour = neighbour();
        for pool in [begin, between, pool(200, 6000, 2000)] {
            assert_eq!(neighbour.see(&[Some(pool)]), None);
        }
    }

    #[test]
    fn a_job_goes_on_where_it_fits_with_air_or_others_gave_back_what_they_took() {
        let mut side = Side::default();
        let marks = Marks::of_main(10 * GIB);
        assert_eq!(marks.low, 512 * MIB);
        side.see(pool(4000, 3000, 2000));
        side.see(pool(300, 3000, 5000));
        assert!(side.is_scarce(marks).is_some());
        let room = |available, others| {
            let mut side = side;
            side.see(pool(available, 0, others));
            side.has_room(marks)
        };
        assert!(!room(3300, 5000), "it would be scarce again at once");
        assert!(!room(4000, 4000));
        assert!(room(4100, 4000), "what it had and twice the mark");
        assert!(room(900, 2010), "as it was when the job began");
    }

    #[test]
    fn what_others_keep_is_no_reason_to_yield_twice() {
        let mut neighbour = neighbour();
        neighbour.see(&[Some(pool(4000, 3000, 2000))]);
        let scarce = neighbour.see(&[Some(pool(300, 3000, 5000))]);
        assert_eq!(
            neighbour.blamed(Fault::HostMemory).map(|it| it.place),
            scarce.map(|it| it.place)
        );
        assert_eq!(neighbour.blamed(Fault::DeviceMemory), None);
        neighbour.go_on();
        assert_eq!(neighbour.see(&[Some(pool(300, 3000, 5000))]), None);
        assert_eq!(neighbour.blamed(Fault::HostMemory), None);
        assert!(neighbour.see(&[Some(pool(300, 3000, 6000))]).is_some());
        // Each wait lasts longer than the one before, so that two jobs do not take turns every second.
        let waits: Vec<u64> = (0..8)
            .map(|_| {
                let settle = neighbour.begin_wait();
                neighbour.go_on();
                settle.as_secs()
            })
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64]);
    }

    #[test]
    fn a_gpu_is_shared_in_the_same_way_and_its_context_is_not_another_program() {
        let sample = |used: u64, reserved: u64| MemorySample {
            used_bytes: used * MIB,
            reserved_bytes: reserved * MIB,
            total_bytes: 24 * GIB,
            ..MemorySample::default()
        };
        let mut neighbour = neighbour();
        for alone in [sample(500, 0), sample(1200, 200), sample(24_500, 23_500)] {
            assert_eq!(neighbour.hear(&alone), None);
        }
        assert_eq!(
            neighbour.hear(&sample(20_000, 12_000)),
            None,
            "there is room for both"
        );
        let scarce = neighbour.hear(&sample(24_300, 12_000)).unwrap();
        assert_eq!(scarce.place, Place::Device);
        assert!(neighbour.blamed(Fault::DeviceMemory).is_some());
        let text = neighbour.crowded(Place::Device).to_string();
        assert_eq!(
            text,
            "Waiting for GPU memory: other programs use 12.0 GiB of 24.0 GiB. The job continues by itself."
        );
        let now = Instant::now();
        assert!(!neighbour.has_room(Place::Device, Some(13_000 * MIB), now));
        assert!(neighbour.has_room(Place::Device, Some(700 * MIB), now));
        assert!(
            !neighbour.has_room(Place::Device, None, now),
            "nothing tells"
        );
        neighbour.is_wanted = false;
        assert_eq!(neighbour.hear(&sample(24_300, 12_000)), None);
        assert_eq!(neighbour.look(None), None);
    }
}

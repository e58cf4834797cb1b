//! The other engines that share a job's stages: started by the first one, each on another device.
//!
//! They get the same orders and send only how a stage ends. Where one fails or is lost, and where a stage of the first one
//! does not finish, all others are ended: none waits for an exchange that never comes, and the next shared stage starts
//! new ones. They end with the first one, as their standard input does.

use std::io::BufReader;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use safelight_core::job::{DeviceChoice, GenerateRequest, JobError, JobErrorKind, Stage};
use safelight_core::protocol::{
    EngineCommand, EngineMessage, GroupMember, StageEnd, StageOrder, read_frame, write_frame,
};
use tch::{Cuda, Device};

use crate::error::EngineError;
use crate::parallel::{OpenGroup, RankGroup, SharedWork, share_work};

/// Address where the ranks of one machine meet.
const LOOPBACK: &str = "127.0.0.1";
/// Time for the reason of an exchange that failed.
const REASON: Duration = Duration::from_secs(2);

/// The group that this engine shares stages with, if any.
#[derive(Default)]
pub(crate) struct SharedRanks {
    group: Option<Rc<RankGroup>>,
    /// On the first rank.
    others: Option<OtherRanks>,
    /// The running stage is shared.
    is_shared: bool,
}

impl SharedRanks {
    /// Makes this engine a rank in the group of another one.
    pub(crate) fn join(&mut self, member: &GroupMember, device: Device) -> Result<(), EngineError> {
        self.group = Some(Rc::new(RankGroup::join(member, device)?));
        Ok(())
    }

    /// Begins a stage, on all ranks where it is shared; the work of this thread is shared until the result is dropped.
    pub(crate) fn begin(
        &mut self,
        order: &StageOrder,
        device: Device,
    ) -> Result<SharedWork, EngineError> {
        let devices = order.devices as usize;
        self.is_shared = devices > 1 && is_shared(order);
        if !self.is_shared {
            if devices <= 1 {
                self.drop_others();
            }
            return Ok(share_work(None));
        }
        let is_first = self.group.is_none() || self.others.is_some();
        if is_first && let Err(err) = self.order_others(order, devices, device) {
            self.drop_others();
            return Err(err);
        }
        Ok(share_work(self.group.clone()))
    }

    /// Gives the order to the others, which are started where there are none, too few, or some were lost meanwhile.
    fn order_others(
        &mut self,
        order: &StageOrder,
        devices: usize,
        device: Device,
    ) -> Result<(), EngineError> {
        let others = self.others.take();
        let usable = others.filter(|it| it.inputs.len() + 1 == devices && it.check().is_ok());
        let others = if let Some(others) = usable {
            others
        } else {
            self.group = None;
            let (others, group) = OtherRanks::start(devices, device)?;
            self.group = Some(Rc::new(group));
            others
        };
        self.others.insert(others).order(order)
    }

    /// Ends a stage: its result, or why another rank failed.
    pub(crate) fn end(&mut self, result: Result<(), EngineError>) -> Result<(), EngineError> {
        let Some(others) = self.others.as_mut().filter(|_| self.is_shared) else {
            return result;
        };
        let result = match result {
            Ok(()) => others.finish(),
            Err(EngineError::Cancelled) => Err(EngineError::Cancelled),
            Err(err) => Err(others.reason(REASON).unwrap_or(err)),
        };
        if result.is_err() {
            self.drop_others();
        }
        result
    }

    /// On the first rank: the next shared stage starts new ones.
    fn drop_others(&mut self) {
        if self.others.take().is_some() {
            self.group = None;
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether several devices share a stage: the steps, and the frames of a video that is decoded at once.
fn is_shared(order: &StageOrder) -> bool {
    let is_video = |request: &GenerateRequest| request.num_frames > 1 && request.sections.is_none();
    match order.stage {
        Stage::Denoise | Stage::DenoiseHigh | Stage::DenoiseLow | Stage::Unload => true,
        Stage::Decode => order.request.generate().is_some_and(is_video),
        _ => false,
    }
}

/// Engines of the ranks after the first one. Dropped, they end.
struct OtherRanks {
    inputs: Vec<ChildStdin>,
    ends: Receiver<StageEnd>,
    watch: Arc<RankWatch>,
}

/// State that the threads which read from the ranks share.
struct RankWatch {
    processes: Mutex<Vec<Child>>,
    failure: Mutex<Option<JobError>>,
    abort: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl RankWatch {
    /// Records the first failure, and ends what waits for an exchange.
    fn fail(&self, error: JobError) {
        locked(&self.failure).get_or_insert(error);
        self.end();
    }

    fn end(&self) {
        for process in &mut *locked(&self.processes) {
            process.kill().ok();
            process.wait().ok();
        }
        if let Some(abort) = &*locked(&self.abort) {
            abort();
        }
    }
}

impl OtherRanks {
    /// Starts `devices` - 1 engines and returns when all have joined; `device`: of this one
    fn start(devices: usize, device: Device) -> Result<(Self, RankGroup), EngineError> {
        let watch = Arc::new(RankWatch {
            processes: Mutex::default(),
            failure: Mutex::default(),
            abort: Mutex::default(),
        });
        let (ready, readies) = bounded(devices);
        let (end, ends) = bounded(devices);
        let mut others = Self {
            inputs: Vec::new(),
            ends,
            watch,
        };
        for rank in 1..devices {
            let own = device_of(rank, devices, device)?;
            others.spawn(own, &ready, &end)?;
        }
        drop(ready);
        for () in readies.iter().take(devices - 1) {}
        others.check()?;
        let group = OpenGroup::new(LOOPBACK, devices, device)?;
        for rank in 1..devices {
            others.send(rank - 1, &EngineCommand::Join(group.other(rank)))?;
        }
        let group = group.join(device)?;
        *locked(&others.watch.abort) = Some(Box::new(group.abort_handle()));
        others.check()?;
        Ok((others, group))
    }

    fn spawn(
        &mut self,
        device: DeviceChoice,
        ready: &Sender<()>,
        end: &Sender<StageEnd>,
    ) -> Result<(), EngineError> {
        let started = std::env::current_exe().and_then(|executable| {
            Command::new(executable)
                .args(["--device", &device.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
        });
        let failed = |what: String| EngineError::internal(format!("the engine on {device} {what}"));
        let mut process = started.map_err(|err| failed(format!("could not start: {err}")))?;
        let streams = process.stdin.take().zip(process.stdout.take());
        let (input, output) = streams.ok_or_else(|| failed("has no streams".to_owned()))?;
        locked(&self.watch.processes).push(process);
        self.inputs.push(input);
        let (watch, ready, end) = (Arc::clone(&self.watch), ready.clone(), end.clone());
        let read = move || read_messages(output, device, &watch, &ready, &end);
        let thread = thread::Builder::new().name("engine-rank".to_owned());
        thread
            .spawn(read)
            .map_err(|err| failed(format!("cannot be watched: {err}")))?;
        Ok(())
    }

    fn send(&mut self, index: usize, command: &EngineCommand) -> Result<(), EngineError> {
        write_frame(&mut self.inputs[index], command, &[]).map_err(|err| {
            let lost = EngineError::internal(format!("another GPU's engine is gone: {err}"));
            self.reason(REASON).unwrap_or(lost)
        })
    }

    fn order(&mut self, order: &StageOrder) -> Result<(), EngineError> {
        let order = StageOrder {
            capture: false,
            ..order.clone()
        };
        let command = EngineCommand::RunStage(Box::new(order));
        (0..self.inputs.len()).try_for_each(|index| self.send(index, &command))
    }

    /// Returns when all have ended the stage.
    fn finish(&self) -> Result<(), EngineError> {
        for _ in &self.inputs {
            if self.ends.recv().is_err() {
                break;
            }
        }
        self.check()
    }

    fn check(&self) -> Result<(), EngineError> {
        self.reason(Duration::ZERO).map_or(Ok(()), Err)
    }

    /// Why a rank failed, as soon as that is known.
    fn reason(&self, limit: Duration) -> Option<EngineError> {
        let began = Instant::now();
        loop {
            let failure = locked(&self.watch.failure).clone();
            if failure.is_some() || began.elapsed() >= limit {
                return failure.map(|error| EngineError::OtherRank(Box::new(error)));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for OtherRanks {
    fn drop(&mut self) {
        self.watch.end();
    }
}

/// Device of a rank: those after the first one's, from the start again after the last.
fn device_of(rank: usize, devices: usize, first: Device) -> Result<DeviceChoice, EngineError> {
    let Device::Cuda(index) = first else {
        return Ok(DeviceChoice::Cpu);
    };
    let found = Cuda::device_count().unsigned_abs() as usize;
    if devices > found {
        return Err(EngineError::request(format!(
            "this job wants {devices} GPUs, and {found} can be used here"
        )));
    }
    Ok(DeviceChoice::Cuda((index + rank) % found))
}

/// Until the rank ends. Dropping the senders tells that nothing more comes.
fn read_messages(
    output: ChildStdout,
    device: DeviceChoice,
    watch: &RankWatch,
    ready: &Sender<()>,
    end: &Sender<StageEnd>,
) {
    let mut output = BufReader::new(output);
    while let Ok(Some((message, _))) = read_frame::<EngineMessage>(&mut output) {
        match message {
            EngineMessage::Ready(_) => {
                ready.send(()).ok();
            }
            EngineMessage::Refused(error)
            | EngineMessage::StageEnded(StageEnd::Failed { error }) => watch.fail(error),
            EngineMessage::StageEnded(ended) => {
                end.send(ended).ok();
            }
            _ => {}
        }
    }
    let what = format!("the engine on {device}, which shared this job, ended unexpectedly");
    let error = JobError::new(JobErrorKind::EngineLost, what);
    watch.fail(error.advise("Run the Doctor to check the GPUs, or run the job on one"));
}

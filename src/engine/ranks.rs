//! The other engines that share a job's stages: started by the first one, each on another device.
//!
//! They get the same orders and send only how a stage ends. Where one fails or is lost, and where a stage of the first one
//! does not finish, all others are ended: none waits for an exchange that never comes, and the next shared stage starts
//! new ones. They end with the first one, as their standard input does.

use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use safelight_core::job::{DeviceChoice, GenerateRequest, JobError, JobErrorKind, Stage};
use safelight_core::protocol::{
    EngineCommand, EngineMessage, GroupMember, RankAddresses, RankPlaces, StageEnd, StageOrder,
    read_frame, write_frame,
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
        self.is_shared = order.devices > 1 && is_shared(order);
        if !self.is_shared {
            if order.devices <= 1 {
                self.drop_others();
            }
            return Ok(share_work(None));
        }
        let generate = order.request.generate();
        let hosts = generate.map_or_else(Vec::new, |request| request.options.hosts.clone());
        let devices = order.devices / (hosts.len() as u32 + 1);
        // The others write nothing, and need no capture.
        let command = EngineCommand::RunStage(Box::new(StageOrder {
            capture: false,
            ..order.clone()
        }));
        self.order_others(&command, &RankPlaces { devices, hosts }, device)?;
        Ok(share_work(self.group.clone()))
    }

    /// Bytes that each rank sends in a second when all exchange; also on the others.
    pub(crate) fn measure(
        &mut self,
        places: &RankPlaces,
        device: Device,
    ) -> Result<f64, EngineError> {
        self.order_others(&EngineCommand::MeasureRanks(places.clone()), places, device)?;
        let group = self
            .group
            .clone()
            .ok_or_else(|| EngineError::internal("no group"))?;
        let measured = catch_unwind(AssertUnwindSafe(|| group.measure(device)));
        let measured = measured.map_err(|panic| EngineError::from_panic(panic.as_ref()));
        let lost = self.others.as_ref().map_or(Ok(()), OtherRanks::check);
        lost.and(measured).inspect_err(|_| self.drop_others())
    }

    /// On the first rank, gives a command to the others, which are started where there are none, not those, or some were
    /// lost meanwhile.
    fn order_others(
        &mut self,
        command: &EngineCommand,
        places: &RankPlaces,
        device: Device,
    ) -> Result<(), EngineError> {
        if self.group.is_some() && self.others.is_none() {
            return Ok(());
        }
        let others = self.others.take();
        let usable = others.filter(|it| it.places == *places && it.check().is_ok());
        let mut others = if let Some(others) = usable {
            others
        } else {
            self.group = None;
            let (others, group) = OtherRanks::start(places, device)?;
            self.group = Some(Rc::new(group));
            others
        };
        let ordered = (0..others.inputs.len()).try_for_each(|index| others.send(index, command));
        if ordered.is_ok() {
            self.others = Some(others);
        } else {
            self.group = None;
        }
        ordered
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
    places: RankPlaces,
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
    /// Starts the engines and returns when all have joined; `device`: of this one
    fn start(places: &RankPlaces, device: Device) -> Result<(Self, RankGroup), EngineError> {
        let watch = Arc::new(RankWatch {
            processes: Mutex::default(),
            failure: Mutex::default(),
            abort: Mutex::default(),
        });
        let own = devices_here(places.devices, device)?;
        let mut engines: Vec<(Option<&str>, DeviceChoice)> = own
            .into_iter()
            .skip(1)
            .map(|device| (None, device))
            .collect();
        for host in &places.hosts {
            let there = (0..places.devices as usize).map(|index| match device {
                Device::Cuda(_) => DeviceChoice::Cuda(index),
                _ => DeviceChoice::Cpu,
            });
            engines.extend(there.map(|device| (Some(host.as_str()), device)));
        }
        let num_others = engines.len();
        let (ready, readies) = bounded(num_others);
        let (end, ends) = bounded(num_others);
        let mut others = Self {
            places: places.clone(),
            inputs: Vec::new(),
            ends,
            watch,
        };
        for (host, device) in engines {
            others.spawn(host, device, &ready, &end)?;
        }
        drop(ready);
        let mut addresses = vec![None; num_others];
        for (index, found) in readies.iter().take(num_others) {
            addresses[index] = found;
        }
        others.check()?;
        let seen = addresses.iter().flatten().next();
        let own = seen
            .map_or(LOOPBACK, |found: &RankAddresses| &found.first)
            .to_owned();
        let group = OpenGroup::new(&own, num_others + 1, device)?;
        for (index, found) in addresses.into_iter().enumerate() {
            let member = group.other(index + 1, found);
            others.send(index, &EngineCommand::Join(member))?;
        }
        let group = group.join(device)?;
        *locked(&others.watch.abort) = Some(Box::new(group.abort_handle()));
        others.check()?;
        Ok((others, group))
    }

    /// Starts an engine here, or on a computer through the program next to this one, which knows ssh.
    fn spawn(
        &mut self,
        host: Option<&str>,
        device: DeviceChoice,
        ready: &Sender<ReadyRank>,
        end: &Sender<StageEnd>,
    ) -> Result<(), EngineError> {
        let place = host.map_or_else(|| device.to_string(), |host| format!("{device} of {host}"));
        let started = std::env::current_exe().and_then(|executable| {
            let device = device.to_string();
            let mut command = match host {
                None => {
                    let mut command = Command::new(executable);
                    command.args(["--device", &device]);
                    command
                }
                Some(host) => {
                    let mut command = Command::new(executable.with_file_name("safelight"));
                    command.args(["computers", "rank", host, &device]);
                    // Of libtorch's libraries.
                    command.env_remove("LD_LIBRARY_PATH");
                    command
                }
            };
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
        });
        let subject = format!("the engine on {place}");
        let failed = |what: String| EngineError::internal(format!("{subject} {what}"));
        let mut process = started.map_err(|err| failed(format!("could not start: {err}")))?;
        let streams = process.stdin.take().zip(process.stdout.take());
        let (input, output) = streams.ok_or_else(|| failed("has no streams".to_owned()))?;
        locked(&self.watch.processes).push(process);
        let index = self.inputs.len();
        self.inputs.push(input);
        let (watch, ready, end) = (Arc::clone(&self.watch), ready.clone(), end.clone());
        let read = move || read_messages(output, (index, &place), &watch, &ready, &end);
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

/// Devices of this computer's ranks: the first one's and those after it, from the start again after the last.
fn devices_here(devices: u32, first: Device) -> Result<Vec<DeviceChoice>, EngineError> {
    let devices = devices as usize;
    let Device::Cuda(index) = first else {
        return Ok(vec![DeviceChoice::Cpu; devices]);
    };
    let found = Cuda::device_count().unsigned_abs() as usize;
    if devices > found {
        return Err(EngineError::request(format!(
            "this job wants {devices} GPUs, and {found} can be used here"
        )));
    }
    let next = |rank| DeviceChoice::Cuda((index + rank) % found);
    Ok((0..devices).map(next).collect())
}

/// Index of a rank among the others, and its addresses on another computer.
type ReadyRank = (usize, Option<RankAddresses>);

/// Until the rank ends. Dropping the senders tells that nothing more comes.
fn read_messages(
    output: ChildStdout,
    (index, place): (usize, &str),
    watch: &RankWatch,
    ready: &Sender<ReadyRank>,
    end: &Sender<StageEnd>,
) {
    let mut output = BufReader::new(output);
    while let Ok(Some((message, _))) = read_frame::<EngineMessage>(&mut output) {
        match message {
            EngineMessage::Ready(report) => {
                ready.send((index, report.addresses)).ok();
            }
            EngineMessage::Refused(error)
            | EngineMessage::StageEnded(StageEnd::Failed { error }) => watch.fail(error),
            EngineMessage::StageEnded(ended) => {
                end.send(ended).ok();
            }
            _ => {}
        }
    }
    let what = format!("the engine on {place}, which shared this job, ended unexpectedly");
    let error = JobError::new(JobErrorKind::EngineLost, what);
    watch.fail(error.advise("Run the Doctor to check the GPUs, or run the job on one"));
}

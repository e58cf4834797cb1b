//! Engines that are threads of the test and follow a script.
//!
//! They speak as the real one does, and compute nothing.

use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use safelight::worker::link::{
    EngineControl, EngineLauncher, EngineLink, ExitReport, IncomingMessage, ProbeOrder,
};
use safelight_core::compute::conv_backends::MiopenMode;
use safelight_core::job::{
    DeviceChoice, GenerateRequest, JobError, JobErrorKind, JobFolder, JobRequest,
    PostprocessRequest, Stage,
};
use safelight_core::job_update::MemorySample;
use safelight_core::memory::{FallbackLevel, ResourceFault, StageMemory};
use safelight_core::protocol::{
    EngineCommand, EngineMessage, EngineReport, PROTOCOL_VERSION, PixelHeader, StageEnd, StageOrder,
};

/// What a fake engine does with a stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    Work,
    Die,
    /// Works on forever but stops when told to.
    UntilCancelled,
    /// Says nothing and hears nothing.
    Hang,
    /// For a reason that no second try mends.
    Fail,
    /// Ends in a failure of this kind on every rung below.
    FailBelow(ResourceFault, FallbackLevel),
    /// Ends decoding well, with frames missing.
    LoseFrames,
    /// Works as the low-noise expert does: its count goes on from the other's steps, at a slow pace.
    GoOn,
    /// Sends a sound of a fifth of a second with the frames.
    MakeSound,
    /// Sends far more than the channel holds before it ends.
    Flood,
}

pub type Script = Arc<dyn Fn(u32, Stage) -> Act + Send + Sync>;

pub struct FakeLauncher {
    pub script: Script,
    pub state: FakeState,
    /// How MIOpen works in the next engine.
    pub mode: MiopenMode,
}

impl Deref for FakeLauncher {
    type Target = FakeState;

    fn deref(&self) -> &FakeState {
        &self.state
    }
}

/// What the launched engines were given, and what a test has them say; shared by its clones.
#[derive(Clone, Default)]
pub struct FakeState {
    pub launches: Arc<AtomicU32>,
    pub stages: Arc<Mutex<Vec<Stage>>>,
    /// The same with the section of each.
    pub sections: Arc<Mutex<Vec<(Stage, u32)>>>,
    /// Number of stages that finished.
    pub worked: Arc<AtomicU32>,
    /// What each stage was told about memory.
    pub told: Arc<Mutex<Vec<(Stage, StageMemory)>>>,
    /// Whether an engine that dies was ended for memory.
    pub is_out_of_memory: Arc<AtomicBool>,
    pub runtime: Arc<Mutex<PathBuf>>,
    /// Why the CPU computes instead of a GPU.
    pub gpu_problem: Arc<Mutex<Option<String>>>,
    pub libtorch: Arc<Mutex<String>>,
    /// What answers to probes of convolutions, where they are needed.
    pub probe: Arc<Mutex<Option<PathBuf>>>,
    /// How MIOpen worked in each engine.
    pub launched_modes: Arc<Mutex<Vec<MiopenMode>>>,
}

/// A frame that says which of which section it is.
fn pixels(order: &StageOrder, index: u32) -> Vec<u8> {
    let sections = order.request.generate().and_then(|it| it.sections);
    let grey = match sections {
        Some(_) => order.section * 90 + index,
        None => index * 40,
    };
    vec![grey as u8; 32 * 32 * 3]
}

struct FakeControl {
    killed: Arc<AtomicBool>,
    is_out_of_memory: Arc<AtomicBool>,
}

impl EngineControl for FakeControl {
    fn kill(&mut self) {
        self.killed.store(true, Ordering::Relaxed);
    }

    fn last_words(&mut self) -> ExitReport {
        ExitReport {
            text: "signal 9 (of a test)".to_owned(),
            is_out_of_memory: self.is_out_of_memory.load(Ordering::Relaxed),
        }
    }
}

impl Drop for FakeControl {
    fn drop(&mut self) {
        self.kill();
    }
}

impl EngineLauncher for FakeLauncher {
    fn runtime(&mut self) -> Option<PathBuf> {
        Some(self.runtime.lock().unwrap().clone())
    }

    fn probe(&mut self, mode: MiopenMode) -> Option<ProbeOrder> {
        let mut command = Command::new(self.probe.lock().unwrap().clone()?);
        command.env("MODE", mode.name());
        Some(ProbeOrder {
            command,
            driver: "of a test".to_owned(),
            libtorch: self.libtorch.lock().unwrap().clone(),
            others: vec![MiopenMode::Searching],
        })
    }

    fn set_miopen(&mut self, mode: MiopenMode) -> bool {
        std::mem::replace(&mut self.mode, mode) != mode
    }

    fn launch(&mut self, device: DeviceChoice) -> Result<EngineLink, JobError> {
        assert_ne!(device, DeviceChoice::Cuda(99), "a launcher that panics");
        let launch = self.launches.fetch_add(1, Ordering::Relaxed);
        self.launched_modes.lock().unwrap().push(self.mode);
        let (commands, command_receiver) = bounded(4);
        let (message_sender, messages) = bounded(64);
        let killed = Arc::new(AtomicBool::new(false));
        let engine = FakeEngine {
            launch,
            script: Arc::clone(&self.script),
            state: self.state.clone(),
            device: match device {
                DeviceChoice::Auto => DeviceChoice::Cpu,
                device => device,
            },
            commands: command_receiver,
            messages: message_sender,
            killed: Arc::clone(&killed),
        };
        thread::Builder::new()
            .name("fake-engine".to_owned())
            .spawn(move || engine.run())
            .unwrap();
        Ok(EngineLink {
            commands,
            messages,
            control: Box::new(FakeControl {
                killed,
                is_out_of_memory: Arc::clone(&self.is_out_of_memory),
            }),
        })
    }
}

struct FakeEngine {
    launch: u32,
    script: Script,
    state: FakeState,
    device: DeviceChoice,
    commands: Receiver<EngineCommand>,
    messages: Sender<IncomingMessage>,
    killed: Arc<AtomicBool>,
}

impl FakeEngine {
    fn run(self) {
        let report = EngineReport {
            class: None,
            protocol: PROTOCOL_VERSION,
            libtorch: self.state.libtorch.lock().unwrap().clone(),
            device: self.device,
            device_name: "fake".to_owned(),
            pci: String::new(),
            total_bytes: 1,
            used_bytes: 0,
            line: "a fake device".to_owned(),
            gpu_problem: self.state.gpu_problem.lock().unwrap().clone(),
            addresses: None,
        };
        self.send(EngineMessage::Ready(report));
        while let Ok(command) = self.commands.recv() {
            let end = match command {
                EngineCommand::RunStage(order) => {
                    let told = (order.stage, order.memory);
                    self.state.told.lock().unwrap().push(told);
                    let section = (order.stage, order.section);
                    self.state.sections.lock().unwrap().push(section);
                    self.end_of(order.stage, order.memory, |act| match &order.request {
                        JobRequest::Generate(request) => self.generate(&order, request, act),
                        JobRequest::Finish(request) => self.finish(order.first_frame, request),
                    })
                }
                _ => continue,
            };
            let Some(end) = end else {
                return;
            };
            self.send(EngineMessage::StageEnded(end));
        }
    }

    /// How a stage ends, whose work this is; `None` where the engine does not live through it.
    fn end_of(
        &self,
        stage: Stage,
        memory: StageMemory,
        work: impl FnOnce(Act),
    ) -> Option<StageEnd> {
        self.state.stages.lock().unwrap().push(stage);
        Some(match (self.script)(self.launch, stage) {
            Act::Die => return None,
            Act::Hang => {
                while !self.killed.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(5));
                }
                return None;
            }
            Act::UntilCancelled => loop {
                match self.commands.recv() {
                    Ok(EngineCommand::Cancel) => break StageEnd::Cancelled,
                    Ok(_) => {}
                    Err(_) => return None,
                }
            },
            Act::Fail => StageEnd::Failed {
                error: JobError::new(JobErrorKind::BadModel, "a file is not what it should be"),
            },
            Act::FailBelow(fault, rung) if memory.rung < rung => StageEnd::Failed {
                error: JobError::new(JobErrorKind::OutOfMemory, "the device's memory ran out")
                    .with_fault(Some(fault)),
            },
            act => {
                work(act);
                self.state.worked.fetch_add(1, Ordering::Relaxed);
                StageEnd::Finished {
                    secs: 0.0,
                    peak_bytes: 0,
                }
            }
        })
    }

    fn generate(&self, order: &StageOrder, request: &GenerateRequest, act: Act) {
        if act == Act::GoOn {
            self.go_on();
        }
        let count = if act == Act::Flood { 2000 } else { 2 };
        let all = match request.sections {
            Some(sections) => sections.decoded(order.section).num_frames,
            None => request.num_decoded() as u32,
        };
        let num_frames = if act == Act::LoseFrames { 3 } else { all };
        self.work(order, count, num_frames);
        if act == Act::MakeSound {
            let message = EngineMessage::Sound {
                channels: 2,
                rate: 48_000,
            };
            let samples = 0.5_f32.to_le_bytes().repeat(19_200);
            self.messages.send((message, samples)).ok();
        }
    }

    /// Black frames in the size of the result.
    fn finish(&self, first_frame: u32, request: &PostprocessRequest) {
        let after = request.after;
        let black = vec![0; after.width as usize * after.height as usize * 3];
        for index in first_frame..after.num_frames {
            let header = PixelHeader {
                index,
                count: after.num_frames,
                width: after.width,
                height: after.height,
            };
            let frame = (EngineMessage::Frame(header), black.clone());
            self.messages.send(frame).ok();
        }
    }

    /// Steps 21 and 22 of 40.
    fn go_on(&self) {
        for step in 21..=22 {
            thread::sleep(Duration::from_millis(50));
            let num_steps = 40;
            self.send(EngineMessage::Step { step, num_steps });
        }
    }

    fn work(&self, order: &StageOrder, num_steps: u32, num_frames: u32) {
        for step in 1..=num_steps {
            self.send(EngineMessage::Step { step, num_steps });
            let memory = MemorySample {
                used_bytes: u64::from(step),
                ..MemorySample::default()
            };
            let ticks = u64::from(step);
            self.send(EngineMessage::Pulse { ticks, memory });
        }
        if order.stage == Stage::Decode {
            for index in 0..num_frames {
                let header = PixelHeader {
                    index,
                    count: 5,
                    width: 32,
                    height: 32,
                };
                let frame = (EngineMessage::Frame(header), pixels(order, index));
                self.messages.send(frame).ok();
            }
        }
        let folder = JobFolder::open(&order.folder);
        if let Some(path) = folder.section_result(order.stage, order.section) {
            std::fs::write(path, b"a result").unwrap();
        }
    }

    fn send(&self, message: EngineMessage) {
        self.messages.send((message, Vec::new())).ok();
    }
}

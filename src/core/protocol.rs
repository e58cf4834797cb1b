//! The messages between the app and its engine process, and their framing.
//!
//! A frame is two little-endian `u32` lengths, a JSON message of the first length, and raw bytes (pixels) of the
//! second. Nothing here starts a process or a thread.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::job::{DeviceChoice, JobError, JobId, JobRequest, Stage};
use crate::job_update::{MemoryReclaim, MemorySample};
use crate::memory::{DeviceClass, StageMemory};

/// Counted up when the messages change; both ends must agree.
pub const PROTOCOL_VERSION: u32 = 4;

/// No message is longer, so a stray write to the stream cannot ask for gigabytes.
const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// No image is larger: 16,384 × 16,384 RGB.
const MAX_PAYLOAD_BYTES: usize = 3 << 28;

/// A message of the engine with the pixels that follow it.
pub type OutgoingMessage = (EngineMessage, Vec<u8>);

/// From the app to the engine. The end of the stream ends the engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum EngineCommand {
    /// Makes this engine a rank of a group, which shares the stages that follow.
    Join(GroupMember),
    /// Measures the exchanges of the ranks of a job, which are started where they are not there.
    MeasureRanks(RankPlaces),
    RunStage(Box<StageOrder>),
    /// Sets the cancel flag of the running stage; read by a separate thread.
    Cancel,
}

/// Devices of the ranks of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPlaces {
    /// Devices of each computer; here the engine's own and those after it.
    pub devices: u32,
    /// Other computers, as ssh knows them.
    pub hosts: Vec<String>,
}

/// Addresses on the connection between two computers of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankAddresses {
    /// Of the computer of the first rank.
    pub first: String,
    pub own: String,
}

/// A rank of a group of engines that share the stages of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupMember {
    /// Counted from 0; the first one started the others.
    pub rank: usize,
    pub ranks: usize,
    /// Address of the first rank, and the port where CPUs meet.
    pub host: String,
    /// Address of this rank for the others.
    pub own: String,
    pub port: u16,
    /// Name of the group for NCCL; empty on CPUs.
    pub nccl: Vec<u8>,
}

/// One stage of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageOrder {
    pub job: JobId,
    pub stage: Stage,
    /// The job's folder.
    pub folder: PathBuf,
    pub request: JobRequest,
    /// Occurrence of the stage in the recipe, counted from 0.
    ///
    /// With [`VideoSections`](crate::job::VideoSections) this is the section, in the order of generation. `Denoise`
    /// writes its latents only to [`JobFolder::section_result`](crate::job::JobFolder::section_result), so that every
    /// section can be decoded, and the next one denoised, by an engine that ran none of the earlier ones: it reads what
    /// it needs from there.
    ///
    /// `Decode` decodes the last latents after this section as
    /// [`VideoSections::decoded`](crate::job::VideoSections::decoded) describes, blends the frames that it shares with
    /// the section before (the section's original frames, whatever was blended there since), and sends all of them,
    /// with indices from 0 and the count `num_frames`. The receiver inserts them into the video at `at`, replacing
    /// `replaces` frames. A `Decode` may be repeated, in any order.
    #[serde(default)]
    pub section: u32,
    /// First frame of the result that `Upscale` and `Interpolate` compute, counted from 0. They send it and all later
    /// frames, each with its number and the number of all.
    #[serde(default)]
    pub first_frame: u32,
    /// Memory limits of the stage, on each device.
    #[serde(default)]
    pub memory: StageMemory,
    /// Devices that share the stage, on all computers: here the engine's own and those after it. Stages that are not
    /// shared ignore it.
    #[serde(default = "one_device")]
    pub devices: u32,
    /// Write `capture.<stage>.safetensors` parts into the job's folder.
    pub capture: bool,
}

fn one_device() -> u32 {
    1
}

/// From the engine to the app.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum EngineMessage {
    /// The first message of an engine that can work.
    Ready(EngineReport),
    /// The first and last message of one that cannot.
    Refused(JobError),
    Step {
        step: u32,
        num_steps: u32,
    },
    /// Pixels follow as raw RGB bytes.
    Preview(PixelHeader),
    /// Pixels follow as raw RGB bytes, and after them the opacity of each pixel in images with alpha. With sections the frames of one: see [`StageOrder::section`].
    Frame(PixelHeader),
    /// The sound of the result. Samples in -1..1 follow as little-endian f32, those of all channels side by side.
    Sound {
        channels: u16,
        rate: u32,
    },
    /// Sent several times per second while a stage runs. `ticks` counts the checks of the cancel flag: if it does not
    /// change, the stage hangs.
    Pulse {
        ticks: u64,
        memory: MemorySample,
    },
    /// Memory was given back between two parts of the work.
    Reclaimed(MemoryReclaim),
    Warning {
        text: String,
    },
    StageEnded(StageEnd),
    /// Rate at which each rank sends to the others, and receives from them, when all do so at once.
    RanksMeasured {
        bytes_per_sec: f64,
    },
}

/// Version and device of the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineReport {
    pub protocol: u32,
    pub libtorch: String,
    pub device: DeviceChoice,
    pub device_name: String,
    /// The device's place on the bus, such as `0000:c4:00.0`; empty where there is none.
    #[serde(default)]
    pub pci: String,
    pub total_bytes: u64,
    /// Memory of all programs on the device when the engine had started, including its context.
    #[serde(default)]
    pub used_bytes: u64,
    /// Relation of its memory to the host's, if its driver reports it.
    pub class: Option<DeviceClass>,
    /// One line: which device it got, and why not a better one where it did not.
    pub line: String,
    /// Reason why the CPU is used although its libtorch is for a GPU and the CPU was not requested.
    pub gpu_problem: Option<String>,
    /// Of a rank on another computer, where ssh says so.
    #[serde(default)]
    pub addresses: Option<RankAddresses>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PixelHeader {
    pub index: u32,
    pub count: u32,
    pub width: u32,
    pub height: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum StageEnd {
    Finished {
        secs: f64,
        /// The most bytes of tensors at once.
        #[serde(default)]
        peak_bytes: u64,
    },
    Cancelled,
    Failed {
        error: JobError,
    },
}

/// Writes one frame and flushes it.
pub fn write_frame<T: Serialize>(
    out: &mut impl Write,
    message: &T,
    payload: &[u8],
) -> io::Result<()> {
    let json = serde_json::to_vec(message).map_err(io::Error::other)?;
    let json_len = u32::try_from(json.len()).map_err(io::Error::other)?;
    let payload_len = u32::try_from(payload.len()).map_err(io::Error::other)?;
    out.write_all(&json_len.to_le_bytes())?;
    out.write_all(&payload_len.to_le_bytes())?;
    out.write_all(&json)?;
    out.write_all(payload)?;
    out.flush()
}

/// Reads one frame; `None` at the end of the stream between two frames.
pub fn read_frame<T: DeserializeOwned>(input: &mut impl Read) -> io::Result<Option<(T, Vec<u8>)>> {
    let mut lengths = [0; 8];
    match input.read(&mut lengths)? {
        0 => return Ok(None),
        got => input.read_exact(&mut lengths[got..])?,
    }
    let [a, b, c, d, e, f, g, h] = lengths;
    let json_len = u32::from_le_bytes([a, b, c, d]) as usize;
    let payload_len = u32::from_le_bytes([e, f, g, h]) as usize;
    if json_len > MAX_MESSAGE_BYTES || payload_len > MAX_PAYLOAD_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("expected a frame, found lengths of {json_len} and {payload_len} bytes"),
        ));
    }
    let mut json = vec![0; json_len];
    input.read_exact(&mut json)?;
    let message = serde_json::from_slice(&json)
        .map_err(|err| io::Error::new(io::ErrorKind::InvalidData, err))?;
    let mut payload = vec![0; payload_len];
    input.read_exact(&mut payload)?;
    Ok(Some((message, payload)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_with_its_pixels() {
        let message = EngineMessage::Frame(PixelHeader {
            index: 3,
            count: 17,
            width: 2,
            height: 1,
        });
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &message, &[1, 2, 3, 4, 5, 6]).unwrap();
        let mut input = bytes.as_slice();
        let (read, payload) = read_frame::<EngineMessage>(&mut input).unwrap().unwrap();
        assert_eq!(read, message);
        assert_eq!(payload, [1, 2, 3, 4, 5, 6]);
        assert!(read_frame::<EngineMessage>(&mut input).unwrap().is_none());
    }

    #[test]
    fn a_cut_frame_is_an_error_and_not_an_end() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &EngineCommand::Cancel, &[]).unwrap();
        for cut in 1..bytes.len() {
            let holds = read_frame::<EngineCommand>(&mut &bytes[..cut]).is_err();
            assert!(holds, "cut at {cut}");
        }
    }

    #[test]
    fn text_on_the_stream_is_refused_before_anything_is_allocated() {
        let err = read_frame::<EngineMessage>(&mut b"Warning: something\n".as_slice()).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::InvalidData);
    }
}

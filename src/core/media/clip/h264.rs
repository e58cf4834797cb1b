//! H.264 through OpenH264, frame by frame, in the form that an MP4 wants: NAL units with their length in
//! front, and the parameter sets apart.
//!
//! The quantiser is fixed, so every frame has the same quality however the clip moves.

use std::ffi::c_int;
use std::ops::RangeInclusive;

use openh264::OpenH264API;
use openh264::encoder::{
    BitRate, Complexity, Encoder, EncoderConfig, FrameRate, FrameType, IntraFramePeriod, Profile,
    QpRange, RateControlMode, UsageType, VuiConfig,
};
use openh264::formats::YUVSlices;
use openh264_sys2::ENCODER_OPTION_TRACE_LEVEL;

use super::yuv::Planes;

/// The largest frame that the encoder takes, lying or standing.
pub(super) const MAX_LONG_SIDE: u32 = 3840;
pub(super) const MAX_SHORT_SIDE: u32 = 2160;

/// Frames are padded at least to one macroblock.
pub(super) const MIN_SIDE: u32 = 16;

/// So many frames apart a player can start: two seconds at 24 frames a second.
const FRAMES_BETWEEN_KEYFRAMES: u32 = 48;

/// The finest quantiser that the encoder's rate control admits.
const FINEST_QUANTISER: u8 = 12;

pub(super) struct H264 {
    encoder: Encoder,
    /// Sequence and picture parameter sets, from the first keyframe.
    pub sps: Vec<u8>,
    pub pps: Vec<u8>,
    /// All samples one after the other.
    pub bytes: Vec<u8>,
    pub sizes: Vec<u32>,
    /// Counted from 1, as an MP4 counts them.
    pub keyframes: Vec<u32>,
}

impl H264 {
    pub fn new(width: u32, height: u32, fps: f64, crf: u8) -> Result<Self, String> {
        // With a fixed quantiser it limits nothing, but the level that players see comes from it: a bit
        // a pixel is more than most clips have.
        let bits = (f64::from(width) * f64::from(height) * fps).clamp(500e3, 200e6);
        let qp = quantiser_from_crf(crf);
        let config = EncoderConfig::new()
            .usage_type(UsageType::CameraVideoRealTime)
            .rate_control_mode(RateControlMode::Quality)
            .qp(QpRange::new(qp, qp))
            .bitrate(BitRate::from_bps(bits as u32))
            // It knows no more than 60, and uses it for rate control only.
            .max_frame_rate(FrameRate::from_hz(fps.clamp(1.0, 60.0) as f32))
            .intra_frame_period(IntraFramePeriod::from_num_frames(FRAMES_BETWEEN_KEYFRAMES))
            .profile(Profile::High)
            .complexity(Complexity::High)
            // Each of these trades frames or fidelity for bits.
            .skip_frames(false)
            .adaptive_quantization(false)
            .background_detection(false)
            // The same file on every machine.
            .num_threads(1)
            .vui(VuiConfig::bt709());
        let mut encoder = Encoder::with_api_config(OpenH264API::from_source(), config)
            .map_err(|err| err.to_string())?;
        silence(&mut encoder);
        Ok(Self {
            encoder,
            sps: Vec::new(),
            pps: Vec::new(),
            bytes: Vec::new(),
            sizes: Vec::new(),
            keyframes: Vec::new(),
        })
    }

    pub fn push(&mut self, planes: &Planes) -> Result<(), String> {
        let (width, height) = (planes.width, planes.height);
        let source = YUVSlices::new(
            (&planes.y, &planes.u, &planes.v),
            (width, height),
            (width, width / 2, width / 2),
        );
        let encoded = self
            .encoder
            .encode(&source)
            .map_err(|err| err.to_string())?;
        match encoded.frame_type() {
            FrameType::IDR => self.keyframes.push(self.sizes.len() as u32 + 1),
            FrameType::I | FrameType::P | FrameType::IPMixed => {}
            FrameType::Invalid | FrameType::Skip => return Err("it left a frame out".to_owned()),
        }
        let before = self.bytes.len();
        for layer in (0..encoded.num_layers()).filter_map(|i| encoded.layer(i)) {
            for unit in (0..layer.nal_count()).filter_map(|i| layer.nal_unit(i)) {
                let unit = without_start_code(unit);
                match unit.first().map(|header| header & 0x1f) {
                    // The parameter sets repeat with every keyframe and stand in the header once.
                    Some(7) => self.sps = unit.to_vec(),
                    Some(8) => self.pps = unit.to_vec(),
                    _ => {
                        self.bytes.extend((unit.len() as u32).to_be_bytes());
                        self.bytes.extend(unit);
                    }
                }
            }
        }
        self.sizes.push((self.bytes.len() - before) as u32);
        Ok(())
    }
}

fn without_start_code(unit: &[u8]) -> &[u8] {
    let zeros = unit.iter().take_while(|byte| **byte == 0).count();
    unit.get(zeros + 1..).unwrap_or_default()
}

/// Keeps the encoder from writing warnings to standard error, which belongs to the progress bar. The
/// wrapper does so too, but only after the encoder has warned about its configuration.
#[expect(unsafe_code, reason = "the wrapper has no safe call for it")]
fn silence(encoder: &mut Encoder) {
    let mut quiet: c_int = 0;
    // SAFETY: the option takes a pointer to an integer, which lives through the call, and is one of the
    // few that are valid before the encoder is initialised.
    unsafe {
        encoder.raw_api().set_option(
            ENCODER_OPTION_TRACE_LEVEL,
            std::ptr::from_mut(&mut quiet).cast(),
        );
    }
}

/// The rate factors that make a difference: finer ones than the first meet the finest quantiser.
pub(super) const RATE_FACTORS: RangeInclusive<u8> = 16..=51;

/// The quantiser that gives about the luma error that x264 gives with this constant rate factor, within
/// 2 dB from 16 to 28 on moving textures and soft gradients; the files are larger.
fn quantiser_from_crf(crf: u8) -> u8 {
    crf.saturating_sub(4).clamp(FINEST_QUANTISER, 51)
}

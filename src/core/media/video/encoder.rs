//! The one place that calls OpenH264's C++: a safe encoder of planes into NAL units.
//!
//! The wrapper crate is not used for encoding because it cannot switch on CABAC and fixed quantisers:
//! with what it offers, noise at a fine quantiser overflows and ends the video, and quantisers below 12 do not exist. It
//! also lets warnings reach standard error.

#![expect(unsafe_code, reason = "OpenH264 is C++ behind a table of functions")]

use std::ffi::c_int;
use std::ptr;

use openh264_sys2::source::APILoader;
use openh264_sys2::{
    CAMERA_VIDEO_REAL_TIME, CONSTANT_ID, ENCODER_OPTION_TRACE_LEVEL, HIGH_COMPLEXITY, ISVCEncoder,
    ISVCEncoderVtbl, PRO_HIGH, RC_OFF_MODE, SEncParamExt, SFrameBSInfo, SM_SINGLE_SLICE,
    SSourcePicture, videoFormatI420, videoFrameTypeI, videoFrameTypeIDR, videoFrameTypeP,
};

use safelight_loops::yuv::YuvPlanes;

/// BT.709's number in all three tables: primaries, transfer, matrix.
const BT709: u8 = 1;

pub(super) struct EncoderSettings {
    pub width: u32,
    pub height: u32,
    pub fps: f64,
    /// From 0, the best, to 51.
    pub quantiser: u8,
    pub frames_between_keyframes: u32,
}

pub(super) struct EncodedFrame {
    pub is_keyframe: bool,
    /// The frame's units, each without its start code.
    pub units: Vec<Vec<u8>>,
}

pub(super) struct H264Encoder {
    raw: *mut ISVCEncoder,
    width: usize,
    height: usize,
}

// SAFETY: the encoder owns all that it points to, runs on the caller's thread (it may use no others) and is only
// reached through `&mut self`.
unsafe impl Send for H264Encoder {}

impl H264Encoder {
    pub fn new(settings: &EncoderSettings) -> Result<Self, String> {
        let mut raw: *mut ISVCEncoder = ptr::null_mut();
        // SAFETY: the pointer is written to, and stays null when the call fails.
        let code = unsafe { APILoader::WelsCreateSVCEncoder(&raw mut raw) };
        if raw.is_null() {
            return Err(format!("it could not be made: code {code}"));
        }
        let (width, height) = (settings.width as usize, settings.height as usize);
        // From here on dropping it destroys it.
        let encoder = Self { raw, width, height };
        let table = encoder.table();
        let (Some(set_option), Some(get_defaults), Some(initialize)) =
            (table.SetOption, table.GetDefaultParams, table.InitializeExt)
        else {
            return Err("it lacks functions".to_owned());
        };
        let mut silence: c_int = 0;
        let mut parameters = SEncParamExt::default();
        // SAFETY: the encoder is alive. This option takes an integer and is valid before initialisation; the other two
        // calls take a whole parameter struct.
        let code = unsafe {
            set_option(
                raw,
                ENCODER_OPTION_TRACE_LEVEL,
                ptr::from_mut(&mut silence).cast(),
            );
            get_defaults(raw, &raw mut parameters);
            configure(&mut parameters, settings);
            initialize(raw, &raw const parameters)
        };
        if code == 0 {
            Ok(encoder)
        } else {
            Err(format!("it refused to start: code {code}"))
        }
    }

    pub fn encode(&mut self, planes: &YuvPlanes) -> Result<EncodedFrame, String> {
        let (width, height) = (self.width, self.height);
        let colours = width / 2 * (height / 2);
        let fits = (planes.width, planes.height) == (width, height)
            && planes.y.len() == width * height
            && planes.u.len() == colours
            && planes.v.len() == colours;
        let (Some(encode), true) = (self.table().EncodeFrame, fits) else {
            return Err("the frame has another size".to_owned());
        };
        let source = SSourcePicture {
            iColorFormat: videoFormatI420,
            iStride: [width as c_int, width as c_int / 2, width as c_int / 2, 0],
            pData: [
                planes.y.as_ptr().cast_mut(),
                planes.u.as_ptr().cast_mut(),
                planes.v.as_ptr().cast_mut(),
                ptr::null_mut(),
            ],
            iPicWidth: width as c_int,
            iPicHeight: height as c_int,
            ..SSourcePicture::default()
        };
        // Boxed: it is large, and most of it is never touched.
        let mut info = Box::<SFrameBSInfo>::default();
        // SAFETY: the planes have the strides and sizes that the source says, as checked above, and the
        // encoder only reads them; it writes to `info`.
        let code = unsafe { encode(self.raw, &raw const source, &raw mut *info) };
        if code != 0 {
            return Err(format!("it gave up on a frame: code {code}"));
        }
        let is_keyframe = match info.eFrameType {
            kind if kind == videoFrameTypeIDR => true,
            kind if kind == videoFrameTypeI || kind == videoFrameTypeP => false,
            kind => return Err(format!("it left a frame out: kind {kind}")),
        };
        // SAFETY: the call succeeded, and the encoder is not touched before the units are copied.
        let units = unsafe { units_of(&info) };
        Ok(EncodedFrame { is_keyframe, units })
    }

    fn table(&self) -> &ISVCEncoderVtbl {
        // SAFETY: `raw` points to a live object whose first word points to its table of functions, which is static;
        // `new` lets nothing else through.
        unsafe { &**self.raw }
    }
}

impl Drop for H264Encoder {
    fn drop(&mut self) {
        // SAFETY: the encoder was made by the matching call and is not used again.
        unsafe {
            if let Some(uninitialize) = self.table().Uninitialize {
                uninitialize(self.raw);
            }
            APILoader::WelsDestroySVCEncoder(self.raw);
        }
    }
}

fn configure(parameters: &mut SEncParamExt, settings: &EncoderSettings) {
    let (width, height) = (settings.width as c_int, settings.height as c_int);
    // It knows no more than 60 frames a second, and they decide nothing but the level.
    let fps = settings.fps.clamp(1.0, 60.0);
    // Without rate control the level alone comes from it: a bit a pixel is more than most videos have.
    let bits = (f64::from(width) * f64::from(height) * fps).clamp(500e3, 200e6) as c_int;
    parameters.iUsageType = CAMERA_VIDEO_REAL_TIME;
    parameters.iPicWidth = width;
    parameters.iPicHeight = height;
    parameters.fMaxFrameRate = fps as f32;
    parameters.iTargetBitrate = bits;
    parameters.iRCMode = RC_OFF_MODE;
    parameters.iEntropyCodingModeFlag = 1;
    parameters.iComplexityMode = HIGH_COMPLEXITY;
    parameters.uiIntraPeriod = settings.frames_between_keyframes;
    parameters.eSpsPpsIdStrategy = CONSTANT_ID;
    parameters.iTemporalLayerNum = 1;
    parameters.iSpatialLayerNum = 1;
    // For identical files on every machine.
    parameters.iMultipleThreadIdc = 1;
    // Means nothing with one thread, but its default halves the buffers, and then noise at a fine quantiser does not
    // fit.
    parameters.bUseLoadBalancing = false;
    // Each of these trades frames or fidelity for bits.
    parameters.bEnableFrameSkip = false;
    parameters.bEnableAdaptiveQuant = false;
    parameters.bEnableBackgroundDetection = false;
    parameters.bEnableSceneChangeDetect = false;
    parameters.bEnableDenoise = false;
    parameters.bEnableLongTermReference = false;
    let layer = &mut parameters.sSpatialLayers[0];
    layer.iVideoWidth = width;
    layer.iVideoHeight = height;
    layer.fFrameRate = fps as f32;
    layer.iSpatialBitrate = bits;
    layer.iDLayerQp = settings.quantiser.into();
    layer.uiProfileIdc = PRO_HIGH;
    layer.sSliceArgument.uiSliceMode = SM_SINGLE_SLICE;
    layer.sSliceArgument.uiSliceNum = 1;
    layer.bVideoSignalTypePresent = true;
    layer.bColorDescriptionPresent = true;
    layer.bFullRange = false;
    layer.uiColorPrimaries = BT709;
    layer.uiTransferCharacteristics = BT709;
    layer.uiColorMatrix = BT709;
}

/// Copies the units of a frame out of the encoder's buffers.
///
/// # Safety
///
/// `info` must have been filled by a successful call whose encoder has not been used since.
unsafe fn units_of(info: &SFrameBSInfo) -> Vec<Vec<u8>> {
    let mut units = Vec::new();
    for layer in info.sLayerInfo.iter().take(info.iLayerNum.max(0) as usize) {
        let mut at = 0;
        for i in 0..layer.iNalCount.max(0) as usize {
            // SAFETY: the layer lists as many lengths as it has units, which follow each other in its buffer.
            let unit = unsafe {
                let len = (*layer.pNalLengthInByte.add(i)).max(0) as usize;
                let unit = std::slice::from_raw_parts(layer.pBsBuf.add(at), len);
                at += len;
                unit
            };
            let zeros = unit.iter().take_while(|byte| **byte == 0).count();
            // The start code is zeros and a one.
            units.push(unit.get(zeros + 1..).unwrap_or_default().to_vec());
        }
    }
    units
}

//! A GIF with a palette for each frame, and the settings as its comment.
//!
//! A GIF counts time in hundredths of a second and players refuse less than two of them: frames that come faster are
//! left out, so that the video keeps its length.

use std::borrow::Cow;

use gif::{AnyExtension, Encoder, EncodingError, Frame, Repeat};
use safelight_loops::palette;

use super::FrameTimes;
use crate::formats::gif::COMMENT;
use crate::media::RgbPixels;

/// The format's own limit for a side.
pub(super) const MAX_SIDE: u32 = 65535;

const SHORTEST_DELAY: u64 = 2;

pub(super) struct GifWriter {
    encoder: Encoder<Vec<u8>>,
    times: FrameTimes,
    pushed: u64,
    /// The next frame that is shown.
    next: u64,
}

impl GifWriter {
    pub fn new(
        width: u32,
        height: u32,
        times: FrameTimes,
        settings: Option<&str>,
    ) -> Result<Self, String> {
        let wrong = |err: EncodingError| err.to_string();
        let mut encoder =
            Encoder::new(Vec::new(), width as u16, height as u16, &[]).map_err(wrong)?;
        let repeat = match times.num_plays {
            0 => Repeat::Infinite,
            plays => Repeat::Finite(plays - 1),
        };
        encoder.set_repeat(repeat).map_err(wrong)?;
        if let Some(settings) = settings {
            let blocks: Vec<&[u8]> = settings.as_bytes().chunks(255).collect();
            encoder
                .write_raw_extension(AnyExtension(COMMENT), &blocks)
                .map_err(wrong)?;
        }
        Ok(Self {
            encoder,
            times,
            pushed: 0,
            next: 0,
        })
    }

    pub fn push(&mut self, image: &RgbPixels) -> Result<(), String> {
        let shown = self.next;
        self.pushed += 1;
        if shown != self.pushed - 1 {
            return Ok(());
        }
        let start = |frame| self.times.start(frame, 100.0);
        self.next += 1;
        while start(self.next) - start(shown) < SHORTEST_DELAY {
            self.next += 1;
        }
        let delay = u16::try_from(start(self.next) - start(shown)).unwrap_or(u16::MAX);
        let (palette, indices) = palette::quantise(&image.rgb, image.width as usize);
        let frame = Frame {
            delay,
            width: image.width as u16,
            height: image.height as u16,
            palette: Some(palette),
            buffer: Cow::Owned(indices),
            ..Frame::default()
        };
        self.encoder
            .write_frame(&frame)
            .map_err(|err| err.to_string())
    }

    pub fn finish(self) -> Result<Vec<u8>, String> {
        self.encoder.into_inner().map_err(|err| err.to_string())
    }
}

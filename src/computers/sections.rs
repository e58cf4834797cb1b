//! Growing video of a job that is made in sections, between two computers: only frames that are new travel, as JPEG.

use std::path::PathBuf;
use std::sync::Arc;

use safelight_core::job::Video;
use safelight_core::job_update::SectionMade;
use safelight_core::media::{RgbPixels, jpeg_bytes, open_jpeg};
use serde::{Deserialize, Serialize};

/// The video so far. Its new frames follow, in their order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SectionHeader {
    section: u32,
    count: u32,
    fps: f64,
    /// On the computer that makes it.
    path: PathBuf,
    frames: Vec<SectionFrame>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum SectionFrame {
    /// Index in the video of the section before.
    Known(usize),
    /// Size of the JPEG, in bytes.
    New(usize),
}

/// Frames of the last section that was sent or received.
#[derive(Debug, Default)]
pub(super) struct GrowingVideo(Vec<Arc<RgbPixels>>);

impl GrowingVideo {
    /// The message of a section, with the bytes that follow it.
    pub(super) fn pack(&mut self, made: SectionMade) -> Result<(SectionHeader, Vec<u8>), String> {
        let mut bytes = Vec::new();
        let mut pack = |frame: &Arc<RgbPixels>| {
            let mut known = self.0.iter();
            if let Some(index) = known.position(|known| Arc::ptr_eq(known, frame)) {
                return Ok(SectionFrame::Known(index));
            }
            let jpeg = jpeg_bytes(frame)?;
            bytes.extend_from_slice(&jpeg);
            Ok::<_, String>(SectionFrame::New(jpeg.len()))
        };
        let header = SectionHeader {
            section: made.section,
            count: made.count,
            fps: made.video.fps,
            path: made.path,
            frames: made
                .video
                .frames
                .iter()
                .map(&mut pack)
                .collect::<Result<_, _>>()?,
        };
        self.0.clone_from(&made.video.frames);
        Ok((header, bytes))
    }

    /// The section that a message from `host` describes.
    pub(super) fn unpack(
        &mut self,
        host: &str,
        header: SectionHeader,
        mut bytes: &[u8],
    ) -> Result<SectionMade, String> {
        let mut unpack = |frame: SectionFrame| match frame {
            SectionFrame::Known(index) => {
                let known = self.0.get(index).cloned();
                known.ok_or_else(|| format!("there is no frame {index}"))
            }
            SectionFrame::New(size) => {
                let jpeg = bytes.split_off(..size).ok_or("a frame is incomplete")?;
                open_jpeg(jpeg).map(Arc::new)
            }
        };
        let frames = header.frames.into_iter().map(&mut unpack);
        self.0 = frames.collect::<Result<_, String>>()?;
        Ok(SectionMade {
            section: header.section,
            count: header.count,
            video: Arc::new(Video {
                frames: self.0.clone(),
                fps: header.fps,
            }),
            // As scp names it.
            path: format!("{host}:{}", header.path.display()).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_frames_of_a_growing_video_are_sent_and_a_repeated_message_changes_nothing() {
        let frame = |grey| {
            Arc::new(RgbPixels {
                width: 16,
                height: 8,
                rgb: vec![grey; 16 * 8 * 3],
                alpha: None,
            })
        };
        let [first, second, blended] = [20, 90, 200].map(frame);
        let made = |frames: &[&Arc<RgbPixels>]| SectionMade {
            section: 0,
            count: 2,
            video: Arc::new(Video {
                frames: frames.iter().map(|frame| Arc::clone(frame)).collect(),
                fps: 30.0,
            }),
            path: "/out/fox.mp4".into(),
        };
        let greys = |made: &SectionMade| {
            let frames = made.video.frames.iter();
            frames.map(|frame| frame.rgb[0]).collect::<Vec<_>>()
        };
        let (mut host, mut client) = (GrowingVideo::default(), GrowingVideo::default());
        let (header, bytes) = host.pack(made(&[&second, &first])).unwrap();
        let shown = client.unpack("me@box", header, &bytes).unwrap();
        assert_eq!(greys(&shown), [90, 20]);
        assert_eq!(shown.path, PathBuf::from("me@box:/out/fox.mp4"));
        let (header, bytes) = host.pack(made(&[&blended, &second])).unwrap();
        assert!(
            matches!(header.frames[..], [SectionFrame::New(size), SectionFrame::Known(0)] if size == bytes.len())
        );
        let cut = client.unpack("me@box", header.clone(), &bytes[1..]);
        assert!(cut.is_err());
        let shown = client.unpack("me@box", header, &bytes).unwrap();
        assert_eq!(greys(&shown), [200, 90]);
    }
}

//! An ffmpeg that writes images to its standard output, one after the other.

use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use image::{DynamicImage, GrayImage, ImageBuffer, RgbImage};

use super::open::{DecodeFailure, check_size};

/// Pixels of the images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FfmpegPixels {
    Grey8,
    Rgb8,
    Rgb16,
}

impl FfmpegPixels {
    /// Encoder and pixel format in ffmpeg.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Grey8 => ("pgm", "gray"),
            Self::Rgb8 => ("ppm", "rgb24"),
            Self::Rgb16 => ("ppm", "rgb48be"),
        }
    }
}

/// A running ffmpeg, ended when this is dropped.
pub(super) struct FfmpegImages {
    child: Child,
    output: BufReader<ChildStdout>,
    pixels: FfmpegPixels,
}

impl FfmpegImages {
    /// `input`: arguments up to the input, which may be `stdin`. `options`: those of the output.
    pub fn start<S: AsRef<OsStr>>(
        input: impl IntoIterator<Item = S>,
        stdin: Stdio,
        options: &[&str],
        pixels: FfmpegPixels,
    ) -> io::Result<Self> {
        let (encoder, format) = pixels.names();
        let mut child = Command::new("ffmpeg")
            .args(["-v", "error", "-nostdin"])
            .args(input)
            .args(["-fps_mode", "passthrough"])
            .args(options)
            .args(["-sws_flags", "accurate_rnd+full_chroma_int"])
            .args(["-f", "image2pipe", "-c:v", encoder])
            .args(["-pix_fmt", format, "-"])
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = child.stdout.take();
        let output = output.ok_or_else(|| io::Error::other("it has no output"))?;
        Ok(Self {
            child,
            output: BufReader::with_capacity(1 << 20, output),
            pixels,
        })
    }

    /// The next image, whose size passes `check`; `None` at the end.
    pub fn next(
        &mut self,
        check: impl Fn(u32, u32) -> Result<(), DecodeFailure>,
    ) -> Result<Option<DynamicImage>, DecodeFailure> {
        if self.output.fill_buf()?.is_empty() {
            return Ok(None);
        }
        read_pnm(&mut self.output, self.pixels, check).map(Some)
    }

    /// Waits for ffmpeg; returns whether it decoded everything.
    pub fn finish(mut self) -> bool {
        self.child.wait().is_ok_and(|status| status.success())
    }
}

impl Drop for FfmpegImages {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Reads a PGM or PPM image.
fn read_pnm(
    stream: &mut impl Read,
    pixels: FfmpegPixels,
    check: impl Fn(u32, u32) -> Result<(), DecodeFailure>,
) -> Result<DynamicImage, DecodeFailure> {
    // The kind, width and height, and the largest value, each before a white space.
    let mut header = [0_u32; 4];
    for number in &mut header {
        let mut word = Vec::new();
        loop {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            if byte[0].is_ascii_whitespace() {
                break;
            }
            word.push(byte[0]);
            if word.len() > 8 {
                return Err(DecodeFailure::Damaged("ffmpeg gave no images".to_owned()));
            }
        }
        *number = String::from_utf8_lossy(&word).parse().unwrap_or(0);
    }
    let [_, width, height, _] = header;
    check_size(width, height)?;
    check(width, height)?;
    let num_pixels = width as usize * height as usize;
    let bytes_a_pixel = match pixels {
        FfmpegPixels::Grey8 => 1,
        FfmpegPixels::Rgb8 => 3,
        FfmpegPixels::Rgb16 => 6,
    };
    let mut raw = vec![0; num_pixels * bytes_a_pixel];
    stream.read_exact(&mut raw)?;
    let image = match pixels {
        FfmpegPixels::Grey8 => GrayImage::from_raw(width, height, raw).map(DynamicImage::from),
        FfmpegPixels::Rgb8 => RgbImage::from_raw(width, height, raw).map(DynamicImage::from),
        FfmpegPixels::Rgb16 => {
            let words = raw.as_chunks().0.iter().map(|two| u16::from_be_bytes(*two));
            ImageBuffer::from_raw(width, height, words.collect()).map(DynamicImage::ImageRgb16)
        }
    };
    image.ok_or_else(DecodeFailure::too_much_memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &[u8], pixels: FfmpegPixels) -> Option<DynamicImage> {
        read_pnm(&mut &*file, pixels, |_, _| Ok(())).ok()
    }

    #[test]
    fn images_of_all_depths_are_read_and_cut_ones_are_refused() {
        for (header, bytes, pixels) in [
            ("P5 2 1 255\n", vec![1, 2], FfmpegPixels::Grey8),
            ("P6 1 1 255\n", vec![1, 2, 3], FfmpegPixels::Rgb8),
            (
                "P6 1 1 65535\n",
                vec![0, 1, 0, 2, 0, 3],
                FfmpegPixels::Rgb16,
            ),
        ] {
            let file = [header.as_bytes(), &bytes].concat();
            let image = read(&file, pixels).unwrap();
            assert_eq!(image.to_rgb16().height(), 1);
            assert_eq!(image.as_bytes().len(), bytes.len());
            assert!(read(&file[..file.len() - 1], pixels).is_none());
        }
        let deep = read(b"P6 1 1 65535\n\0\x01\0\x02\0\x03", FfmpegPixels::Rgb16);
        assert_eq!(deep.unwrap().into_rgb16().into_raw(), [1, 2, 3]);
        for damaged in ["", "P6 0 1 255\n", "P6 99999 99999 255\n", "P6 123456789"] {
            assert!(
                read(damaged.as_bytes(), FfmpegPixels::Rgb8).is_none(),
                "{damaged}"
            );
        }
    }
}

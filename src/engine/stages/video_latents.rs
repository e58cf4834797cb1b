//! Size of a video's latents.

/// Channels, frames, rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoLatentShape {
    pub channels: i64,
    pub frames: i64,
    pub height: i64,
    pub width: i64,
}

impl VideoLatentShape {
    #[must_use]
    pub fn with_frames(self, frames: i64) -> Self {
        Self { frames, ..self }
    }

    /// `(1, C, f, h, w)`
    pub fn size(&self) -> [i64; 5] {
        [1, self.channels, self.frames, self.height, self.width]
    }

    /// Tokens of one group of latent frames, and the number of such groups.
    pub fn tokens(&self, [t, h, w]: [i64; 3]) -> (i64, i64) {
        ((self.height / h) * (self.width / w), self.frames / t)
    }
}

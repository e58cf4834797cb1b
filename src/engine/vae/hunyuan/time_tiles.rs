//! A video in overlapping stretches of time, and how their results become one video again, as diffusers does it.
//!
//! Every stretch but the first begins one latent early, for what comes before it, and gives that one up again. Then it
//! is blended into the end of the one before. Knows no network.

use tch::Tensor;

use crate::vae::tiles::{TileScheme, blend};

/// Latents of a stretch, without its first one.
const SIZE: i64 = 4;

/// Latents from one stretch to the next.
const STRIDE: i64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimeTiles {
    /// Of what goes in: frames for the encoder, latents for the decoder.
    len: i64,
    /// Input frames per latent.
    unit: i64,
    /// Output frames of the whole video.
    results: i64,
    /// Output frames per latent.
    cell: i64,
}

impl TimeTiles {
    /// Of `len` latents that become `factor` frames each, but for the first; `None` for few enough at once.
    pub(super) fn of_latents(len: i64, factor: i64) -> Option<Self> {
        (len > SIZE).then_some(Self {
            len,
            unit: 1,
            results: (len - 1) * factor + 1,
            cell: factor,
        })
    }

    /// Of `len` frames, of which `factor` become one latent, but for the first.
    pub(super) fn of_frames(len: i64, factor: i64) -> Option<Self> {
        (len > SIZE * factor).then_some(Self {
            len,
            unit: factor,
            results: (len - 1) / factor + 1,
            cell: 1,
        })
    }

    pub(super) fn stretches(self) -> impl Iterator<Item = (i64, i64)> {
        let longest = SIZE * self.unit + 1;
        (0..self.len)
            .step_by((STRIDE * self.unit) as usize)
            .map(move |start| (start, longest.min(self.len - start)))
    }
}

/// The results of stretches, `(T, ..)`, on their way to a whole video.
pub(super) struct TemporalBlender {
    tiles: TimeTiles,
    /// The end of the stretch before, for the next one's start.
    end: Option<Tensor>,
    given: i64,
}

impl TemporalBlender {
    pub(super) fn new(tiles: TimeTiles) -> Self {
        Self {
            tiles,
            end: None,
            given: 0,
        }
    }

    /// Takes the result of the next stretch, which is written to, and returns the new frames, `(t, ..)`; `None` if it
    /// adds none.
    pub(super) fn put(&mut self, result: &Tensor) -> Option<Tensor> {
        let TimeTiles { cell, results, .. } = self.tiles;
        let mut result = result.shallow_clone();
        let mut own = STRIDE * cell;
        match self.end.take() {
            None => own += 1,
            Some(end) => {
                result = result.narrow(0, 1, result.size()[0] - 1);
                let extent = end.size()[0];
                blend(&end, &result, 0, extent, TileScheme::Separate);
            }
        }
        let len = result.size()[0];
        let kept = len.min((SIZE - STRIDE) * cell);
        // A copy, so that the rest can go.
        self.end = Some(result.narrow(0, len - kept, kept).copy());
        let own = own.min(len).min(results - self.given);
        self.given += own;
        (own > 0).then(|| result.narrow(0, 0, own))
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::{TemporalBlender, TimeTiles};

    #[test]
    fn time_tiles_start_every_three_latents_and_the_last_is_shorter() {
        let found = |tiles: Option<TimeTiles>| tiles.map(|it| it.stretches().collect::<Vec<_>>());
        assert_eq!(found(TimeTiles::of_latents(4, 4)), None);
        let five = vec![(0, 5), (3, 2)];
        assert_eq!(found(TimeTiles::of_latents(5, 4)), Some(five));
        let nine = vec![(0, 5), (3, 5), (6, 3)];
        assert_eq!(found(TimeTiles::of_latents(9, 4)), Some(nine));
        assert_eq!(found(TimeTiles::of_frames(16, 4)), None);
        let frames = vec![(0, 17), (12, 5)];
        assert_eq!(found(TimeTiles::of_frames(17, 4)), Some(frames));
    }

    #[test]
    fn blended_time_tiles_return_every_frame_for_any_length() {
        for latents in 5..24 {
            let tiles = TimeTiles::of_latents(latents, 4).unwrap();
            let mut splice = TemporalBlender::new(tiles);
            let parts: Vec<Tensor> = tiles
                .stretches()
                .filter_map(|(start, len)| {
                    // Frames that know their place are blended with themselves.
                    let first = 4 * start - 3 * i64::from(start > 0);
                    let first = if start > 0 { first + 3 } else { first };
                    let count = (len - 1) * 4 + 1;
                    let frames =
                        Tensor::arange_start(first, first + count, (Kind::Float, Device::Cpu));
                    splice.put(&frames.view([-1, 1]))
                })
                .collect();
            let found = Tensor::cat(&parts, 0).view([-1]);
            let expected = Tensor::arange(4 * (latents - 1) + 1, (Kind::Float, Device::Cpu));
            assert_eq!(found.size(), expected.size(), "{latents}");
            assert!(found.allclose(&expected, 0.0, 1e-4, false), "{latents}");
        }
    }
}

//! 256 colours for a frame. A frame that has no more keeps them exactly; otherwise the cube of its colours is split
//! again and again where they spread most (Wu's method), and an ordered dither hides the steps. Ordered, because an
//! error that is diffused crawls from frame to frame.

use std::collections::BTreeMap;

const MAX_COLOURS: usize = 256;

/// Palette of an image with rows of `width` pixels, as RGB bytes, and one index per pixel.
pub fn quantise(rgb: &[u8], width: usize) -> (Vec<u8>, Vec<u8>) {
    exact(rgb).unwrap_or_else(|| approximate(rgb, width))
}

fn exact(rgb: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut known = BTreeMap::new();
    let mut palette = Vec::new();
    let mut indices = Vec::with_capacity(rgb.len() / 3);
    for colour in rgb.as_chunks::<3>().0 {
        let next = known.len();
        let index = *known.entry(*colour).or_insert(next);
        if index == MAX_COLOURS {
            return None;
        }
        if index == next {
            palette.extend(colour);
        }
        indices.push(index as u8);
    }
    Some((palette, indices))
}

fn approximate(rgb: &[u8], width: usize) -> (Vec<u8>, Vec<u8>) {
    let moments = ColorMoments::from_pixels(rgb);
    let boxes = split(&moments);
    let colours: Vec<[u8; 3]> = boxes.iter().map(|colours| moments.mean(colours)).collect();
    // The remaining variance inside the boxes is the mean distance of a pixel from its colour. Even steps are √12 times
    // that apart; three quarters of it hide them without looking coarse.
    let spread: f64 = boxes.iter().map(|colours| moments.spread(colours)).sum();
    let pixels = rgb.len() as f64 / 3.0;
    let amplitude = 0.75 * (12.0 * spread / (3.0 * pixels)).sqrt();

    let mut nearest = NearestColors::new(&colours);
    let mut indices = Vec::with_capacity(rgb.len() / 3);
    for (y, row) in rgb.chunks_exact(3 * width).enumerate() {
        for (x, colour) in row.as_chunks::<3>().0.iter().enumerate() {
            let offset = (amplitude * threshold(x, y)).round() as i32;
            let dithered = colour.map(|byte| (i32::from(byte) + offset).clamp(0, 255) as u8);
            indices.push(nearest.index(dithered));
        }
    }
    (colours.concat(), indices)
}

/// An 8 × 8 pattern of evenly spread numbers between −½ and ½ whose neighbours differ most.
fn threshold(x: usize, y: usize) -> f64 {
    let mut value = 0;
    for bit in 0..3 {
        let (x, y) = (x >> bit & 1, y >> bit & 1);
        value = value << 2 | (x ^ y) << 1 | y;
    }
    (f64::from(value as u8) + 0.5) / 64.0 - 0.5
}

/// Colours are counted in steps of eight; a row of zeros before them makes sums over boxes simple.
const SIDE: usize = 33;

fn cell(red: usize, green: usize, blue: usize) -> usize {
    (red * SIDE + green) * SIDE + blue
}

/// The cells above `low` up to `high`, for each channel.
#[derive(Clone, Copy)]
struct ColorBox {
    low: [usize; 3],
    high: [usize; 3],
}

/// Sums over all cells up to a corner: number of pixels, their three channels, their squares.
struct ColorMoments(Vec<[f64; 5]>);

impl ColorMoments {
    fn from_pixels(rgb: &[u8]) -> Self {
        let mut sums = vec![[0.0; 5]; SIDE * SIDE * SIDE];
        for colour in rgb.as_chunks::<3>().0 {
            let [red, green, blue] = colour.map(|byte| usize::from(byte >> 3) + 1);
            let [r, g, b] = colour.map(f64::from);
            let sum = &mut sums[cell(red, green, blue)];
            for (sum, value) in sum.iter_mut().zip([1.0, r, g, b, r * r + g * g + b * b]) {
                *sum += value;
            }
        }
        // Adding up along one channel after the other.
        for step in [SIDE * SIDE, SIDE, 1] {
            for at in 0..sums.len() {
                if at / step % SIDE > 0 {
                    let before = sums[at - step];
                    for (sum, value) in sums[at].iter_mut().zip(before) {
                        *sum += value;
                    }
                }
            }
        }
        Self(sums)
    }

    /// The sums over one box, from the eight corners.
    fn over(&self, colours: &ColorBox) -> [f64; 5] {
        let mut total = [0.0; 5];
        for corner in 0..8 {
            let side = |channel: usize| {
                let is_high = corner >> channel & 1 == 1;
                if is_high {
                    colours.high[channel]
                } else {
                    colours.low[channel]
                }
            };
            let sign = if u32::count_ones(corner) % 2 == 1 {
                1.0
            } else {
                -1.0
            };
            let sums = self.0[cell(side(0), side(1), side(2))];
            for (total, sum) in total.iter_mut().zip(sums) {
                *total += sign * sum;
            }
        }
        total
    }

    fn mean(&self, colours: &ColorBox) -> [u8; 3] {
        let [count, r, g, b, _] = self.over(colours);
        [r, g, b].map(|sum| (sum / count.max(1.0)).round().clamp(0.0, 255.0) as u8)
    }

    /// The sum of the squared distances from the mean.
    fn spread(&self, colours: &ColorBox) -> f64 {
        let sums = self.over(colours);
        (sums[4] - gathered(sums)).max(0.0)
    }

    /// The cut that leaves the least spread on its two sides, if there are two.
    fn best_cut(&self, colours: &ColorBox) -> Option<(ColorBox, ColorBox)> {
        let whole = self.over(colours);
        let mut best = (0.0, None);
        for channel in 0..3 {
            for at in colours.low[channel] + 1..colours.high[channel] {
                let (mut lower, mut upper) = (*colours, *colours);
                lower.high[channel] = at;
                upper.low[channel] = at;
                let below = self.over(&lower);
                let above = std::array::from_fn(|i| whole[i] - below[i]);
                if below[0] > 0.0 && above[0] > 0.0 {
                    let score = gathered(below) + gathered(above);
                    if score > best.0 {
                        best = (score, Some((lower, upper)));
                    }
                }
            }
        }
        best.1
    }
}

fn gathered([count, r, g, b, _]: [f64; 5]) -> f64 {
    if count > 0.0 {
        (r * r + g * g + b * b) / count
    } else {
        0.0
    }
}

fn split(moments: &ColorMoments) -> Vec<ColorBox> {
    let all = ColorBox {
        low: [0; 3],
        high: [SIDE - 1; 3],
    };
    let mut boxes = vec![(moments.spread(&all), all)];
    while boxes.len() < MAX_COLOURS {
        let widest = (0..boxes.len()).max_by(|a, b| boxes[*a].0.total_cmp(&boxes[*b].0));
        let Some(widest) = widest.filter(|i| boxes[*i].0 > 0.0) else {
            break;
        };
        if let Some((lower, upper)) = moments.best_cut(&boxes[widest].1) {
            boxes[widest] = (moments.spread(&lower), lower);
            boxes.push((moments.spread(&upper), upper));
        } else {
            // All in one cell: as fine as it gets.
            boxes[widest].0 = 0.0;
        }
    }
    boxes.into_iter().map(|(_, colours)| colours).collect()
}

/// Nearest palette entries of colours in steps of four, computed on first use.
struct NearestColors<'a> {
    palette: &'a [[u8; 3]],
    found: Vec<Option<u8>>,
}

impl<'a> NearestColors<'a> {
    fn new(palette: &'a [[u8; 3]]) -> Self {
        Self {
            palette,
            found: vec![None; 1 << 18],
        }
    }

    fn index(&mut self, colour: [u8; 3]) -> u8 {
        let at = colour
            .iter()
            .fold(0, |at, byte| at << 6 | usize::from(byte >> 2));
        if let Some(index) = self.found[at] {
            return index;
        }
        let middle = colour.map(|byte| i32::from(byte & !3) + 2);
        let distance = |entry: &[u8; 3]| -> i32 {
            (0..3)
                .map(|i| (middle[i] - i32::from(entry[i])).pow(2))
                .sum()
        };
        let nearest = (0..self.palette.len()).min_by_key(|i| distance(&self.palette[*i]));
        let index = nearest.unwrap_or_default() as u8;
        self.found[at] = Some(index);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(width: usize, height: usize, colour: impl Fn(usize, usize) -> [u8; 3]) -> Vec<u8> {
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        places.flat_map(|(x, y)| colour(x, y)).collect()
    }

    fn painted(rgb: &[u8], width: usize) -> Vec<u8> {
        let (palette, indices) = quantise(rgb, width);
        assert_eq!(indices.len() * 3, rgb.len());
        assert!(palette.len() <= MAX_COLOURS * 3);
        indices
            .iter()
            .flat_map(|i| &palette[usize::from(*i) * 3..][..3])
            .copied()
            .collect()
    }

    #[test]
    fn up_to_256_colours_stay_exact() {
        let rgb = rows(32, 16, |x, y| [x as u8 * 8, (y / 2) as u8 * 30, 7]);
        assert_eq!(painted(&rgb, 32), rgb);
    }

    #[test]
    fn many_colours_come_close_and_keep_their_mean() {
        let rgb = rows(128, 96, |x, y| {
            [
                (x * 2) as u8,
                (y * 2 + x / 4) as u8,
                (255 - x - y / 2) as u8,
            ]
        });
        let painted = painted(&rgb, 128);
        let off: Vec<i32> = painted
            .iter()
            .zip(&rgb)
            .map(|(a, b)| i32::from(*a) - i32::from(*b))
            .collect();
        let mean = off.iter().sum::<i32>() as f64 / off.len() as f64;
        let size = off.iter().map(|off| off.abs()).sum::<i32>() as f64 / off.len() as f64;
        assert!(mean.abs() < 0.5, "{mean}");
        assert!(size < 6.0, "{size}");
        assert!(off.iter().all(|off| off.abs() < 40));
    }

    #[test]
    fn the_dither_uses_every_level_once() {
        let mut levels: Vec<i32> = (0..64)
            .map(|i| ((threshold(i % 8, i / 8) + 0.5) * 64.0 - 0.5) as i32)
            .collect();
        levels.sort_unstable();
        assert_eq!(levels, (0..64).collect::<Vec<i32>>());
    }
}

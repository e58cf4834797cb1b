//! Colours under transparent pixels, and alpha at other sizes.

/// A level of the pyramid: colour sums weighted by alpha, and their weights.
struct PyramidLevel {
    width: usize,
    height: usize,
    sums: Vec<[f32; 4]>,
}

impl PyramidLevel {
    fn from_pixels(rgb: &[u8], alpha: &[u8], (width, height): (usize, usize)) -> Self {
        let pixels = rgb.as_chunks::<3>().0.iter().zip(alpha);
        let sums = pixels.map(|(rgb, alpha)| {
            let weight = f32::from(*alpha);
            let [r, g, b] = rgb.map(|it| f32::from(it) * weight);
            [r, g, b, weight]
        });
        Self {
            width,
            height,
            sums: sums.collect(),
        }
    }

    /// The means of 2 × 2 pixels.
    fn halved(&self) -> Self {
        let (width, height) = (self.width.div_ceil(2), self.height.div_ceil(2));
        let mut sums = vec![[0.0; 4]; width * height];
        for (at, pixel) in self.sums.iter().enumerate() {
            let (x, y) = (at % self.width, at / self.width);
            let sum = &mut sums[y / 2 * width + x / 2];
            for (sum, part) in sum.iter_mut().zip(pixel) {
                *sum += part / 4.0;
            }
        }
        Self {
            width,
            height,
            sums,
        }
    }

    /// Pixels without weight take the colour of the next smaller level.
    fn fill_from(&mut self, smaller: &Self) {
        for (at, pixel) in self.sums.iter_mut().enumerate() {
            if pixel[3] == 0.0 {
                let (x, y) = (at % self.width, at / self.width);
                *pixel = smaller.sums[y / 2 * smaller.width + x / 2];
            }
        }
    }
}

/// Replaces the colours of fully transparent pixels by those of the visible pixels around them. `alpha` has a value for
/// each pixel of `rgb`; where all are transparent, everything becomes black.
pub fn fill_transparent(rgb: &mut [u8], alpha: &[u8], size: (usize, usize)) {
    let mut levels = vec![PyramidLevel::from_pixels(rgb, alpha, size)];
    while let Some(last) = levels.last()
        && last.sums.len() > 1
    {
        let next = last.halved();
        levels.push(next);
    }
    let Some(mut filled) = levels.pop() else {
        return;
    };
    while let Some(mut level) = levels.pop() {
        level.fill_from(&filled);
        filled = level;
    }
    let pixels = rgb.as_chunks_mut::<3>().0.iter_mut();
    for ((pixel, alpha), [r, g, b, weight]) in pixels.zip(alpha).zip(filled.sums) {
        if *alpha == 0 {
            *pixel = [r, g, b].map(|sum| (sum / weight.max(f32::MIN_POSITIVE)).round() as u8);
        }
    }
}

/// Limits enlarged values to those of the four nearest ones before, so that a filter's overshoot draws no halos.
/// No side of `large` may be shorter than that of `small`.
pub fn limit_to_nearest(
    large: &mut [u8],
    (width, height): (usize, usize),
    small: &[u8],
    (old_width, old_height): (usize, usize),
) {
    let pair = |at: usize, side: usize, old: usize| {
        let place = (at as f64 + 0.5) * old as f64 / side as f64 - 0.5;
        let first = place.floor().max(0.0) as usize;
        let last = (place.ceil().max(0.0) as usize).min(old - 1);
        [first.min(old - 1), last]
    };
    let columns: Vec<[usize; 2]> = (0..width).map(|x| pair(x, width, old_width)).collect();
    for (y, row) in large.chunks_exact_mut(width).enumerate() {
        let rows = pair(y, height, old_height).map(|row| row * old_width);
        for (value, [left, right]) in row.iter_mut().zip(&columns) {
            let nearest = rows.map(|row| [small[row + left], small[row + right]]);
            let nearest = nearest.as_flattened();
            let (mut low, mut high) = (u8::MAX, 0);
            for near in nearest {
                (low, high) = (low.min(*near), high.max(*near));
            }
            *value = (*value).clamp(low, high);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transparent_pixels_take_the_colours_around_them() {
        let mut rgb = [[200, 10, 20], [1, 2, 3], [1, 2, 3], [0, 100, 0], [9, 9, 9]].concat();
        fill_transparent(&mut rgb, &[255, 0, 0, 1, 0], (5, 1));
        let expected = [[200, 10, 20], [200, 10, 20], [0, 100, 0], [0, 100, 0]];
        assert_eq!(rgb[..12], expected.concat());
        let mut hidden = [7; 12];
        fill_transparent(&mut hidden, &[0; 4], (2, 2));
        assert_eq!(hidden, [0; 12]);
    }

    #[test]
    fn an_edge_has_no_halo() {
        let mut large = [0, 9, 3, 120, 250, 255];
        limit_to_nearest(&mut large, (6, 1), &[0, 0, 255], (3, 1));
        assert_eq!(large, [0, 0, 0, 120, 250, 255]);
    }
}

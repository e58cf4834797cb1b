//! Soft edges of a whole mask: three box blurs, which together approximate a Gaussian.
//!
//! Takes the same time for any radius, and a second for the largest images, so it must not run on the GUI thread.

/// Mask with its edges softened over `radius` pixels to each side.
pub fn softened(width: u32, height: u32, values: &[u8], radius: u32) -> Vec<u8> {
    let (width, height) = (width as usize, height as usize);
    let mut now = values.to_vec();
    if radius == 0 || now.len() != width * height {
        return now;
    }
    // Three boxes of a third each have the requested reach.
    let reach = (radius as usize).div_ceil(3);
    let mut line = vec![0; width.max(height)];
    for _ in 0..3 {
        for row in now.chunks_exact_mut(width) {
            blur(row.len(), reach, |at| row[at], &mut line);
            row.copy_from_slice(&line[..width]);
        }
        for x in 0..width {
            blur(height, reach, |at| now[at * width + x], &mut line);
            for (y, value) in line[..height].iter().enumerate() {
                now[y * width + x] = *value;
            }
        }
    }
    now
}

/// Mean around each position of a line, with repeated ends.
fn blur(len: usize, reach: usize, value: impl Fn(usize) -> u8, out: &mut [u8]) {
    let Some(last) = len.checked_sub(1) else {
        return;
    };
    let window = 2 * reach as u64 + 1;
    let at = |index: usize| u64::from(value(index.min(last)));
    let mut sum = at(0) * (reach as u64 + 1) + (1..=reach).map(at).sum::<u64>();
    for (index, out) in out.iter_mut().enumerate().take(len) {
        *out = ((sum + window / 2) / window) as u8;
        sum += at(index + reach + 1);
        sum -= at(index.saturating_sub(reach));
    }
}

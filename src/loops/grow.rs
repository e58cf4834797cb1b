//! Growing of a whole mask by a number of pixels: the maximum over an octagon around each pixel.
//!
//! Takes the same time for any radius, and seconds for the largest images, so it must not run on the GUI thread.

/// Mask whose covered parts reach `radius` pixels further to all sides.
pub fn grown(width: u32, height: u32, values: &[u8], radius: u32) -> Vec<u8> {
    let (width, height) = (width as usize, height as usize);
    let mut grown = values.to_vec();
    if radius == 0 || grown.is_empty() || grown.len() != width * height {
        return grown;
    }
    // A square and two diagonals add up to an octagon, which is regular where the diagonals have this share. The
    // diagonals alone leave every second pixel out.
    let radius = radius as usize;
    let diagonal = ((radius as f64 * 0.293).round() as usize).min((radius - 1) / 2);
    let side = radius - 2 * diagonal;
    let (top, left) = (0..width, (0..height).map(|y| y * width));
    let right = left.clone().map(|start| start + width - 1);
    spread(&mut grown, left.clone(), side, |_| (1, width));
    spread(&mut grown, top.clone(), side, |_| (width, height));
    let down_right = top.clone().chain(left.skip(1));
    spread(&mut grown, down_right, diagonal, |start| {
        (
            width + 1,
            (width - start % width).min(height - start / width),
        )
    });
    if width > 1 {
        let down_left = top.chain(right.skip(1));
        spread(&mut grown, down_left, diagonal, |start| {
            (width - 1, (start % width + 1).min(height - start / width))
        });
    }
    grown
}

/// Maximum over `reach` pixels to both sides along lines, each of which begins at a start and has a step and a length.
fn spread(
    values: &mut [u8],
    starts: impl Iterator<Item = usize>,
    reach: usize,
    line_at: impl Fn(usize) -> (usize, usize),
) {
    if reach == 0 {
        return;
    }
    let window = 2 * reach + 1;
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    for start in starts {
        let (step, len) = line_at(start);
        // Blocks as long as the window: its maximum is that of the end of one block and the beginning of the next.
        forward.clear();
        forward.resize((len + 2 * reach).next_multiple_of(window), 0_u8);
        for at in 0..len {
            forward[reach + at] = values[start + at * step];
        }
        backward.clone_from(&forward);
        for block in forward.chunks_exact_mut(window) {
            for at in 1..window {
                block[at] = block[at].max(block[at - 1]);
            }
        }
        for block in backward.chunks_exact_mut(window) {
            for at in (0..window - 1).rev() {
                block[at] = block[at].max(block[at + 1]);
            }
        }
        for at in 0..len {
            values[start + at * step] = backward[at].max(forward[at + window - 1]);
        }
    }
}

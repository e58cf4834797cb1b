//! The edges of an image after Canny, to the pixel as OpenCV's `Canny` draws them: slopes by Sobel's 3×3 operator with
//! the border repeated, their size as the sum of both directions, thinned to lines, and weak lines kept where they touch
//! strong ones.

/// Of slopes at 22.5 degrees, in 15 bits.
const TAN_22: i64 = 13573;

/// Classes of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EdgeMark {
    None,
    /// An edge where it touches one.
    Weak,
    Edge,
}

/// The slope at a pixel, across and down, in the colour in which it is steepest; -1020..1020 each.
#[derive(Clone, Copy, Debug, Default)]
struct PixelGradient {
    x: i16,
    y: i16,
}

impl PixelGradient {
    fn size(self) -> u16 {
        self.x.unsigned_abs() + self.y.unsigned_abs()
    }
}

/// Canny edges of `rgb`, with `height` rows: a flag per pixel. `low`: gradient above which an edge continues; `high`:
/// above which it starts.
pub fn canny(rgb: &[u8], (width, height): (usize, usize), low: u16, high: u16) -> Vec<bool> {
    let slopes = slopes(rgb, width, height);
    let mut marks = vec![EdgeMark::None; width * height];
    let mut begun = Vec::new();
    for row in 0..height {
        for column in 0..width {
            let at = row * width + column;
            let slope = slopes[at];
            let size = slope.size();
            if size <= low || !is_crest(&slopes, (width, height), (column, row)) {
                continue;
            }
            marks[at] = EdgeMark::Weak;
            if size > high {
                marks[at] = EdgeMark::Edge;
                begun.push(at);
            }
        }
    }
    follow(&mut marks, begun, width, height);
    marks.iter().map(|mark| *mark == EdgeMark::Edge).collect()
}

/// Makes edges of the weak marks that lead on from edges, to all eight sides.
fn follow(marks: &mut [EdgeMark], mut begun: Vec<usize>, width: usize, height: usize) {
    while let Some(at) = begun.pop() {
        let (row, column) = (at / width, at % width);
        for row in row.saturating_sub(1)..=(row + 1).min(height - 1) {
            for column in column.saturating_sub(1)..=(column + 1).min(width - 1) {
                let near = row * width + column;
                if marks[near] == EdgeMark::Weak {
                    marks[near] = EdgeMark::Edge;
                    begun.push(near);
                }
            }
        }
    }
}

/// Returns whether the gradient is a local maximum along its direction. It is 0 beyond the border.
fn is_crest(
    slopes: &[PixelGradient],
    (width, height): (usize, usize),
    (column, row): (usize, usize),
) -> bool {
    let size_at = |across: isize, down: isize| {
        let column = column.checked_add_signed(across);
        let row = row.checked_add_signed(down);
        let inside = column.zip(row);
        let inside = inside.filter(|&(column, row)| column < width && row < height);
        inside.map_or(0, |(column, row)| slopes[row * width + column].size())
    };
    let slope = slopes[row * width + column];
    let size = slope.size();
    let x = i64::from(slope.x.unsigned_abs());
    let y = i64::from(slope.y.unsigned_abs()) << 15;
    let flat = x * TAN_22;
    let steep = flat + (x << 16);
    if y < flat {
        size > size_at(-1, 0) && size >= size_at(1, 0)
    } else if y > steep {
        size > size_at(0, -1) && size >= size_at(0, 1)
    } else {
        let side = if (slope.x ^ slope.y) < 0 { -1 } else { 1 };
        size > size_at(-side, -1) && size > size_at(side, 1)
    }
}

fn slopes(rgb: &[u8], width: usize, height: usize) -> Vec<PixelGradient> {
    let mut slopes = Vec::with_capacity(width * height);
    for row in 0..height {
        let rows = [row.saturating_sub(1), row, (row + 1).min(height - 1)];
        let rows = rows.map(|row| &rgb[row * width * 3..(row + 1) * width * 3]);
        for column in 0..width {
            let [left, right] = [column.saturating_sub(1), (column + 1).min(width - 1)];
            let of_colour = |colour: usize| {
                let at = |row: usize, column: usize| i16::from(rows[row][column * 3 + colour]);
                let down = |column| at(0, column) + 2 * at(1, column) + at(2, column);
                let across = |row| at(row, left) + 2 * at(row, column) + at(row, right);
                PixelGradient {
                    x: down(right) - down(left),
                    y: across(2) - across(0),
                }
            };
            let mut steepest = of_colour(0);
            for slope in [of_colour(1), of_colour(2)] {
                if slope.size() > steepest.size() {
                    steepest = slope;
                }
            }
            slopes.push(steepest);
        }
    }
    slopes
}

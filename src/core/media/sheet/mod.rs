//! Contact sheets: images in rows and columns with words next to them, drawn into one image of a bounded size.
//!
//! Knows neither jobs nor files.

mod lettering;

use image::imageops::replace;
use image::{Rgb, RgbImage};

use super::{MediaError, RgbPixels};
use lettering::TextRenderer;

/// The longer edge of a cell at most, in pixels.
const MAX_EDGE: u32 = 512;
/// And at least: smaller shows nothing.
const MIN_EDGE: u32 = 48;
/// Of all cells together.
const MAX_PIXELS: f64 = 24e6;
/// Largest edge of a sheet in pixels, which every program can show.
const MAX_SIDE: u32 = 12_288;

const GAP: u32 = 6;
/// Around words.
const MARGIN: u32 = 8;
const MAX_LINES: usize = 4;

const PAPER: [u8; 3] = [18, 19, 22];
const EMPTY: [u8; 3] = [34, 36, 41];
const INK: [u8; 3] = [226, 228, 232];
const FAINT: [u8; 3] = [150, 153, 160];

/// Labels above the columns and before the rows; a row's may be empty.
#[derive(Clone, Copy)]
pub struct SheetLabels<'a> {
    pub columns: &'a [String],
    pub rows: &'a [String],
}

/// Content of a cell.
pub enum SheetCell {
    /// At most as large as the cells are.
    Image(RgbPixels),
    /// Why there is none.
    Words(&'static str),
}

/// Position of a cell, in pixels of the sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SheetPlace {
    pub x: u32,
    pub y: u32,
    pub width: u32,
    pub height: u32,
}

pub struct ContactSheet {
    pub image: RgbPixels,
    /// Row by row.
    pub cells: Vec<SheetPlace>,
}

/// Maximum longer edge of the cells of a sheet with these columns and rows, in pixels.
pub fn sheet_edge(columns: usize, rows: usize) -> u32 {
    let (columns, rows) = (columns.max(1) as f64, rows.max(1) as f64);
    let by_area = (MAX_PIXELS / (columns * rows)).sqrt();
    let by_side = f64::from(MAX_SIDE) / columns.max(rows) - f64::from(GAP);
    // Not below what shows something, but where the sides would grow beyond all bounds.
    let edge = by_area.max(f64::from(MIN_EDGE)).min(by_side);
    (edge as u32).clamp(8, MAX_EDGE)
}

/// Draws the sheet; `cell` is called once for each cell, row by row, and its images are no larger than `size`.
pub fn draw_sheet(
    labels: SheetLabels<'_>,
    size: (u32, u32),
    cell: &mut dyn FnMut(usize) -> SheetCell,
) -> Result<ContactSheet, MediaError> {
    let (width, height) = size;
    let letters = TextRenderer::new((height.min(width) as f32 / 14.0).clamp(13.0, 26.0))?;
    let lines_of = |text: &str, room: u32| letters.wrapped(text, room, MAX_LINES);
    let heads: Vec<Vec<String>> = labels
        .columns
        .iter()
        .map(|text| lines_of(text, width.saturating_sub(MARGIN)))
        .collect();
    let widest = labels.rows.iter().map(|text| letters.width(text)).max();
    let before = match widest.unwrap_or_default() {
        0 => 0,
        widest => widest.min((width * 3 / 4).max(96)) + 2 * MARGIN,
    };
    // Words make no row much higher than its images.
    let most_before = ((height / letters.line()) as usize).clamp(1, MAX_LINES);
    let sides: Vec<Vec<String>> = labels
        .rows
        .iter()
        .map(|text| letters.wrapped(text, before.saturating_sub(2 * MARGIN), most_before))
        .collect();
    let most = heads.iter().map(Vec::len).max().unwrap_or_default() as u32;
    let above = most * letters.line() + 2 * MARGIN;
    let tallest = sides.iter().map(Vec::len).max().unwrap_or_default() as u32;
    let row = height.max(tallest * letters.line());
    let (columns, rows) = (labels.columns.len() as u32, labels.rows.len() as u32);
    let whole_width = before + GAP + columns * (width + GAP);
    let whole_height = above + rows * (row + GAP);
    let mut sheet = SheetCanvas::new(whole_width, whole_height);
    let left = |column: u32| before + GAP + column * (width + GAP);
    let top = |row_at: u32| above + row_at * (row + GAP);
    for (column, lines) in (0..).zip(&heads) {
        let middle = left(column) + width / 2;
        // The last line is close to the images.
        let y = above - MARGIN - lines.len() as u32 * letters.line();
        sheet.write(&letters, lines, (middle, y), INK);
    }
    for (at, lines) in (0..).zip(&sides) {
        let y = top(at) + (row - lines.len() as u32 * letters.line()) / 2;
        sheet.write(&letters, lines, (before / 2, y), INK);
    }
    let mut cells = Vec::new();
    for index in 0..columns * rows {
        let place = SheetPlace {
            x: left(index % columns),
            y: top(index / columns),
            width,
            height: row,
        };
        cells.push(place);
        match cell(index as usize) {
            SheetCell::Image(image) => {
                let x = place.x + width.saturating_sub(image.width) / 2;
                let y = place.y + row.saturating_sub(image.height) / 2;
                sheet.paste(image, (x, y));
            }
            SheetCell::Words(words) => {
                sheet.fill(place, EMPTY);
                let y = place.y + row.saturating_sub(letters.line()) / 2;
                let lines = lines_of(words, width);
                sheet.write(&letters, &lines, (place.x + width / 2, y), FAINT);
            }
        }
    }
    Ok(ContactSheet {
        image: sheet.image()?,
        cells,
    })
}

/// Pixels that are drawn on. Nothing outside is drawn.
struct SheetCanvas(RgbImage);

impl SheetCanvas {
    fn new(width: u32, height: u32) -> Self {
        Self(RgbImage::from_pixel(width, height, Rgb(PAPER)))
    }

    fn image(self) -> Result<RgbPixels, MediaError> {
        let (width, height) = self.0.dimensions();
        RgbPixels::new(width, height, self.0.into_raw())
    }

    fn fill(&mut self, place: SheetPlace, colour: [u8; 3]) {
        let filled = RgbImage::from_pixel(place.width, place.height, Rgb(colour));
        replace(&mut self.0, &filled, place.x.into(), place.y.into());
    }

    fn paste(&mut self, image: RgbPixels, (left, top): (u32, u32)) {
        if let Some(pasted) = RgbImage::from_raw(image.width, image.height, image.rgb) {
            replace(&mut self.0, &pasted, left.into(), top.into());
        }
    }

    /// Lines below each other, each centred; `y` is the top of the first.
    fn write(
        &mut self,
        letters: &TextRenderer,
        lines: &[String],
        (middle, mut y): (u32, u32),
        colour: [u8; 3],
    ) {
        for line in lines {
            let x = middle.saturating_sub(letters.width(line) / 2);
            letters.draw(line, (x, y), &mut |x, y, share| {
                if let Some(Rgb(pixel)) = self.0.get_pixel_mut_checked(x, y) {
                    for (below, ink) in pixel.iter_mut().zip(colour) {
                        let mixed = f32::from(*below) * (1.0 - share) + f32::from(ink) * share;
                        *below = mixed.round() as u8;
                    }
                }
            });
            y += letters.line();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn grid_sheet_draws_each_image_and_label_in_its_cell() {
        let (columns, rows) = (texts(&["Steps 4", "Steps 8"]), texts(&["Seed 1", "Seed 2"]));
        let labels = SheetLabels {
            columns: &columns,
            rows: &rows,
        };
        let sheet = draw_sheet(labels, (64, 48), &mut |index| {
            if index == 3 {
                return SheetCell::Words("Failed");
            }
            let colour = [50 * (index as u8 + 1), 7, 9];
            SheetCell::Image(RgbPixels::from_fn(64, 48, |_, _| colour).unwrap())
        })
        .unwrap();
        assert_eq!(sheet.cells.len(), 4);
        for (index, place) in sheet.cells.iter().take(3).enumerate() {
            let middle = (place.x + place.width / 2, place.y + place.height / 2);
            let expected = [50 * (index as u8 + 1), 7, 9];
            assert_eq!(sheet.image.pixel(middle.0, middle.1), expected);
        }
        let failed = sheet.cells[3];
        assert_eq!(sheet.image.pixel(failed.x, failed.y), EMPTY);
        let bright = |place: SheetPlace| {
            let ys = place.y..place.y + place.height;
            ys.flat_map(|y| (place.x..place.x + place.width).map(move |x| (x, y)))
                .filter(|(x, y)| sheet.image.pixel(*x, *y)[0] > 100)
                .count()
        };
        assert!(bright(failed) > 20, "the word is not there");
        let first = sheet.cells[0];
        let above = SheetPlace {
            y: 0,
            height: first.y,
            ..first
        };
        let before = SheetPlace {
            x: 0,
            width: first.x,
            ..first
        };
        assert!(bright(above) > 20 && bright(before) > 20, "no labels");
    }

    #[test]
    fn grid_sheet_size_is_bounded_for_any_number_of_cells_and_label_length() {
        for (columns, rows) in [(1, 1), (400, 1), (1, 400), (20, 20), (7, 57)] {
            let edge = sheet_edge(columns, rows);
            let long = "a very long text with many words ".repeat(9);
            let (across, down) = (vec![long.clone(); columns], vec![long; rows]);
            let labels = SheetLabels {
                columns: &across,
                rows: &down,
            };
            let sheet = draw_sheet(labels, (edge, edge), &mut |_| SheetCell::Words("Cancelled"));
            let image = sheet.unwrap().image;
            assert!(
                image.width <= 13_000 && image.height <= 24_000,
                "{columns} × {rows}: {image:?}"
            );
            let pixels = f64::from(image.width) * f64::from(image.height);
            assert!(pixels < 80e6, "{columns} × {rows}: {image:?}");
        }
    }
}

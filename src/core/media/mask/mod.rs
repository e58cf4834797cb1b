//! A mask that is painted: how much of each pixel of an image is made anew, with undo.
//!
//! Strokes, outlines, fills, growing and soft edges on plain grey pixels. Every change says which rectangle it touched, so that whoever
//! shows the mask renews no more than that. Draws no brush and knows no window.

mod capsule;
mod files;
mod history;
mod polygon;
#[cfg(test)]
mod tests;

use capsule::BrushCapsule;
pub use files::{mask_of_image, open_mask, write_mask};
use history::MaskHistory;
use polygon::covered_row;
use safelight_loops::grow::grown;
pub use safelight_loops::soften::softened;

/// A rectangle of pixels: from inclusive, to exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PixelArea {
    pub left: u32,
    pub top: u32,
    pub right: u32,
    pub bottom: u32,
}

impl PixelArea {
    pub fn is_empty(&self) -> bool {
        self.left >= self.right || self.top >= self.bottom
    }

    pub fn pixels(&self) -> u64 {
        let side = |from: u32, to: u32| u64::from(to.saturating_sub(from));
        side(self.left, self.right) * side(self.top, self.bottom)
    }

    /// The smallest rectangle around both.
    #[must_use]
    pub fn around(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        Self {
            left: self.left.min(other.left),
            top: self.top.min(other.top),
            right: self.right.max(other.right),
            bottom: self.bottom.max(other.bottom),
        }
    }

    /// Their intersection.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self {
            left: self.left.max(other.left),
            top: self.top.max(other.top),
            right: self.right.min(other.right),
            bottom: self.bottom.min(other.bottom),
        }
    }
}

/// Shape of a stroke.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaskBrush {
    /// Radius of the whole brush in pixels of the image.
    pub radius: f32,
    /// The part of the radius over which it fades, 0 to 1.
    pub softness: f32,
    pub erases: bool,
}

impl MaskBrush {
    /// Over how many pixels it fades.
    fn fade(&self) -> f32 {
        // An edge of one pixel is smooth; a harder one has steps.
        (self.radius * self.softness.clamp(0.0, 1.0)).max(1.0)
    }

    /// Within this distance everything is covered, with half a pixel to spare.
    fn full_radius(&self) -> f32 {
        self.radius - self.fade()
    }

    /// Covered part of a pixel at this distance, 0 to 1.
    fn coverage(&self, distance: f32) -> f32 {
        let part = ((self.radius + 0.5 - distance) / self.fade()).clamp(0.0, 1.0);
        part * part * (3.0 - 2.0 * part)
    }
}

/// Change of a whole mask by a number of pixels. Takes seconds for the largest ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskFilter {
    /// Softens all edges over this distance to each side.
    Feather(u32),
    Grow(u32),
    Shrink(u32),
}

/// A mask of an image's size: 255 is made anew, 0 stays.
#[derive(Clone, Debug)]
pub struct ImageMask {
    width: u32,
    height: u32,
    values: Vec<u8>,
    history: MaskHistory,
}

impl ImageMask {
    /// One that keeps the whole image.
    pub fn new(width: u32, height: u32) -> Self {
        let values = vec![0; width as usize * height as usize];
        Self::from_values(width, height, values)
    }

    /// One with these values, row by row; what is missing at the end stays as it is.
    pub fn from_values(width: u32, height: u32, mut values: Vec<u8>) -> Self {
        values.resize(width as usize * height as usize, 0);
        Self {
            width,
            height,
            values,
            history: MaskHistory::default(),
        }
    }

    pub fn width(&self) -> u32 {
        self.width
    }

    pub fn height(&self) -> u32 {
        self.height
    }

    /// Row by row from the top.
    pub fn values(&self) -> &[u8] {
        &self.values
    }

    pub fn whole(&self) -> PixelArea {
        PixelArea {
            left: 0,
            top: 0,
            right: self.width,
            bottom: self.height,
        }
    }

    /// The value at a place inside.
    pub fn value(&self, x: u32, y: u32) -> u8 {
        self.values[y as usize * self.width as usize + x as usize]
    }

    /// An area in squares of 2^`level` pixels, row by row: the mean of each. Beyond the mask there is nothing.
    pub fn means(&self, area: PixelArea, level: u32) -> Vec<u8> {
        let area = area.within(self.whole());
        let step = 1_usize << level;
        let width = self.width as usize;
        let (left, right) = (area.left as usize, area.right as usize);
        let mut means = Vec::new();
        for top in (area.top as usize..area.bottom as usize).step_by(step) {
            let bottom = (top + step).min(area.bottom as usize);
            if step == 1 {
                means.extend_from_slice(&self.values[top * width + left..top * width + right]);
                continue;
            }
            for from in (left..right).step_by(step) {
                let to = (from + step).min(right);
                let rows = (top..bottom).map(|y| &self.values[y * width + from..y * width + to]);
                let sum: u64 = rows.flatten().map(|value| u64::from(*value)).sum();
                let count = ((bottom - top) * (to - from)) as u64;
                means.push(((sum + count / 2) / count) as u8);
            }
        }
        means
    }

    pub fn can_undo(&self) -> bool {
        self.history.can_undo()
    }

    pub fn can_redo(&self) -> bool {
        self.history.can_redo()
    }

    /// Begins one step for undo; all changes until the next belong to it.
    pub fn begin_step(&mut self) {
        self.history.begin();
    }

    /// Draws the brush from one point to another, in pixels of the image.
    pub fn stroke(&mut self, from: [f32; 2], to: [f32; 2], brush: MaskBrush) -> PixelArea {
        let area = self.reach(from, to, brush.radius);
        if area.is_empty() {
            return area;
        }
        self.history
            .keep(area, self.width, self.height, &self.values);
        let line = BrushCapsule::new(from, to);
        let width = self.width as usize;
        let reach_squared = (brush.radius + 0.5) * (brush.radius + 0.5);
        let full = if brush.erases { 0 } else { 255 };
        for y in area.top..area.bottom {
            let middle = y as f32 + 0.5;
            let Some((left, right)) = line.across(middle, brush.radius + 1.0) else {
                continue;
            };
            let (first, last) = (area.left as usize, area.right as usize);
            let start = ((left - 0.5).floor().max(0.0) as usize).clamp(first, last);
            let end = ((right + 0.5).ceil().max(0.0) as usize).clamp(start, last);
            let row = &mut self.values[y as usize * width..][..width];
            // A large brush is full nearly everywhere.
            let inner = line.across(middle, brush.full_radius());
            let solid = inner.map_or(end..end, |(left, right)| {
                let from = ((left - 0.5).ceil().max(0.0) as usize).clamp(start, end);
                from..((right + 0.5).floor().max(0.0) as usize).clamp(from, end)
            });
            row[solid.clone()].fill(full);
            for x in (start..solid.start).chain(solid.end..end) {
                let away_squared = line.distance_squared(x as f32 + 0.5, middle);
                if row[x] == full || away_squared >= reach_squared {
                    continue;
                }
                let covered = brush.coverage(away_squared.sqrt());
                let value = (covered * 255.0).round() as u8;
                // The larger of both, so that a stroke over itself does not grow darker.
                row[x] = if brush.erases {
                    row[x].min(255 - value)
                } else {
                    row[x].max(value)
                };
            }
        }
        area
    }

    /// Paints or erases all that an outline surrounds, also where it crosses itself. Corners are in pixels of the image.
    pub fn fill_polygon(&mut self, corners: &[[f32; 2]], erases: bool) -> PixelArea {
        let areas = corners
            .iter()
            .map(|corner| self.reach(*corner, *corner, 0.0));
        let area = areas.fold(PixelArea::default(), PixelArea::around);
        if area.is_empty() {
            return area;
        }
        self.history
            .keep(area, self.width, self.height, &self.values);
        let columns = area.left as usize..area.right as usize;
        for y in area.top..area.bottom {
            let covered = covered_row(corners, y, columns.clone());
            let row = &mut self.values[y as usize * self.width as usize..][columns.clone()];
            for (value, covered) in row.iter_mut().zip(covered) {
                let covered = (covered.min(1.0) * 255.0).round() as u8;
                *value = if erases {
                    (*value).min(255 - covered)
                } else {
                    (*value).max(covered)
                };
            }
        }
        area
    }

    /// Values after a filter, row by row.
    pub fn filtered(&self, filter: MaskFilter) -> Vec<u8> {
        let (width, height, values) = (self.width, self.height, &self.values);
        match filter {
            MaskFilter::Feather(radius) => softened(width, height, values, radius),
            MaskFilter::Grow(radius) => grown(width, height, values, radius),
            MaskFilter::Shrink(radius) => {
                let inverse = |values: &[u8]| values.iter().map(|value| 255 - value).collect();
                let unpainted: Vec<u8> = inverse(values);
                inverse(&grown(width, height, &unpainted, radius))
            }
        }
    }

    /// The rectangle that a stroke can touch; empty where numbers are not finite or too large.
    fn reach(&self, from: [f32; 2], to: [f32; 2], radius: f32) -> PixelArea {
        // Strokes do not go farther, and numbers are too coarse.
        const FARTHEST: f32 = 1e6;
        let is_sound = from.iter().chain(&to).all(|value| value.abs() < FARTHEST)
            && radius.is_finite()
            && radius >= 0.0;
        if !is_sound {
            return PixelArea::default();
        }
        let margin = radius + 1.5;
        let low = |axis: usize| (from[axis].min(to[axis]) - margin).floor().max(0.0) as u32;
        let high = |axis: usize| (from[axis].max(to[axis]) + margin).ceil().max(0.0) as u32;
        PixelArea {
            left: low(0),
            top: low(1),
            right: high(0),
            bottom: high(1),
        }
        .within(self.whole())
    }

    /// Everything gets one value.
    pub fn fill(&mut self, value: u8) -> PixelArea {
        self.change_all(|values| values.fill(value))
    }

    /// Inverts the mask.
    pub fn invert(&mut self) -> PixelArea {
        self.change_all(|values| values.iter_mut().for_each(|value| *value = 255 - *value))
    }

    /// Other values for all, as one step.
    pub fn replace(&mut self, new: &[u8]) -> PixelArea {
        if new.len() != self.values.len() {
            return PixelArea::default();
        }
        self.change_all(|values| values.copy_from_slice(new))
    }

    fn change_all(&mut self, change: impl FnOnce(&mut [u8])) -> PixelArea {
        let whole = self.whole();
        self.history.begin();
        self.history
            .keep(whole, self.width, self.height, &self.values);
        change(&mut self.values);
        whole
    }

    /// Takes the last step back; what it touched.
    pub fn undo(&mut self) -> PixelArea {
        self.history.undo(self.width, self.height, &mut self.values)
    }

    /// Does again what was taken back.
    pub fn redo(&mut self) -> PixelArea {
        self.history.redo(self.width, self.height, &mut self.values)
    }
}

//! Undo history of a mask: for each step, the squares that it touched.
//!
//! A uniform square takes one byte. The oldest steps are dropped when all of them together are too large.

use std::collections::{BTreeMap, VecDeque};

use super::PixelArea;

/// The edge of a square.
const SIDE: u32 = 256;
/// Memory limit of all steps; an image of 8192 × 8192 has 64 MiB.
const MAX_BYTES: usize = 256 << 20;

/// One square as it was.
#[derive(Clone, Debug)]
enum MaskSquare {
    Plain(u8),
    Pixels(Box<[u8]>),
}

impl MaskSquare {
    fn bytes(&self) -> usize {
        match self {
            Self::Plain(_) => 1,
            Self::Pixels(pixels) => pixels.len(),
        }
    }
}

/// The squares that one step touched, by their column and row.
#[derive(Clone, Debug, Default)]
struct MaskStep(BTreeMap<(u32, u32), MaskSquare>);

impl MaskStep {
    fn bytes(&self) -> usize {
        self.0.values().map(MaskSquare::bytes).sum()
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct MaskHistory {
    done: VecDeque<MaskStep>,
    undone: Vec<MaskStep>,
}

impl MaskHistory {
    pub(super) fn can_undo(&self) -> bool {
        self.done.iter().any(|step| !step.0.is_empty())
    }

    pub(super) fn can_redo(&self) -> bool {
        !self.undone.is_empty()
    }

    /// Begins a step, unless the last one has touched nothing yet.
    pub(super) fn begin(&mut self) {
        self.undone.clear();
        if self.done.back().is_none_or(|step| !step.0.is_empty()) {
            self.done.push_back(MaskStep::default());
        }
        let mut bytes: usize = self.done.iter().map(MaskStep::bytes).sum();
        while bytes > MAX_BYTES
            && self.done.len() > 2
            && let Some(oldest) = self.done.pop_front()
        {
            bytes -= oldest.bytes();
        }
    }

    /// Saves the content of an area, unless this step did so already.
    pub(super) fn keep(&mut self, area: PixelArea, width: u32, height: u32, values: &[u8]) {
        if self.done.is_empty() {
            self.done.push_back(MaskStep::default());
        }
        self.undone.clear();
        let Some(step) = self.done.back_mut() else {
            return;
        };
        for row in area.top / SIDE..area.bottom.div_ceil(SIDE) {
            for column in area.left / SIDE..area.right.div_ceil(SIDE) {
                step.0
                    .entry((column, row))
                    .or_insert_with(|| read(place_of(column, row, width, height), width, values));
            }
        }
    }

    pub(super) fn undo(&mut self, width: u32, height: u32, values: &mut [u8]) -> PixelArea {
        while let Some(step) = self.done.pop_back() {
            if step.0.is_empty() {
                continue;
            }
            let (area, inverse) = put(step, width, height, values);
            self.undone.push(inverse);
            return area;
        }
        PixelArea::default()
    }

    pub(super) fn redo(&mut self, width: u32, height: u32, values: &mut [u8]) -> PixelArea {
        let Some(step) = self.undone.pop() else {
            return PixelArea::default();
        };
        let (area, inverse) = put(step, width, height, values);
        self.done.push_back(inverse);
        area
    }
}

fn place_of(column: u32, row: u32, width: u32, height: u32) -> PixelArea {
    PixelArea {
        left: column * SIDE,
        top: row * SIDE,
        right: ((column + 1) * SIDE).min(width),
        bottom: ((row + 1) * SIDE).min(height),
    }
}

fn rows(area: PixelArea, width: u32) -> impl Iterator<Item = std::ops::Range<usize>> {
    (area.top..area.bottom).map(move |y| {
        let row = y as usize * width as usize;
        row + area.left as usize..row + area.right as usize
    })
}

fn read(area: PixelArea, width: u32, values: &[u8]) -> MaskSquare {
    let first = rows(area, width).next().map_or(0, |row| values[row.start]);
    if rows(area, width).all(|row| values[row].iter().all(|value| *value == first)) {
        return MaskSquare::Plain(first);
    }
    let pixels: Vec<u8> = rows(area, width)
        .flat_map(|row| values[row].iter().copied())
        .collect();
    MaskSquare::Pixels(pixels.into())
}

fn put(step: MaskStep, width: u32, height: u32, values: &mut [u8]) -> (PixelArea, MaskStep) {
    let mut touched = PixelArea::default();
    let mut inverse = MaskStep::default();
    for ((column, row), square) in step.0 {
        let area = place_of(column, row, width, height);
        touched = touched.around(area);
        inverse.0.insert((column, row), read(area, width, values));
        let line = (area.right - area.left) as usize;
        for (index, row) in rows(area, width).enumerate() {
            match &square {
                MaskSquare::Plain(value) => values[row].fill(*value),
                MaskSquare::Pixels(pixels) => {
                    values[row].copy_from_slice(&pixels[index * line..(index + 1) * line]);
                }
            }
        }
    }
    (touched, inverse)
}

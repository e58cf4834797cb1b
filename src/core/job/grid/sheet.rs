//! Contact sheet of a grid: a PNG of all results with their values, which embeds the grid's settings and the file of
//! each cell.
//!
//! `media` lays out texts and images. A sheet is untrusted input when it is read.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{GridRecord, MAX_GRID_JOBS, OfGrid};
use crate::job::GenerateRequest;
use crate::media::{
    MediaError, RgbPixels, SheetCell, SheetLabels, VideoOptions, VideoWriter, draw_sheet,
    media_info, open_rgb, sheet_edge, thumbnail,
};

const FAILED: &str = "Failed";
const CANCELLED: &str = "Cancelled";
const GONE: &str = "File not found";

/// Positions of the cells of a sheet, and their files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SheetCells {
    cells: Vec<CellPlace>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CellPlace {
    x: u32,
    y: u32,
    width: u32,
    height: u32,
    /// Beside the sheet, or anywhere with its whole path; none of a cell without a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
}

impl SheetCells {
    /// Those that a file's settings tell of; nothing where it is no sheet.
    pub fn of_settings(settings: &Value) -> Option<Self> {
        let cells = settings.get("grid")?.get("cells")?;
        if cells.as_array()?.len() > MAX_GRID_JOBS {
            return None;
        }
        let cells = serde_json::from_value(cells.clone()).ok()?;
        Some(Self { cells })
    }

    /// Result at this pixel of the sheet at path `sheet`.
    pub fn file_at(&self, sheet: &Path, x: u32, y: u32) -> Option<PathBuf> {
        let is_in = |place: u32, start: u32, len: u32| {
            place.checked_sub(start).is_some_and(|within| within < len)
        };
        let cell = self
            .cells
            .iter()
            .find(|cell| is_in(x, cell.x, cell.width) && is_in(y, cell.y, cell.height))?;
        let file = cell.file.as_ref()?;
        // Joining keeps absolute paths.
        Some(sheet.parent().unwrap_or_else(|| Path::new("")).join(file))
    }
}

/// Makes the sheet of what is finished, under the first free name like `out`, and tells the name. `failed` says of a
/// cell without a result whether it failed; else it was cancelled.
pub fn write_sheet(
    record: &GridRecord,
    failed: &dyn Fn(usize) -> bool,
    out: &Path,
) -> Result<PathBuf, MediaError> {
    let grid = &record.grid;
    let edge = sheet_edge(grid.columns.len(), grid.rows.len());
    let within = |width: u32, height: u32| {
        let scale = (f64::from(edge) / f64::from(width.max(height).max(1))).min(1.0);
        let side = |side: u32| ((f64::from(side) * scale).round() as u32).max(1);
        (side(width), side(height))
    };
    // As large as the largest: models make other sizes.
    let infos = record
        .made
        .values()
        .filter_map(|path| media_info(path).ok());
    let sizes = infos.map(|info| within(info.width, info.height));
    let own = within(record.request.width, record.request.height);
    let size = sizes.reduce(|one, other| (one.0.max(other.0), one.1.max(other.1)));
    let size = size.unwrap_or(own);
    let mut cell = |index: usize| match record.made.get(&index) {
        Some(path) => match small(path, size) {
            Ok(image) => SheetCell::Image(image),
            Err(err) => {
                tracing::warn!("a cell of a contact sheet is left empty: {err}");
                SheetCell::Words(GONE)
            }
        },
        None if failed(index) => SheetCell::Words(FAILED),
        None => SheetCell::Words(CANCELLED),
    };
    let labels = SheetLabels {
        columns: &grid.columns,
        rows: &grid.rows,
    };
    let drawn = draw_sheet(labels, size, &mut cell)?;
    let folder = out.parent();
    let cells = drawn.cells.iter().enumerate().map(|(index, place)| {
        let path = record.made.get(&index);
        let file = path.map(|path| match path.file_name() {
            Some(name) if path.parent() == folder => PathBuf::from(name),
            _ => path.clone(),
        });
        CellPlace {
            x: place.x,
            y: place.y,
            width: place.width,
            height: place.height,
            file,
        }
    });
    let cells = SheetCells {
        cells: cells.collect(),
    };
    let request = GenerateRequest {
        grid: Some(OfGrid::Sheet(grid.axes.clone())),
        ..(*record.request).clone()
    };
    let mut settings = request.carried();
    settings["grid"] = json!({
        "columns": grid.columns,
        "rows": grid.rows,
        "cells": cells.cells,
    });
    let options = VideoOptions {
        settings: Some(settings.to_string()),
        keeps_others: true,
        ..VideoOptions::default()
    };
    let mut writer = VideoWriter::create(out, options)?;
    writer.push(&drawn.image)?;
    let written = writer.finish()?;
    Ok(written.into_iter().next().unwrap_or_default())
}

fn small(path: &Path, (width, height): (u32, u32)) -> Result<RgbPixels, MediaError> {
    thumbnail(&open_rgb(path)?, width, height)
}

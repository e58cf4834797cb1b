//! From a form with sides to the jobs of a grid: every cell's form is made and checked here, for the window and the
//! command line alike.

use super::axis::{AxisValue, FindModel, steps};
use super::{GridId, JobGrid, MAX_GRID_AXES, MAX_GRID_JOBS, OfGrid};
use crate::job::form::{FieldError, FormNotice, GenerateForm, ValidatedForm};
use crate::job::{GridAxis, GridSetting};
use crate::model::ModelSpec;

const FIELD: &str = "grid";

struct GridAxes {
    across: Vec<AxisValue>,
    /// One that changes nothing where only one setting varies.
    down: Vec<Option<AxisValue>>,
}

struct GridCell<'a> {
    index: usize,
    changes: Vec<&'a AxisValue>,
}

/// Number of cells of the form's axes, if they are valid: 1 without axes.
pub(in crate::job) fn num_cells(form: &GenerateForm, spec: &ModelSpec) -> usize {
    // The number does not depend on the installed models.
    let same = |_: &str| Ok(spec.clone());
    let counts = form.grid.iter().map(|axis| {
        let found = steps(axis, form, spec, &same);
        found.map_or(1, |found| found.len())
    });
    counts.fold(1, usize::saturating_mul)
}

/// All jobs of a form with axes, in execution order, with their grid; or the problems of the first invalid one. The
/// form has one of `num_prompts` prompts, each with a separate grid, and is valid without its axes.
pub(in crate::job) fn jobs(
    form: &GenerateForm,
    num_prompts: usize,
    spec: &ModelSpec,
    models: FindModel<'_>,
) -> Result<(Vec<ValidatedForm>, JobGrid), Vec<FieldError>> {
    let sides = sides(form, num_prompts, spec, models).map_err(refused)?;
    let columns = sides.across.iter().map(|step| step.label.clone());
    let rows = sides.down.iter();
    let rows = rows.map(|step| {
        step.as_ref()
            .map_or_else(String::new, |it| it.label.clone())
    });
    let grid = JobGrid {
        id: GridId::next(),
        axes: form.grid.clone(),
        columns: columns.collect(),
        rows: rows.collect(),
    };
    let mut jobs = Vec::new();
    for cell in cells_in_order(&sides) {
        let mut job = checked(form, spec, &cell)?;
        job.request.grid = Some(OfGrid::Cell {
            grid: grid.id,
            index: cell.index,
        });
        jobs.push(job);
    }
    Ok((jobs, grid))
}

/// The first cell, or what is wrong with the sides: each value is looked at, and no other cell is checked.
pub(in crate::job) fn first(
    form: &GenerateForm,
    num_prompts: usize,
    spec: &ModelSpec,
    models: FindModel<'_>,
) -> Result<ValidatedForm, Vec<FieldError>> {
    let sides = sides(form, num_prompts, spec, models).map_err(refused)?;
    let mut first = GridCell {
        index: 0,
        changes: Vec::new(),
    };
    first.changes.extend(sides.across.first());
    first.changes.extend(sides.down.iter().flatten().take(1));
    checked(form, spec, &first)
}

fn refused(message: String) -> Vec<FieldError> {
    vec![FieldError {
        field: FIELD,
        message,
    }]
}

fn sides(
    form: &GenerateForm,
    num_prompts: usize,
    spec: &ModelSpec,
    models: FindModel<'_>,
) -> Result<GridAxes, String> {
    if form.grid.len() > MAX_GRID_AXES {
        let found = form.grid.len();
        return Err(format!(
            "a grid varies at most {MAX_GRID_AXES} settings, not {found}"
        ));
    }
    if let [one, other] = form.grid.as_slice()
        && are_same(one, other)
    {
        return Err(format!(
            "both sides of the grid vary the same setting ({}): choose another one for one of them",
            one.setting.label()
        ));
    }
    let mut read = form.grid.iter().map(|axis| steps(axis, form, spec, models));
    let across = read.next().transpose()?.unwrap_or_default();
    let down = match read.next().transpose()? {
        Some(down) => down.into_iter().map(Some).collect(),
        None => vec![None],
    };
    let count = across.len().saturating_mul(down.len());
    let all = count.saturating_mul(num_prompts);
    if all > MAX_GRID_JOBS {
        return Err(format!(
            "a grid makes at most {MAX_GRID_JOBS} jobs, not {all}: take fewer values"
        ));
    }
    Ok(GridAxes { across, down })
}

/// Two texts of a prompt, or two LoRAs, are two settings.
fn are_same(one: &GridAxis, other: &GridAxis) -> bool {
    let is_of_many = matches!(one.setting, GridSetting::Prompt);
    one.setting == other.setting && one.lora == other.lora && !is_of_many
}

/// Cells ordered so that costly changes are rare: cells of one model run one after the other.
fn cells_in_order(sides: &GridAxes) -> Vec<GridCell<'_>> {
    let weight_across = sides.across.iter().map(|step| step.weight).max();
    let weight_down = sides.down.iter().flatten().map(|step| step.weight).max();
    let is_across_outer = weight_across.unwrap_or_default() > weight_down.unwrap_or_default();
    let (num_across, num_down) = (sides.across.len(), sides.down.len());
    let all = 0..num_across * num_down;
    let places = all.map(|turn| {
        if is_across_outer {
            (turn / num_down, turn % num_down)
        } else {
            (turn % num_across, turn / num_across)
        }
    });
    let cell = |(column, row): (usize, usize)| {
        let mut changes = vec![&sides.across[column]];
        changes.extend(&sides.down[row]);
        GridCell {
            index: row * num_across + column,
            changes,
        }
    };
    places.map(cell).collect()
}

fn checked(
    form: &GenerateForm,
    base: &ModelSpec,
    cell: &GridCell<'_>,
) -> Result<ValidatedForm, Vec<FieldError>> {
    let mut one = GenerateForm {
        grid: Vec::new(),
        batch_size: None,
        ..form.clone()
    };
    let mut spec = base;
    // The model comes first: values that it does not accept are dropped, and the other axis overrides it.
    let mut changes = cell.changes.clone();
    changes.sort_by_key(|step| std::cmp::Reverse(step.weight));
    for step in changes {
        (step.apply)(&mut one, spec);
        spec = step.model.as_ref().unwrap_or(spec);
    }
    let label = || {
        let labels: Vec<&str> = cell.changes.iter().map(|it| it.label.as_str()).collect();
        labels.join(" · ")
    };
    let message = |message: &str| FieldError {
        field: FIELD,
        message: format!("{}: {message}", label()),
    };
    let mut job = one.validate(spec).map_err(|errors| {
        let errors = errors.iter().map(|err| message(&err.message));
        errors.collect::<Vec<_>>()
    })?;
    // Cells that differ in nothing are no grid.
    let varies = |field: &str| form.grid.iter().any(|axis| axis.setting.name() == field);
    if let Some(unused) = job.notices.iter().find(|notice| varies(notice.field)) {
        return Err(vec![message(&unused.message)]);
    }
    if form.batch_size.is_some_and(|size| size > 1) {
        job.notices.push(FormNotice {
            field: "batch",
            message: "The number of results is not used: a grid makes one in each cell".to_owned(),
        });
    }
    Ok(job)
}

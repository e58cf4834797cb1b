//! Errors and notices on the fields of a form.

use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::units::range_problem;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FieldError {
    /// The argument's name without dashes, also the field's in the app.
    pub field: &'static str,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormNotice {
    /// As [`FieldError::field`].
    pub field: &'static str,
    pub message: String,
}

#[derive(Default)]
pub(super) struct FormProblems {
    pub errors: Vec<FieldError>,
    pub notices: Vec<FormNotice>,
}

impl FormProblems {
    pub fn fail(&mut self, field: &'static str, message: impl Into<String>) {
        let message = message.into();
        self.errors.push(FieldError { field, message });
    }

    /// Fails with a problem, if there is one. Returns whether there is none.
    pub fn check(&mut self, field: &'static str, problem: Option<String>) -> bool {
        let is_right = problem.is_none();
        self.errors
            .extend(problem.map(|message| FieldError { field, message }));
        is_right
    }

    /// Fails where a number is out of its range, see [`range_problem`]. Returns whether it is in it.
    pub fn within<T: PartialOrd + Display + Copy>(
        &mut self,
        field: &'static str,
        (what, unit): (&str, &str),
        range: &RangeInclusive<T>,
        number: T,
    ) -> bool {
        self.check(field, range_problem(what, range, unit, number))
    }

    pub fn note(&mut self, field: &'static str, message: impl Into<String>) {
        let message = message.into();
        self.notices.push(FormNotice { field, message });
    }
}

//! Errors and notices on the fields of a form.

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

    pub fn note(&mut self, field: &'static str, message: impl Into<String>) {
        let message = message.into();
        self.notices.push(FormNotice { field, message });
    }
}

//! The form: its fields, what they offer, and its history.

pub mod choices;
pub mod form;
pub mod panel;
pub mod undo;

//! Coming in this change.

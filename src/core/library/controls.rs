//! ControlNets: recognised by header, and listed from this disk.
//!
//! Families recognise their ControlNets.

use super::networks::InstalledNetwork;
use crate::model::{ControlKind, ModelFamily};

/// Properties of a ControlNet by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlNetwork {
    /// Family of the transformers that it fits.
    pub family: ModelFamily,
    /// Such as `union ControlNet of seven kinds`.
    pub label: &'static str,
    /// Kinds of control images, in the order of its numbers; empty if it needs no kind.
    pub kinds: &'static [ControlKind],
    /// It makes a part of an image anew, and takes a mask for that.
    pub takes_masks: bool,
}

pub type FoundControl = InstalledNetwork<ControlNetwork>;

impl ControlNetwork {
    /// Why it cannot bring in an image of this kind next to a model of a family, with or without a mask; a sentence
    /// without its path.
    #[must_use]
    pub fn problem(
        &self,
        family: ModelFamily,
        kind: Option<ControlKind>,
        has_mask: bool,
    ) -> Option<String> {
        let label = self.label;
        if self.family != family {
            return Some(format!(
                "this {label} acts on models of {}, not of {}",
                self.family.label, family.label
            ));
        }
        if self.takes_masks && !has_mask {
            return Some(format!(
                "this {label} makes a part of its control image anew, and needs a mask of that part: give one with the image"
            ));
        }
        if has_mask && !self.takes_masks {
            return Some(format!(
                "this {label} takes no mask with its control image: leave the mask out"
            ));
        }
        let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
        let known = kinds.join(", ");
        match kind {
            _ if self.kinds.is_empty() => None,
            None => Some(format!(
                "this {label} must be told what a control image shows: {known}"
            )),
            Some(kind) if self.kinds.contains(&kind) => None,
            Some(kind) => Some(format!("this {label} knows {known}, not {kind}")),
        }
    }
}

impl FoundControl {
    /// For lists: its name, and what it is.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}, {}", self.name, self.config.label)
    }
}

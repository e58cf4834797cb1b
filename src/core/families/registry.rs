//! The definitions of all families.

use super::def::FamilyDef;
#[cfg(debug_assertions)]
use super::toy;
use super::{chroma, flux, flux2, framepack, krea2, qwen_image, wan, z_image};
use crate::model::ModelFamily;

static FAMILIES: &[&FamilyDef] = &[
    #[cfg(debug_assertions)]
    &toy::DEF,
    &framepack::DEF,
    &wan::DEF,
    &z_image::DEF,
    &flux2::DEF,
    &krea2::DEF,
    &chroma::DEF,
    &qwen_image::DEF,
    &flux::DEF,
];

/// The definition of a family.
pub(crate) fn def_of(family: ModelFamily) -> &'static FamilyDef {
    let mut all = FAMILIES.iter();
    all.find(|def| def.family == family).unwrap_or(&&wan::DEF)
}

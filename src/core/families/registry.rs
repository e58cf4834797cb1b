//! The definitions of all families.

use super::def::FamilyDef;
#[cfg(debug_assertions)]
use super::toy;
use super::{
    anima, chroma, flux, flux2, flux3, framepack, krea2, ltx2, qwen_image, qwen_image_21, sdxl,
    wan, z_image,
};
use crate::model::ModelFamily;

static FAMILIES: &[&dyn FamilyDef] = &[
    #[cfg(debug_assertions)]
    &toy::ToyFamily,
    &ltx2::Ltx2Family,
    &framepack::FramePackFamily,
    &anima::AnimaFamily,
    &wan::WanFamily,
    &z_image::ZImageFamily,
    &flux3::Flux3Family,
    &flux2::dev::Flux2DevFamily,
    &flux2::Flux2Family,
    &krea2::Krea2Family,
    &chroma::ChromaFamily,
    &qwen_image_21::QwenImage21Family,
    &qwen_image::QwenImageFamily,
    &sdxl::SdxlFamily,
    &flux::FluxFamily,
];

/// The definition of a family.
pub(crate) fn def_of(family: ModelFamily) -> &'static dyn FamilyDef {
    let mut all = FAMILIES.iter();
    *all.find(|def| def.family() == family)
        .unwrap_or(&FAMILIES[FAMILIES.len() - 1])
}

//! Results of the encoding stage for later stages, on disk between processes.

use std::path::Path;

use tch::Tensor;

use crate::EngineError;
use crate::tensor_files::{self, TensorFile};

/// Normalised latents of a start image in f32, and its mask.
#[derive(Debug)]
pub struct EncodedImage {
    /// `(B, C, h, w)`, one for each image of the batch
    pub latents: Tensor,
    /// 1 for pixels to denoise, else 0: `(1, 1, H, W)`
    pub mask: Option<Tensor>,
    /// Latents of the image outside the mask, grey inside: `(B, C, h, w)`
    pub masked: Option<Tensor>,
}

#[derive(Debug, Default)]
pub struct EncodedImages {
    pub image: Option<EncodedImage>,
    /// Reference images: each `(1, C, h', w')`, in the request's order.
    pub references: Vec<Tensor>,
    /// Control images: each `(B, C, h, w)` if sampled, else `(1, C, h, w)`.
    pub controls: Vec<Tensor>,
}

impl EncodedImages {
    /// Images that the model sees besides its own; `sees_start`: whether the start image is one of them.
    pub fn seen(&self, sees_start: bool) -> impl Iterator<Item = &Tensor> {
        let start = self.image.iter().filter(move |_| sees_start);
        start.map(|image| &image.latents).chain(&self.references)
    }

    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        let image = self.image.iter().flat_map(EncodedImage::named);
        let image = image.map(|(name, tensor)| (name.to_owned(), tensor));
        let references = self.references.iter().enumerate();
        let references = references.map(|(index, latents)| (reference(index), latents));
        let controls = self.controls.iter().enumerate();
        let controls = controls.map(|(index, latents)| (control(index), latents));
        let all: Vec<(String, &Tensor)> = image.chain(references).chain(controls).collect();
        tensor_files::write(path, all.iter().map(|(name, tensor)| (name, *tensor)))
    }

    pub fn load(path: &Path) -> Result<Self, EngineError> {
        let mut stored = TensorFile::read(path)?;
        let references = (0..).map_while(|index| stored.find(&reference(index)));
        let references = references.collect();
        let controls = (0..).map_while(|index| stored.find(&control(index)));
        Ok(Self {
            references,
            controls: controls.collect(),
            image: EncodedImage::find(&mut stored),
        })
    }
}

fn reference(index: usize) -> String {
    format!("reference.{index}.latents")
}

fn control(index: usize) -> String {
    format!("control.{index}.latents")
}

impl EncodedImage {
    fn named(&self) -> impl Iterator<Item = (&'static str, &Tensor)> {
        let masked = self.masked.iter();
        std::iter::once(("image_latents", &self.latents))
            .chain(self.mask.iter().map(|mask| ("mask", mask)))
            .chain(masked.map(|masked| ("masked_image_latents", masked)))
    }

    fn find(stored: &mut TensorFile) -> Option<Self> {
        Some(Self {
            latents: stored.find("image_latents")?,
            mask: stored.find("mask"),
            masked: stored.find("masked_image_latents"),
        })
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    #[test]
    fn references_are_kept_in_their_order_with_and_without_an_image_to_begin_from() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.safetensors");
        let number = |value: f64| Tensor::full([1, 1, 2, 2], value, (Kind::Float, Device::Cpu));
        let references: Vec<Tensor> = (0..12).map(|index| number(f64::from(index))).collect();
        let given = EncodedImages {
            image: None,
            references,
            controls: vec![number(7.0)],
        };
        given.save(&path).unwrap();
        let loaded = EncodedImages::load(&path).unwrap();
        assert!(loaded.image.is_none());
        assert_eq!(loaded.references, given.references);
        assert_eq!(loaded.controls, given.controls);
        let given = EncodedImages {
            image: Some(EncodedImage {
                latents: number(0.5),
                mask: None,
                masked: None,
            }),
            ..given
        };
        given.save(&path).unwrap();
        let loaded = EncodedImages::load(&path).unwrap();
        assert_eq!(loaded.references.len(), 12);
        assert_eq!(loaded.image.unwrap().latents, number(0.5));
    }
}

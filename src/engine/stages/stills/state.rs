//! What the encoding of a given picture leaves for the stages behind it, on disk between processes.

use std::path::Path;

use tch::Tensor;

use crate::error::EngineError;
use crate::store::{self, Named};

/// A given picture in latents as the transformer has them, in f32.
#[derive(Debug)]
pub struct GivenImage {
    /// `(B, C, h, w)`, one for each picture that is made
    pub latents: Tensor,
    /// What is made anew, 1 or 0 for each pixel: `(1, 1, H, W)`
    pub mask: Option<Tensor>,
    /// What the mask leaves of the picture, grey elsewhere: `(B, C, h, w)`
    pub masked: Option<Tensor>,
}

/// All pictures that a job was given, for models that see pictures beside their own.
#[derive(Debug)]
pub struct GivenImages {
    /// What the walk begins from.
    pub image: Option<GivenImage>,
    /// Each `(1, C, h', w')`, in the request's order.
    pub references: Vec<Tensor>,
    /// Control pictures: each `(B, C, h, w)`, or `(1, C, h, w)` where nothing is drawn for them.
    pub controls: Vec<Tensor>,
}

impl GivenImages {
    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        let image = self.image.iter().flat_map(GivenImage::named);
        let image = image.map(|(name, tensor)| (name.to_owned(), tensor));
        let references = self.references.iter().enumerate();
        let references = references.map(|(index, latents)| (reference(index), latents));
        let controls = self.controls.iter().enumerate();
        let controls = controls.map(|(index, latents)| (control(index), latents));
        let all: Vec<(String, &Tensor)> = image.chain(references).chain(controls).collect();
        store::write(path, all.iter().map(|(name, tensor)| (name, *tensor)))
    }

    pub fn load(path: &Path) -> Result<Self, EngineError> {
        let mut stored = Named::read(path)?;
        let references = (0..).map_while(|index| stored.find(&reference(index)));
        let references = references.collect();
        let controls = (0..).map_while(|index| stored.find(&control(index)));
        Ok(Self {
            references,
            controls: controls.collect(),
            image: GivenImage::find(&mut stored),
        })
    }
}

fn reference(index: usize) -> String {
    format!("reference.{index}.latents")
}

fn control(index: usize) -> String {
    format!("control.{index}.latents")
}

impl GivenImage {
    fn named(&self) -> impl Iterator<Item = (&'static str, &Tensor)> {
        let masked = self.masked.iter();
        std::iter::once(("image_latents", &self.latents))
            .chain(self.mask.iter().map(|mask| ("mask", mask)))
            .chain(masked.map(|masked| ("masked_image_latents", masked)))
    }

    fn find(stored: &mut Named) -> Option<Self> {
        Some(Self {
            latents: stored.find("image_latents")?,
            mask: stored.find("mask"),
            masked: stored.find("masked_image_latents"),
        })
    }

    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        let all: Vec<(&str, &Tensor)> = self.named().collect();
        store::write(path, all.iter().map(|(name, tensor)| (name, *tensor)))
    }

    pub fn load(path: &Path) -> Result<Self, EngineError> {
        let mut stored = Named::read(path)?;
        Self::find(&mut stored).ok_or_else(|| stored.incomplete("it has no 'image_latents'"))
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    #[test]
    fn references_are_kept_in_their_order_with_and_without_a_picture_to_begin_from() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.safetensors");
        let number = |value: f64| Tensor::full([1, 1, 2, 2], value, (Kind::Float, Device::Cpu));
        let references: Vec<Tensor> = (0..12).map(|index| number(f64::from(index))).collect();
        let given = GivenImages {
            image: None,
            references,
            controls: vec![number(7.0)],
        };
        given.save(&path).unwrap();
        let loaded = GivenImages::load(&path).unwrap();
        assert!(loaded.image.is_none());
        assert_eq!(loaded.references, given.references);
        assert_eq!(loaded.controls, given.controls);
        assert!(GivenImage::load(&path).is_err());
        let given = GivenImages {
            image: Some(GivenImage {
                latents: number(0.5),
                mask: None,
                masked: None,
            }),
            ..given
        };
        given.save(&path).unwrap();
        let loaded = GivenImages::load(&path).unwrap();
        assert_eq!(loaded.references.len(), 12);
        assert_eq!(loaded.image.unwrap().latents, number(0.5));
    }
}

//! The second pass of an image or video ("hires fix"): it is made at one size, enlarged, and made anew in part at the larger
//! one.
//!
//! Enlarged are the pixels, not the latents: an enlarged image keeps its look at a low strength, where enlarged latents
//! need half of all steps to lose their blur. So a second pass is what another job from the enlarged image would make.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::{GenerateRequest, Recipe, Stage};
use crate::model::ImageRole;

/// Options of a second pass in addition to the size of the first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SecondPass {
    /// Scale factor of the edges.
    pub scale: f64,
    /// Denoising strength: above 0, and 1 regenerates everything.
    pub strength: f64,
}

impl SecondPass {
    pub const SCALES: RangeInclusive<f64> = 1.1..=4.0;
    /// Enough for new details, too little for another image.
    pub const STRENGTH: f64 = 0.4;

    /// A second stage on latents of twice the edges, for families whose noise levels are fixed.
    pub const OF_LATENTS: Self = Self {
        scale: 2.0,
        strength: 1.0,
    };

    #[must_use]
    pub fn of_scale(scale: f64) -> Self {
        Self {
            scale,
            strength: Self::STRENGTH,
        }
    }
}

/// A second pass of a request, whose own size is that of the result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnlargedPass {
    #[serde(flatten)]
    pub pass: SecondPass,
    /// Pixels of the first pass.
    pub first_width: u32,
    pub first_height: u32,
}

impl GenerateRequest {
    /// Width and height of what is made of noise: the result's own without a second pass.
    #[must_use]
    pub fn first_size(&self) -> (u32, u32) {
        let enlarged = self.second_pass.map(|it| (it.first_width, it.first_height));
        enlarged.unwrap_or((self.width, self.height))
    }

    /// The second pass that a form can state; none of a family whose models make two stages of their own.
    #[must_use]
    pub fn hires_fix(&self) -> Option<SecondPass> {
        let enlarged = self.second_pass.filter(|_| self.family.has_second_pass);
        enlarged.map(|enlarged| enlarged.pass)
    }

    /// Width and height as a form states them: those of the first pass of hires fix, else of the result.
    #[must_use]
    pub fn stated_size(&self) -> (u32, u32) {
        match self.hires_fix() {
            Some(_) => self.first_size(),
            None => (self.width, self.height),
        }
    }

    /// Returns whether the request is the one that a stage of the second pass [receives](Self::of_pass).
    #[must_use]
    pub fn is_second_pass(&self) -> bool {
        self.second_pass.is_some() && self.image_role == ImageRole::Base
    }

    /// Returns whether a stage's run number `section`, from 0, belongs to the second pass.
    #[must_use]
    pub fn is_of_second_pass(&self, stage: Stage, section: u32) -> bool {
        if self.second_pass.is_none() {
            return false;
        }
        let recipe = Recipe::from_request(self);
        recipe.position(stage, section) > recipe.position(Stage::Unload, 0)
    }

    /// The request as a stage is to see it: the size of its pass and, in the second, how much is made anew.
    #[must_use]
    pub fn of_pass(mut self, stage: Stage, section: u32) -> Self {
        let Some(enlarged) = self.second_pass else {
            return self;
        };
        if self.is_of_second_pass(stage, section) {
            self.sampling.strength = Some(enlarged.pass.strength);
            self.image_role = ImageRole::Base;
        } else {
            (self.width, self.height) = self.first_size();
        }
        self
    }
}

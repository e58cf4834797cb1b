//! What the form takes over of another program's settings.

use std::path::PathBuf;

use safelight_core::model::ModelSpec;
use safelight_core::restore::Restored;

use crate::app::form::{ChosenLora, FormState, SeedMode, SizeChoice};

impl FormState {
    /// The model's own values, and over them what the file says, with the LoRAs that it names among these files; with a
    /// sentence for what it said in vain.
    pub fn take_restored(
        &mut self,
        restored: &Restored,
        spec: &ModelSpec,
        lora_files: &[PathBuf],
    ) -> Vec<String> {
        let (form, mut notes) = restored.form_for(spec);
        self.reset_to(spec);
        // Those that are chosen now are not the file's.
        self.loras.clear();
        if restored.prompt.is_some() {
            self.prompt = form.prompt;
            self.is_one_a_line = false;
        }
        fn put<T>(own: &mut T, found: Option<T>) {
            if let Some(found) = found {
                *own = found;
            }
        }
        put(&mut self.negative_prompt, form.negative_prompt);
        if let (Some(width), Some(height)) = (form.width, form.height) {
            self.size = SizeChoice::Custom;
            (self.width, self.height) = (width, height);
        }
        put(&mut self.num_frames, form.num_frames);
        put(&mut self.secs, form.secs);
        put(&mut self.fps, form.fps);
        put(&mut self.strength, form.strength);
        put(&mut self.num_steps, form.num_steps);
        put(&mut self.guidance_scale, form.guidance_scale);
        put(&mut self.guidance_scale_2, form.guidance_scale_2);
        put(&mut self.true_cfg_scale, form.true_cfg_scale);
        put(&mut self.sampler, form.sampler);
        put(&mut self.sigma_schedule, restored.sigma_schedule);
        self.shift = form.shift.or(self.shift);
        self.section_order = form
            .section_order
            .filter(|order| Some(*order) != spec.section_order);
        self.step_cache = form.step_cache;
        if let Some(seed) = restored.seed {
            self.seed = seed.to_string();
            self.seed_mode = SeedMode::Fixed;
        }
        let (found, missing) = restored.find_loras(lora_files);
        self.loras = found.iter().map(ChosenLora::from).collect();
        if !missing.is_empty() {
            notes.push(format!(
                "LoRAs that are not on this machine: {}",
                missing.join(", ")
            ));
        }
        notes
    }
}

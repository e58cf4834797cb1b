//! Samplers: one, one for each expert, or one along the sigmas of a family's own scheduler.

use std::ops::Range;

use serde_json::{Value, json};

use super::{NodeOutput, WorkflowWriter, slot};
use crate::restore::names::{first_low_step, to_comfy_sampler, to_comfy_schedule};

impl WorkflowWriter<'_> {
    /// Samples the steps that a denoising strength leaves, and decodes the result.
    pub(super) fn sample(&mut self, latents: NodeOutput, strength: f64) -> NodeOutput {
        let sampling = &self.request.sampling;
        let total = sampling.num_steps;
        let first = self.request.family.first_step(total, strength);
        let steps = first.max(sampling.start_step)..sampling.end_step.unwrap_or(total);
        let (schedule, schedule_note) = to_comfy_schedule(sampling.sigma_schedule);
        let is_simple = schedule == "simple";
        let notes = [to_comfy_sampler(sampling.sampler).1, schedule_note];
        self.notes
            .extend(notes.into_iter().flatten().map(str::to_owned));
        let own = self
            .comfy
            .scheduler
            .filter(|_| is_simple && sampling.shift.is_none());
        let is_whole = sampling.start_step == 0 && sampling.end_step.is_none();
        let samples = match (own, &self.models.clone()[..]) {
            (Some(scheduler), _) => self.sample_sigmas(scheduler, &latents, steps),
            (None, [high, low]) => {
                let switch = self.expert_step().clamp(steps.start, steps.end);
                if !is_simple {
                    self.notes.push(format!(
                        "The second expert takes over at step {switch}, which is exact for the scheduler simple only"
                    ));
                }
                let latents = self.sample_steps((high, self.cfg()), latents, steps.start..switch);
                let low = (low, sampling.low_guidance_scale());
                self.sample_steps(low, latents, switch..steps.end)
            }
            (None, models) => {
                let model = (&models[0], self.cfg());
                if is_whole {
                    self.sample_share(model, &latents, steps.end - steps.start, strength)
                } else {
                    self.sample_steps(model, latents, steps)
                }
            }
        };
        let inputs = json!({"samples": samples, "vae": self.vae});
        self.node("VAEDecode", inputs)
    }

    /// First step of the expert for low noise.
    fn expert_step(&self) -> u32 {
        let sampling = &self.request.sampling;
        let own = self.spec.and_then(|spec| spec.defaults.sampling.shift);
        let shift = sampling.shift.or(own).unwrap_or(1.0);
        let boundary = self.files.boundary_ratio.unwrap_or_default();
        let total = sampling.num_steps;
        first_low_step(boundary, shift, total).unwrap_or(total)
    }

    /// Inputs that both of `ComfyUI`'s own samplers have.
    fn sampler_inputs(&self, (model, cfg): (&NodeOutput, f64), latents: &NodeOutput) -> Value {
        let sampling = &self.request.sampling;
        let [positive, negative] = &self.prompts;
        json!({
            "sampler_name": to_comfy_sampler(sampling.sampler).0,
            "scheduler": to_comfy_schedule(sampling.sigma_schedule).0,
            "model": model, "cfg": cfg, "positive": positive, "negative": negative, "latent_image": latents,
        })
    }

    /// Samples the last `run` steps.
    fn sample_share(
        &mut self,
        model: (&NodeOutput, f64),
        latents: &NodeOutput,
        run: u32,
        strength: f64,
    ) -> NodeOutput {
        let total = f64::from(self.request.sampling.num_steps);
        // ComfyUI takes the steps to run, and makes a schedule of so many steps divided by the strength.
        let is_exact = |denoise: &f64| (f64::from(run) / denoise).floor() == total;
        let share = f64::from(run) / total;
        let denoise = [strength, (share * 1e4).floor() / 1e4];
        let denoise = denoise.into_iter().find(is_exact).unwrap_or(share);
        let mut inputs = self.sampler_inputs(model, latents);
        (inputs["steps"], inputs["denoise"]) = (json!(run), json!(denoise));
        inputs["seed"] = json!(self.request.seed);
        self.node("KSampler", inputs)
    }

    /// Samples some of all steps; after another such sampler without new noise.
    fn sample_steps(
        &mut self,
        model: (&NodeOutput, f64),
        latents: NodeOutput,
        steps: Range<u32>,
    ) -> NodeOutput {
        const CLASS: &str = "KSamplerAdvanced";
        if steps.is_empty() {
            return latents;
        }
        let before = latents[0].as_str().and_then(|id| self.nodes.get(id));
        let is_after = before.is_some_and(|node| node["class_type"] == CLASS);
        let total = self.request.sampling.num_steps;
        let on = |is_on: bool| json!(if is_on { "enable" } else { "disable" });
        let mut inputs = self.sampler_inputs(model, &latents);
        (inputs["steps"], inputs["noise_seed"]) = (json!(total), json!(self.request.seed));
        (inputs["start_at_step"], inputs["end_at_step"]) = (json!(steps.start), json!(steps.end));
        inputs["add_noise"] = on(!is_after);
        inputs["return_with_leftover_noise"] = on(steps.end < total);
        self.node(CLASS, inputs)
    }

    /// Samples some of the steps of a family's own scheduler.
    fn sample_sigmas(
        &mut self,
        scheduler: &str,
        latents: &NodeOutput,
        steps: Range<u32>,
    ) -> NodeOutput {
        let sampling = &self.request.sampling;
        let (width, height) = self.request.first_size();
        let noise = self.node("RandomNoise", json!({"noise_seed": self.request.seed}));
        let [positive, negative] = &self.prompts;
        let guider = json!({"model": self.models[0], "positive": positive, "negative": negative, "cfg": self.cfg()});
        let guider = self.node("CFGGuider", guider);
        let name = to_comfy_sampler(sampling.sampler).0;
        let sampler = self.node("KSamplerSelect", json!({"sampler_name": name}));
        let sigmas = json!({"steps": sampling.num_steps, "width": width, "height": height});
        let mut sigmas = self.node(scheduler, sigmas);
        if steps.end < sampling.num_steps {
            sigmas = self.node("SplitSigmas", json!({"sigmas": sigmas, "step": steps.end}));
        }
        if steps.start > 0 {
            let inputs = json!({"sigmas": sigmas, "step": steps.start});
            sigmas = slot(&self.node("SplitSigmas", inputs), 1);
        }
        let inputs = json!({"noise": noise, "guider": guider, "sampler": sampler, "sigmas": sigmas, "latent_image": latents});
        self.node("SamplerCustomAdvanced", inputs)
    }
}

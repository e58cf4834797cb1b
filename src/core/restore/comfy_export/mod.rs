//! Workflows of `ComfyUI` from requests: the form that it runs (nodes by id, links inline), with its standard nodes.
//!
//! [`ComfyNodes`] has what differs between families; the graph is the same for all: loaders ([`loaders`]), prompts and
//! latents ([`inputs`]), samplers ([`samplers`]). What has no node is named in [`ComfyWorkflow::notes`].

mod inputs;
mod loaders;
mod samplers;

use serde_json::{Map, Value, json};

use crate::job::{GenerateRequest, JobError};
use crate::model::family::ComfyNodes;
use crate::model::{GuidanceRange, Guider, ModelFiles, ModelSpec};

/// A workflow, and what it lacks.
#[derive(Clone, Debug)]
pub struct ComfyWorkflow {
    /// Class and inputs by id.
    nodes: Map<String, Value>,
    /// A sentence for each setting without a node, and for the files that `ComfyUI` needs.
    pub notes: Vec<String>,
}

impl ComfyWorkflow {
    /// Writes the workflow of a request. `spec`: its model, where that is on this computer, for the names of files and
    /// the shift. The error names a family that standard nodes do not run.
    pub fn from_request(
        request: &GenerateRequest,
        spec: Option<&ModelSpec>,
    ) -> Result<Self, JobError> {
        let label = request.family.label;
        let comfy = request.family.comfy.ok_or_else(|| {
            let text = format!("ComfyUI has no standard nodes for {label} models");
            JobError::invalid(text)
                .advise("Share the result itself instead: it contains its settings")
        })?;
        let mut writer = WorkflowWriter {
            request,
            comfy,
            files: spec.map_or(&request.files, |spec| &spec.files),
            spec,
            nodes: Map::new(),
            notes: Vec::new(),
            inputs: Vec::new(),
            usual_names: Vec::new(),
            models: Vec::new(),
            clip: Value::Null,
            vae: Value::Null,
            prompts: Default::default(),
        };
        writer.write();
        let WorkflowWriter { nodes, notes, .. } = writer;
        Ok(Self { nodes, notes })
    }

    pub fn nodes(&self) -> &Map<String, Value> {
        &self.nodes
    }

    /// The workflow as JSON text.
    pub fn to_text(&self) -> String {
        format!("{:#}", Value::from(self.nodes.clone()))
    }
}

struct WorkflowWriter<'a> {
    request: &'a GenerateRequest,
    comfy: &'static ComfyNodes,
    files: &'a ModelFiles,
    spec: Option<&'a ModelSpec>,
    nodes: Map<String, Value>,
    notes: Vec<String>,
    /// Names of images and videos that `ComfyUI` needs in its folder `input`.
    inputs: Vec<String>,
    /// Names in loaders of files that are folders here, or not on this computer.
    usual_names: Vec<String>,
    /// With LoRAs and shift; the second is the expert for low noise.
    models: Vec<NodeOutput>,
    clip: NodeOutput,
    vae: NodeOutput,
    /// Positive and negative conditioning.
    prompts: [NodeOutput; 2],
}

/// Output of a node, as inputs are linked to it: `["4", 0]`.
type NodeOutput = Value;

/// Another output of the node of `output`.
fn slot(output: &NodeOutput, slot: u32) -> NodeOutput {
    json!([output[0], slot])
}

impl WorkflowWriter<'_> {
    /// Adds a node -> its first output.
    fn node(&mut self, class: &str, inputs: Value) -> NodeOutput {
        let id = (self.nodes.len() + 1).to_string();
        let mut node = json!({"class_type": class});
        node["inputs"] = inputs;
        self.nodes.insert(id.clone(), node);
        json!([id, 0])
    }

    fn encoded(&mut self, pixels: &NodeOutput) -> NodeOutput {
        let inputs = json!({"pixels": pixels, "vae": self.vae});
        self.node("VAEEncode", inputs)
    }

    fn write(&mut self) {
        let request = self.request;
        self.load();
        self.encode_prompts();
        let latents = self.make_latents();
        let strength = request.sampling.strength;
        let strength = strength.filter(|_| self.base().is_some()).unwrap_or(1.0);
        let mut images = self.sample(latents, strength);
        if let Some(enlarged) = request.second_pass {
            let pixels = self.scaled(&images, (request.width, request.height));
            let latents = self.encoded(&pixels);
            images = self.sample(latents, enlarged.pass.strength);
        }
        if request.makes_images() {
            let inputs = json!({"filename_prefix": "Safelight", "images": images});
            self.node("SaveImage", inputs);
        } else {
            let inputs = json!({"images": images, "fps": request.fps});
            let video = self.node("CreateVideo", inputs);
            let inputs = json!({"filename_prefix": "Safelight", "format": "auto", "codec": "auto", "video": video});
            self.node("SaveVideo", inputs);
        }
        self.note_rest();
    }

    /// Names what the graph has no nodes for.
    fn note_rest(&mut self) {
        let request = self.request;
        let sampling = &request.sampling;
        let has_guider = sampling.guider != Guider::default();
        let has_range = sampling.guidance_range != GuidanceRange::default();
        let left_out = [
            (has_guider, "the guider"),
            (has_range, "the guidance range"),
            (request.options.step_cache.is_some(), "the step cache"),
            (
                request.options.max_sequence_length.is_some(),
                "the token limit",
            ),
            (request.extend.is_some(), "the video to extend"),
            (!request.controls.is_empty(), "the control images"),
            (!request.prompt_images.is_empty(), "the image prompts"),
            (request.keeps_unmasked, "the exact unmasked pixels"),
        ];
        let left_out = left_out.iter().filter(|(is_set, _)| *is_set);
        let names: Vec<&str> = left_out.map(|(_, name)| *name).collect();
        if !names.is_empty() {
            let names = names.join(", ");
            self.notes.push(format!("Not in the workflow: {names}"));
        }
        if request.batch_size > 1 {
            self.notes.push(
                "ComfyUI uses one seed for a whole batch: only its first image is the same".into(),
            );
        }
        let prompts = [&request.prompt, &request.negative_prompt];
        if prompts.iter().any(|text| text.contains('{')) {
            self.notes.push(
                "ComfyUI reads {…|…} as a choice: write \\{ there for the character itself".into(),
            );
        }
        if !self.usual_names.is_empty() {
            let names = self.usual_names.join(", ");
            self.notes.push(format!(
                "ComfyUI needs single files: choose yours in its loaders instead of {names}"
            ));
        }
        if !self.inputs.is_empty() {
            let names = self.inputs.join(", ");
            self.notes
                .push(format!("Put into ComfyUI's folder input: {names}"));
        }
    }
}

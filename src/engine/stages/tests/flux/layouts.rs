//! Equal results of all file layouts: separate files, and one file with everything.

use super::*;

/// Components, and the prefixes of their tensors in a file with everything.
const PARTS: [(&str, &str); 4] = [
    ("transformer", "model.diffusion_model."),
    ("vae", "vae."),
    ("text_encoder", "text_encoders.clip_l.transformer."),
    ("text_encoder_2", "text_encoders.t5xxl.transformer."),
];

#[test]
fn single_checkpoint_file_gives_the_same_image_as_separate_files() {
    // The sizes that shapes alone cannot say are the published ones.
    let shapes: Shapes = serde_json::from_value(json_of("flux/stages/wide.json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(format!("{name}.safetensors"));
    let mut everything = Vec::new();
    for (component, prefix) in PARTS {
        let tensors = made_up_of(component, &shapes);
        Tensor::write_safetensors(&tensors, place(component)).unwrap();
        let named = tensors.into_iter();
        everything.extend(named.map(|(name, tensor)| (format!("{prefix}{name}"), tensor)));
    }
    Tensor::write_safetensors(&everything, place("everything")).unwrap();
    let own = PARTS.map(|(component, _)| place(component));
    let all = [(); 4].map(|()| place("everything"));
    let [own, all] = [own, all].map(|[transformer, vae, text_encoder, text_encoder_2]| {
        let mut job = Job::new("dev", &json!({"width": 48}), None, None);
        let files = &mut job.request.files;
        (files.transformer, files.vae, files.text_encoder) = (transformer, vae, text_encoder);
        (files.text_encoder_2, files.scheduler) = (Some(text_encoder_2), None);
        job.run(false).frames
    });
    assert_eq!(own.len(), 1);
    assert!(own == all, "another image");
}

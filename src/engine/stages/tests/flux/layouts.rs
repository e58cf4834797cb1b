//! The same weights wherever they lie: a diffusers folder, files of their own, one file with everything.

use super::*;

/// The sizes that shapes alone cannot say are the published ones.
fn wide() -> Shapes {
    serde_json::from_value(json_of("flux/stages/wide.json")).unwrap()
}

/// The job with its model in files without configurations, each with the names that `prefix` gives.
fn with_files(prefixes: [(&str, &str); 4], is_one_file: bool) -> Job {
    let mut job = Job::new("dev", &json!({"width": 48}), None, None);
    let shapes = wide();
    let mut files: BTreeMap<&str, Vec<(String, Tensor)>> = BTreeMap::new();
    for (component, prefix) in prefixes {
        let named = tensors_of(component, &shapes).into_iter();
        let named = named.map(|(name, tensor)| (format!("{prefix}{name}"), tensor));
        let file = if is_one_file { "everything" } else { component };
        files.entry(file).or_default().extend(named);
    }
    let place = |component: &str| {
        let file = if is_one_file { "everything" } else { component };
        job.model.path().join(format!("{file}.safetensors"))
    };
    for (component, _) in prefixes {
        let file = if is_one_file { "everything" } else { component };
        if let Some(tensors) = files.remove(file) {
            Tensor::write_safetensors(&tensors, place(component)).unwrap();
        }
    }
    let places = prefixes.map(|(component, _)| place(component));
    let files = &mut job.request.files;
    let [transformer, vae, text_encoder, text_encoder_2] = places;
    (files.transformer, files.vae, files.text_encoder) = (transformer, vae, text_encoder);
    files.text_encoder_2 = Some(text_encoder_2);
    files.scheduler = None;
    job
}

#[test]
fn one_file_with_everything_makes_the_picture_of_files_of_their_own() {
    let own = with_files(
        [
            ("transformer", ""),
            ("vae", ""),
            ("text_encoder", ""),
            ("text_encoder_2", ""),
        ],
        false,
    );
    let all = with_files(
        [
            ("transformer", "model.diffusion_model."),
            ("vae", "vae."),
            ("text_encoder", "text_encoders.clip_l.transformer."),
            ("text_encoder_2", "text_encoders.t5xxl.transformer."),
        ],
        true,
    );
    let [own, all] = [own, all].map(|job| job.run(false).frames);
    assert_eq!(own.len(), 1);
    assert!(own == all, "another picture");
}

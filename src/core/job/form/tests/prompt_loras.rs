//! LoRAs that prompts name.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::fitting::LoraIndex;
use crate::job::prompt::WildcardFolders;
use crate::job::{FormNotice, GenerateRequest};
use crate::lora::tests::layers::comfy;
use crate::model::test_spec;
use crate::testing::made_up::{T2V_1_3B, T2V_14B, transformer, write};

/// A model with LoRAs: `flux/style` and `large` are for another one, `wan/style` and `ink` for this.
struct Library {
    folder: tempfile::TempDir,
    spec: ModelSpec,
    files: Vec<PathBuf>,
}

impl Library {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        let mut spec = test_spec();
        spec.files.transformer = write(&at("model.safetensors"), &transformer(T2V_1_3B), "BF16");
        let files = [
            ("flux/style", T2V_14B),
            ("wan/style", T2V_1_3B),
            ("ink", T2V_1_3B),
            ("large", T2V_14B),
        ]
        .map(|(name, dims)| write(&at(&format!("{name}.safetensors")), &comfy(dims), "BF16"));
        Self {
            spec,
            files: files.to_vec(),
            folder,
        }
    }

    fn validated(&self, prompt: &str) -> ValidatedForm {
        checked(&self.spec, |form| form.prompt = prompt.to_owned()).unwrap()
    }

    fn settle(&self, request: &mut GenerateRequest) -> Result<Vec<FormNotice>, Vec<FieldError>> {
        let wildcards = WildcardFolders::new([self.folder.path().to_owned()]);
        request.settle_prompts(&wildcards, &LoraIndex::from(self.files.clone()))
    }

    fn settled(&self, prompt: &str) -> (GenerateRequest, String) {
        let ValidatedForm {
            mut request,
            notices,
        } = self.validated(prompt);
        let more = self.settle(&mut request).unwrap();
        let said = notices.into_iter().chain(more).map(|it| it.message);
        (request, said.collect::<Vec<_>>().join("\n"))
    }

    fn problem(&self, prompt: &str) -> String {
        let mut request = self.validated(prompt).request;
        let errors = self.settle(&mut request).unwrap_err();
        assert_eq!((errors.len(), errors[0].field), (1, "prompt"));
        assert!(request.loras.is_empty());
        errors[0].message.clone()
    }
}

fn loras(request: &GenerateRequest) -> Vec<(String, f64)> {
    let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    let each = request.loras.iter().map(|lora| {
        let folder = name(lora.path.parent().unwrap());
        match name(&lora.path) {
            style if style == "style" => (format!("{folder}/style"), lora.strength),
            other => (other, lora.strength),
        }
    });
    each.collect()
}

#[test]
fn a_tag_becomes_a_lora_of_the_job_and_leaves_the_prompt() {
    let library = Library::new();
    let prompt = "a fox, <lora:ink:0.8>, in snow <lora:style:-0.5>";
    let (request, said) = library.settled(prompt);
    assert_eq!(request.prompt, "a fox, in snow");
    assert_eq!(request.prompt_template.as_deref(), Some(prompt));
    let expected = [("ink".into(), 0.8), ("wan/style".into(), -0.5)];
    assert_eq!(loras(&request), expected);
    let expected = "LoRA ink is used at 0.8, style is used at -0.5 from the prompt";
    assert_eq!(said, expected);
    // A result carries what was used, and repeats it.
    let again = GenerateForm::from(&request).validate(&library.spec);
    let mut again = again.unwrap().request;
    assert_eq!(library.settle(&mut again), Ok(Vec::new()));
    assert_eq!((again.prompt, again.loras), (request.prompt, request.loras));
}

#[test]
fn a_tag_in_a_wildcard_or_choice_is_used_where_it_is_chosen() {
    let library = Library::new();
    let looks = library.folder.path().join("looks.txt");
    fs::write(looks, "ink <lora:ink:0.3>\n").unwrap();
    let (request, said) = library.settled("a fox, __looks__");
    assert_eq!(request.prompt, "a fox, ink");
    assert_eq!(loras(&request), [("ink".into(), 0.3)]);
    assert_eq!(said, "LoRA ink is used at 0.3 from the prompt");
    let (request, _) = library.settled("a {0::<lora:gone:1>|<lora:wan/style:1>fox}");
    assert_eq!(request.prompt.as_str(), "a fox");
    assert_eq!(loras(&request), vec![("wan/style".into(), 1.0)]);
}

#[test]
fn each_prompt_line_uses_only_its_own_loras() {
    let library = Library::new();
    let form = GenerateForm {
        prompt: "a <lora:ink:0.5>\nb\nc <lora:style:1>".to_owned(),
        is_one_a_line: true,
        ..form()
    };
    let made = jobs_of(&form, &library.spec, &|_| Err(String::new())).unwrap();
    let expected = [
        ("a", Some(("ink", 0.5))),
        ("b", None),
        ("c", Some(("wan/style", 1.0))),
    ];
    assert_eq!(made.jobs.len(), expected.len());
    for (mut job, (prompt, lora)) in made.jobs.into_iter().zip(expected) {
        library.settle(&mut job.request).unwrap();
        assert_eq!(job.request.prompt, prompt);
        let lora = lora.map(|(name, strength)| (name.to_owned(), strength));
        assert_eq!(loras(&job.request), Vec::from_iter(lora));
    }
}

#[test]
fn tags_of_one_file_add_up_and_count_instead_of_the_list() {
    let library = Library::new();
    let form = GenerateForm {
        prompt: "a fox <lora:ink:0.5> <lora:INK:0.25>".to_owned(),
        loras: vec![ChosenLora::new(library.files[2].clone())],
        ..form()
    };
    let mut request = form.validate(&library.spec).unwrap().request;
    let said = library.settle(&mut request).unwrap();
    assert_eq!(loras(&request), [("ink".into(), 0.75)]);
    assert_contains(
        &said[0].message,
        "used at 0.75 from the prompt instead of 1",
    );
    // The template of a result, used again, adds nothing to the LoRAs that it carries.
    let mut again = form.validate(&library.spec).unwrap().request;
    again.loras.clone_from(&request.loras);
    assert_eq!(library.settle(&mut again), Ok(Vec::new()));
    assert_eq!(again.loras, request.loras);
}

#[test]
fn a_lora_that_is_not_here_or_does_not_fit_is_one_error_that_names_it() {
    let library = Library::new();
    for (tag, expected) in [
        ("<lora:gone:1>", "no LoRA \"gone\""),
        ("<lora:flux/style:1>", "for Wan 14B"),
        ("<lora:large>", "for Wan 14B"),
        ("<lora:ink:x>", "cannot be read"),
        ("<lora:ink", "never closed"),
    ] {
        let problem = library.problem(&format!("a {tag}"));
        assert_contains(&problem, expected);
        assert_contains(&problem, tag);
    }
}

#[test]
fn other_tags_and_those_of_the_negative_prompt_are_named_and_not_read() {
    let library = Library::new();
    for (choice, is_early) in [("", true), ("{,|,}", false)] {
        let form = checked(&library.spec, |form| {
            form.prompt = format!("a fox{choice} <hypernet:art:1> // <lora:gone:1>");
            form.negative_prompt = Some(format!("<lora:ink:0.4> ugly{choice}"));
        });
        let ValidatedForm {
            mut request,
            notices,
        } = form.unwrap();
        let settled = library.settle(&mut request).unwrap();
        // Said once: before the job where no choice is open.
        let (said, other) = if is_early {
            (notices, settled)
        } else {
            (settled, notices)
        };
        assert_contains(&said[0].message, "<hypernet:art:1>");
        assert_contains(&said[1].message, "<lora:ink:0.4>");
        assert_eq!((said.len(), other.len()), (2, 0), "{choice}");
        assert!(request.prompt.starts_with("a fox") && !request.prompt.contains('<'));
        assert!(request.negative_prompt.starts_with("ugly"));
        assert!(request.loras.is_empty());
    }
}

#[test]
fn resolved_prompt_keeps_text_that_looks_like_a_lora_tag() {
    let library = Library::new();
    let mut request = library.validated("a fox <lora:gone:1>").request;
    request.prompt_template = Some(request.prompt.clone());
    assert_eq!(library.settle(&mut request), Ok(Vec::new()));
    assert_eq!(request.prompt, "a fox <lora:gone:1>");
}

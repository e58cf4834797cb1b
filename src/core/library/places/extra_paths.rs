//! ComfyUI's `extra_model_paths.yaml`, and Desktop's `extra_models_config.yaml`: model folders outside of ComfyUI's.
//!
//! Lists folders without reading them. Reads events, not values: a file full of aliases or brackets costs no more than
//! its length.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, StrInput};

use crate::files::{FileError, read_text_bounded};
use crate::model::CatalogError;

/// More than anybody writes by hand.
const MAX_BYTES: u64 = 1 << 20;
/// The longest value that may be used again by its name.
const MAX_ANCHORED: usize = 4096;
/// Limit of folders that one file may name.
const MAX_PLACES: usize = 200;
/// The keys whose folders hold models or parts of them; other keys are for things that this app has no use for.
const KEYS: &[&str] = &[
    "checkpoints",
    "ckpt",
    "clip",
    "clip_gguf",
    "clip_vision",
    "diffusers",
    "diffusion_models",
    "text_encoder",
    "text_encoders",
    "unet",
    "unet_gguf",
    "vae",
];

/// Purpose of the folders in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListedFolders {
    /// Models and parts of them.
    Models,
    Loras,
    /// Networks that change finished images and videos.
    Finishers,
    /// Networks that bring control images in.
    Controls,
    /// Embeddings that prompts name.
    Embeddings,
}

impl ListedFolders {
    fn of_key(key: &str) -> Option<Self> {
        match key {
            "loras" => Some(Self::Loras),
            "upscale_models" | "frame_interpolation" => Some(Self::Finishers),
            "controlnet" | "model_patches" => Some(Self::Controls),
            "embeddings" => Some(Self::Embeddings),
            key => KEYS.contains(&key).then_some(Self::Models),
        }
    }
}

/// Values of `~` and `$NAME` in a file.
pub(crate) struct ConfigEnvironment<'a> {
    pub home: Option<&'a Path>,
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

#[derive(Debug, Default)]
struct PathSection {
    base: Option<String>,
    is_default: bool,
    folders: Vec<(ListedFolders, String)>,
}

/// The folders with what is `wanted` that a file names, those of its default sections first. No file, no folders.
pub(crate) fn read(
    file: &Path,
    environment: &ConfigEnvironment<'_>,
    wanted: ListedFolders,
) -> Result<Vec<PathBuf>, CatalogError> {
    if !file.is_file() {
        return Ok(Vec::new());
    }
    let text = text_of(file)?;
    let mut sections = YamlReader::new(&text)
        .sections()
        .map_err(|(mark, reason)| {
            let (line, column) = (mark.line(), mark.col() + 1);
            let sentence = format!("line {line}, column {column}: {reason}");
            CatalogError::Catalogue(FileError::new(sentence, file))
        })?;
    sections.sort_by_key(|section| !section.is_default);
    let beside = file.parent().unwrap_or_else(|| Path::new(""));
    let places = sections.iter().flat_map(|section| {
        let folders = section.folders.iter();
        let folders = folders.filter(|(listed, _)| *listed == wanted);
        let folders: Vec<&str> = folders.map(|(_, folder)| folder.as_str()).collect();
        places(section, &folders, beside, environment)
    });
    Ok(places.take(MAX_PLACES).collect())
}

fn text_of(file: &Path) -> Result<String, CatalogError> {
    let text = read_text_bounded(file, MAX_BYTES);
    let text = text.map_err(|source| CatalogError::io(source, file))?;
    // Editors of Windows put a mark before the text.
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

/// The folders of one section, under its base, which itself is next to the file where it is relative.
fn places(
    section: &PathSection,
    folders: &[&str],
    beside: &Path,
    environment: &ConfigEnvironment<'_>,
) -> Vec<PathBuf> {
    let base = match &section.base {
        Some(base) => beside.join(environment.expand(base)),
        None => beside.to_owned(),
    };
    let named = folders.iter().map(|folder| {
        let place = base.join(environment.expand(folder));
        // Without `./` and slashes at the end.
        place.components().collect::<PathBuf>()
    });
    if section.base.is_none() || base.is_dir() {
        return named.collect();
    }
    // One line says enough of a tree that is gone.
    let there = named.filter(|place| place.is_dir()).collect::<Vec<_>>();
    let gone = (!folders.is_empty()).then(|| base.components().collect());
    there.into_iter().chain(gone).collect()
}

impl ConfigEnvironment<'_> {
    fn expand(&self, text: &str) -> PathBuf {
        let text = self.with_variables(text.trim());
        match (text.strip_prefix('~'), self.home) {
            (Some(""), Some(home)) => home.to_owned(),
            (Some(rest), Some(home)) if rest.starts_with('/') => {
                home.join(rest.trim_start_matches('/'))
            }
            _ => PathBuf::from(text),
        }
    }

    /// `$NAME` and `${NAME}`; a name that has no value stays as it is.
    fn with_variables(&self, text: &str) -> String {
        let mut parts = text.split('$');
        let mut expanded = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let (name, rest) = match part.strip_prefix('{').and_then(|it| it.split_once('}')) {
                Some(braced) => braced,
                None => part.split_at(part.find(|c| !is_name(c)).unwrap_or(part.len())),
            };
            if let Some(value) = (self.variable)(name).filter(|_| !name.is_empty()) {
                expanded.push_str(&value);
                expanded.push_str(rest);
            } else {
                expanded.push('$');
                expanded.push_str(part);
            }
        }
        expanded
    }
}

type YamlError = (Marker, String);

struct YamlReader<'a> {
    events: Parser<'a, StrInput<'a>>,
    /// Short values with an anchor.
    anchored: HashMap<usize, String>,
}

impl<'a> YamlReader<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            events: Parser::new_from_str(text),
            anchored: HashMap::new(),
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Marker), YamlError> {
        match self.events.next_event() {
            Some(Ok((event, span))) => {
                if let Event::Scalar(text, _, anchor, _) = &event
                    && *anchor > 0
                    && text.len() <= MAX_ANCHORED
                {
                    self.anchored.insert(*anchor, text.clone().into_owned());
                }
                Ok((event, span.start))
            }
            Some(Err(err)) => Err((*err.marker(), err.info().to_owned())),
            None => Ok((Event::StreamEnd, Marker::default())),
        }
    }

    fn sections(mut self) -> Result<Vec<PathSection>, YamlError> {
        let mut sections = Vec::new();
        loop {
            let (event, mark) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(sections),
                Event::MappingStart(..) => self.take_sections(&mut sections)?,
                Event::Scalar(text, style, ..) if is_null(&text, style) => {}
                Event::Scalar(..) | Event::SequenceStart(..) | Event::Alias(_) => {
                    let reason = "expected sections such as 'comfyui:' with folders in them";
                    return Err((mark, reason.to_owned()));
                }
                _ => {}
            }
        }
    }

    fn take_sections(&mut self, sections: &mut Vec<PathSection>) -> Result<(), YamlError> {
        while let Some(name) = self.key("the name of a section")? {
            let (event, mark) = self.next()?;
            match event {
                Event::MappingStart(..) => sections.push(self.section()?),
                // A section whose lines are all comments, and a file's store of anchors.
                Event::Scalar(text, style, ..) if is_null(&text, style) => {}
                Event::Alias(_) => {}
                _ => return Err((mark, format!("expected folders in the section '{name}'"))),
            }
        }
        Ok(())
    }

    fn section(&mut self) -> Result<PathSection, YamlError> {
        let mut section = PathSection::default();
        while let Some(key) = self.key("a key such as 'checkpoints'")? {
            let value = self.value(&key)?;
            match key.as_str() {
                "base_path" if !value.trim().is_empty() => section.base = Some(value),
                "is_default" => {
                    section.is_default = ["true", "yes", "on", "1"]
                        .iter()
                        .any(|word| value.eq_ignore_ascii_case(word));
                }
                key => {
                    let lines = value.lines().map(str::trim).filter(|it| !it.is_empty());
                    let listed = ListedFolders::of_key(key);
                    let folders = lines.filter_map(|line| Some((listed?, line.to_owned())));
                    section.folders.extend(folders);
                }
            }
        }
        Ok(section)
    }

    /// The next key; `None` at the end of the mapping.
    fn key(&mut self, expected: &str) -> Result<Option<String>, YamlError> {
        match self.next()? {
            (Event::Scalar(text, ..), _) => Ok(Some(text.into_owned())),
            (Event::MappingEnd, _) => Ok(None),
            (_, mark) => Err((mark, format!("expected {expected}"))),
        }
    }

    /// A value as text; the items of a list are lines of it.
    fn value(&mut self, key: &str) -> Result<String, YamlError> {
        let wrong = |mark| Err((mark, format!("expected a folder for '{key}'")));
        let (event, mark) = self.next()?;
        match event {
            // `~` alone is YAML's null, but the home folder as a base.
            Event::Scalar(text, style, ..) if is_null(&text, style) && text != "~" => {
                Ok(String::new())
            }
            Event::Scalar(text, ..) => Ok(text.into_owned()),
            Event::Alias(anchor) => Ok(self.anchored.get(&anchor).cloned().unwrap_or_default()),
            Event::SequenceStart(..) => {
                let mut lines = String::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => return Ok(lines),
                        (Event::Scalar(text, ..), _) => {
                            lines.push_str(&text);
                            lines.push('\n');
                        }
                        (_, mark) => return wrong(mark),
                    }
                }
            }
            _ => wrong(mark),
        }
    }
}

fn is_null(text: &str, style: ScalarStyle) -> bool {
    style == ScalarStyle::Plain && matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::fs::{self, File};

    use super::*;

    fn read_text(text: &str) -> (tempfile::TempDir, Result<Vec<PathBuf>, CatalogError>) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("extra_model_paths.yaml");
        fs::write(&file, text).unwrap();
        let environment = ConfigEnvironment {
            home: Some(Path::new("/home/me")),
            variable: &|name| (name == "DISK").then(|| "/disk".to_owned()),
        };
        let read = read(&file, &environment, ListedFolders::Models);
        (folder, read)
    }

    fn places_of(text: &str) -> Vec<PathBuf> {
        read_text(text).1.unwrap()
    }

    #[test]
    fn folders_come_from_every_section_the_default_ones_first() {
        let text = "# mine\n\na111:\n    checkpoints: /w/models/Stable-diffusion/\n    vae: /w/models/VAE\n    \
                    embeddings: /w/embeddings\n\ncomfyui:\n    is_default: true\n    unet: |\n        /c/unet\n\n        /c/./diffusion_models\n    \
                    text_encoders: |-\n      /c/text_encoders/\n    clip: '/c/clip' # old\n    custom_nodes: /c/custom_nodes\nempty:\n";
        let expected = [
            "/c/unet",
            "/c/diffusion_models",
            "/c/text_encoders",
            "/c/clip",
            "/w/models/Stable-diffusion",
            "/w/models/VAE",
        ];
        assert_eq!(places_of(text), expected.map(PathBuf::from));
        // What Display shows, too.
        assert_eq!(places_of(text)[2].to_str(), Some("/c/text_encoders"));
    }

    #[test]
    fn relative_paths_resolve_against_base_path_and_base_path_against_the_file() {
        let (folder, _) = read_text("");
        let file = folder.path().join("extra_model_paths.yaml");
        fs::create_dir_all(folder.path().join("tree/models/vae")).unwrap();
        let text =
            "a: {base_path: tree/, vae: models/vae, unet: [models/unet, /abs]}\nb: {vae: here}\n";
        fs::write(&file, text).unwrap();
        let environment = ConfigEnvironment {
            home: None,
            variable: &|_| None,
        };
        let found = read(&file, &environment, ListedFolders::Models).unwrap();
        let at = |path: &str| folder.path().join(path);
        assert_eq!(
            found,
            [
                at("tree/models/vae"),
                at("tree/models/unet"),
                at("/abs"),
                at("here")
            ]
        );
    }

    #[test]
    fn of_a_tree_that_is_gone_only_the_base_is_named() {
        let text = "a:\n  base_path: /no/such/tree/\n  vae: models/vae\n  unet: models/unet\n";
        assert_eq!(places_of(text), [PathBuf::from("/no/such/tree")]);
        assert!(places_of("a:\n  base_path: /no/such/tree/\n").is_empty());
    }

    #[test]
    fn home_variables_and_anchors_are_understood() {
        let text = "x: &base ~/ai\na: {vae: ~/vae, clip: '$DISK/clip', unet: '${DISK}s/$NONE/${', checkpoints: *c}\n";
        let (_folder, read) = read_text(text);
        assert!(read.is_err(), "a section must hold folders");
        let text =
            "a: {vae: &v ~/vae, clip: '$DISK/clip', unet: '/${DISK}s/$NONE/${', checkpoints: *v}\n";
        let expected = [
            "/home/me/vae",
            "/disk/clip",
            "//disks/$NONE/${",
            "/home/me/vae",
        ];
        assert_eq!(places_of(text), expected.map(PathBuf::from));
    }

    #[test]
    fn broken_extra_model_paths_file_is_reported_with_line_and_column() {
        for (text, place) in [
            ("a:\n  vae: [/x\n", "line "),
            ("a:\n\tvae: /x\n", "line 2, column "),
            ("a:\n  vae: \"C:\\Users\\me\"\n", "line 2, column "),
            ("- a\n- b\n", "line 1, column 1: expected sections"),
            ("just words\n", "line 1, column 1: expected sections"),
            (
                "a: /x\n",
                "line 1, column 4: expected folders in the section 'a'",
            ),
            (
                "a:\n  vae:\n    x: y\n",
                "line 3, column 5: expected a folder for 'vae'",
            ),
            ("a:\n  vae: *nobody\n", "line 2, column "),
        ] {
            let (_folder, read) = read_text(text);
            let problem = read.unwrap_err().to_string();
            assert!(problem.starts_with(place), "{text}: {problem}");
            assert!(problem.ends_with("extra_model_paths.yaml"), "{problem}");
        }
        let (folder, _) = read_text("");
        let file = folder.path().join("extra_model_paths.yaml");
        let environment = ConfigEnvironment {
            home: None,
            variable: &|_| None,
        };
        fs::write(&file, [0xff, 0xfe, 0]).unwrap();
        assert!(read(&file, &environment, ListedFolders::Models).is_err());
        File::create(&file).unwrap().set_len(1 << 40).unwrap();
        assert!(read(&file, &environment, ListedFolders::Models).is_err());
    }

    #[test]
    fn aliases_and_brackets_without_end_cost_no_more_than_their_length() {
        let mut bomb = "a: {vae: &a0 [x]}\n".to_owned();
        for level in 1..60 {
            let before = format!("*a{}, ", level - 1).repeat(9);
            writeln!(bomb, "b{level}: &a{level} [{before}]").unwrap();
        }
        assert!(read_text(&bomb).1.is_err());
        assert!(read_text(&"[".repeat(100_000)).1.is_err());
        assert!(read_text(&"a: {".repeat(100_000)).1.is_err());
        assert!(places_of("").is_empty() && places_of("# nothing\n").is_empty());
    }
}

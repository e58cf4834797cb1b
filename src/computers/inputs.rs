//! Input files of a job on another computer: the client says which there are, the host stores those that it lacks by
//! their content, and gives each its name again in a folder of the job.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use safelight_core::files::{copy_private, make_private_folder};
use safelight_core::job::{GenerateRequest, JobError, JobId};
use safelight_core::media;
use serde::{Deserialize, Serialize};

use super::transfer::{FileContent, FileDownload};

/// Age at which the host removes files of clients that did not come back.
const KEPT_FOR: Duration = Duration::from_hours(30 * 24);

/// A file that belongs to an input of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct InputFile {
    /// The input's path in the request.
    input: PathBuf,
    /// Path of the file, relative to the input's folder.
    name: PathBuf,
    content: FileContent,
}

/// Files of a request that travel, with their paths on this computer. A LoRA that the host has under the same name is
/// replaced by its own.
pub(super) fn describe(
    request: &mut GenerateRequest,
    loras: &[PathBuf],
) -> Result<Vec<(PathBuf, InputFile)>, JobError> {
    for lora in request
        .loras
        .iter_mut()
        .filter(|lora| !loras.contains(&lora.path))
    {
        let named = |own: &&PathBuf| own.file_name() == lora.path.file_name();
        if let Some(own) = loras.iter().find(named) {
            lora.path.clone_from(own);
        }
    }
    let videos = [&request.extend, &request.source_video, &request.mask];
    let controls = request.controls.iter();
    let controls = controls.flat_map(|control| control.mask.iter().chain([&control.file]));
    let videos: Vec<&PathBuf> = videos.into_iter().flatten().chain(controls).collect();
    let mut found: BTreeMap<PathBuf, InputFile> = BTreeMap::new();
    for input in request.inputs().filter(|input| !loras.contains(input)) {
        let unread = |err: io::Error| {
            JobError::disk(
                format!("an input cannot be read: {}", input.display()),
                &err,
            )
        };
        let files = if videos.contains(&input) {
            // An image is one file.
            media::video_files(input).unwrap_or_else(|_| vec![input.clone()])
        } else if input.is_dir() {
            let paths = fs::read_dir(input)
                .map_err(unread)?
                .flatten()
                .map(|entry| entry.path());
            paths.filter(|path| path.is_file()).collect()
        } else {
            vec![input.clone()]
        };
        let folder = input.parent().unwrap_or_else(|| Path::new("/"));
        for path in files {
            let file = InputFile {
                input: input.clone(),
                name: path.strip_prefix(folder).unwrap_or(&path).to_owned(),
                content: FileContent::of(&path).map_err(unread)?,
            };
            found.insert(path, file);
        }
    }
    Ok(found.into_iter().collect())
}

/// Files on the host by their content.
pub(super) struct InputStore {
    folder: PathBuf,
}

impl InputStore {
    /// Opens the store below `folder`, and removes what is old there.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let store = Self {
            folder: folder.join("store"),
        };
        make_private_folder(&store.folder)?;
        for folder in ["store", "inputs", "results"].map(|name| folder.join(name)) {
            for entry in folder.read_dir().into_iter().flatten().flatten() {
                let written = entry.metadata().and_then(|meta| meta.modified());
                let age = written.map(|written| SystemTime::now().duration_since(written));
                if age.is_ok_and(|age| age.is_ok_and(|age| age > KEPT_FOR)) {
                    let path = entry.path();
                    // It is tried again at the next start.
                    fs::remove_file(&path)
                        .or_else(|_| fs::remove_dir_all(&path))
                        .ok();
                }
            }
        }
        Ok(store)
    }

    fn path(&self, content: &FileContent) -> Result<PathBuf, JobError> {
        let sha256 = &content.sha256;
        let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        let path = is_hash.then(|| self.folder.join(sha256));
        path.ok_or_else(|| JobError::invalid("an input file is named by no checksum"))
    }

    /// The files that are not here, to ask for.
    pub(super) fn download(
        &self,
        id: JobId,
        files: &[InputFile],
    ) -> Result<FileDownload, JobError> {
        let paths = files
            .iter()
            .map(|file| Ok((file.content.clone(), self.path(&file.content)?)));
        let paths = paths.collect::<Result<_, JobError>>()?;
        Ok(FileDownload::new(id, paths, true))
    }

    /// Gives the files their names in a folder of the job, and the request these paths.
    pub(super) fn place(
        &self,
        id: JobId,
        files: &[InputFile],
        request: &mut GenerateRequest,
    ) -> Result<(), JobError> {
        let disk = |err: io::Error| JobError::disk("an input file cannot be stored", &err);
        let folder = self.job_folder(id);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(disk)?;
        }
        let inputs: BTreeSet<&PathBuf> = files.iter().map(|file| &file.input).collect();
        for file in files {
            let mut parts = file.name.components();
            if !parts.all(|part| matches!(part, Component::Normal(_))) {
                let what = format!("not the name of an input file: {}", file.name.display());
                return Err(JobError::invalid(what));
            }
            let number = inputs.iter().position(|input| **input == file.input);
            let path = folder
                .join(number.unwrap_or(0).to_string())
                .join(&file.name);
            make_private_folder(path.parent().unwrap_or(&folder)).map_err(disk)?;
            let stored = self.path(&file.content)?;
            let linked = fs::hard_link(&stored, &path);
            linked
                .or_else(|_| copy_private(&stored, &path))
                .map_err(disk)?;
        }
        for (number, input) in inputs.into_iter().enumerate() {
            let name = input.file_name().unwrap_or_default();
            let copy = folder.join(number.to_string()).join(name);
            for path in request.paths_mut().filter(|path| *path == input) {
                path.clone_from(&copy);
            }
            request.copies.insert(copy, input.clone());
        }
        Ok(())
    }

    pub(super) fn job_folder(&self, id: JobId) -> PathBuf {
        self.folder.with_file_name("inputs").join(id.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::testing::request;

    #[test]
    fn inputs_travel_by_content_and_get_their_names_back() {
        let (laptop, host) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let image = laptop.path().join("cat.png");
        fs::write(&image, vec![7; 3 << 19]).unwrap();
        let mut asked = request();
        asked.image = Some(image.clone());
        let files: Vec<InputFile> = describe(&mut asked, &[])
            .unwrap()
            .into_iter()
            .map(|(_, file)| file)
            .collect();
        let (store, id) = (InputStore::open(host.path()).unwrap(), JobId(5));
        let mut download = store.download(id, &files).unwrap();
        let mut num_parts = 0;
        while let Some(part) = download.next() {
            download.take(part, &part.read(Some(&image))).unwrap();
            num_parts += 1;
        }
        assert_eq!(num_parts, 2);
        assert_eq!(
            store.download(id, &files).unwrap().next(),
            None,
            "it is there"
        );
        let mut there = asked.clone();
        store.place(id, &files, &mut there).unwrap();
        let copy = there.image.clone().unwrap();
        assert!(
            copy.starts_with(host.path()) && copy.ends_with("cat.png"),
            "{copy:?}"
        );
        assert_eq!(fs::read(&copy).unwrap(), fs::read(&image).unwrap());
        // The result names the image as the user did.
        assert_eq!(there.carried()["request"]["image"], image.to_str().unwrap());
    }

    #[test]
    fn an_input_that_changed_or_has_a_bad_name_is_refused() {
        let host = tempfile::tempdir().unwrap();
        let store = InputStore::open(host.path()).unwrap();
        let source = host.path().join("source");
        fs::write(&source, "abc").unwrap();
        let mut file = InputFile {
            input: "/in".into(),
            name: "in".into(),
            content: FileContent::of(&source).unwrap(),
        };
        let take = |file: &InputFile, bytes: &[u8]| {
            let mut download = store.download(JobId(5), std::slice::from_ref(file))?;
            download.take(download.next().unwrap(), bytes)
        };
        let err = take(&file, b"abd").unwrap_err();
        assert!(err.summary.contains("changed"), "{err}");
        take(&file, b"abc").unwrap();
        for name in ["../evil", "/etc/evil"] {
            file.name = name.into();
            let placed = store.place(JobId(5), std::slice::from_ref(&file), &mut request());
            assert!(placed.is_err(), "{name}");
        }
        file.content.sha256 = "../../x".to_owned();
        assert!(take(&file, b"abc").is_err());
    }
}

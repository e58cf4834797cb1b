//! Ranks of a job on other computers. The engine here starts `safelight computers rank HOST DEVICE` for each, which
//! connects it by ssh with `safelight worker --rank DEVICE` there, and that with an engine. The files of the job's folder
//! travel with each stage; models and LoRAs are those of the other computer.

use std::fs;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use crossbeam_channel::Sender;
use safelight_core::catalog::ModelCatalog;
use safelight_core::files::make_private_folder;
use safelight_core::fitting;
use safelight_core::job::{DeviceChoice, GenerateRequest, JobError, JobErrorKind, JobRequest};
use safelight_core::model::ModelSpec;
use safelight_core::protocol::{
    EngineCommand, EngineMessage, PROTOCOL_VERSION, RankAddresses, StageEnd, StageOrder,
    read_frame, write_frame,
};
use safelight_core::settings::{AppPaths, Settings};

use super::spawn;
use super::ssh::{SshProcess, named};
use crate::worker::link::{EngineLauncher, EngineLink};

/// Files of a job's folder that travel with a stage, in all.
const MAX_FILES_BYTES: u64 = 512 << 20;

/// Connects standard input and output, which speak the engine's protocol, with a rank of another computer. Returns when
/// either ends.
pub fn connect(host: &str, device: DeviceChoice) {
    if let Err(err) = try_connect(host, device) {
        say(&EngineMessage::Refused(err));
    }
}

fn try_connect(host: &str, device: DeviceChoice) -> Result<(), JobError> {
    let there = format!("safelight worker --rank {device}");
    let (process, mut input, output) = SshProcess::start(host, &there).map_err(|err| err.error)?;
    spawn("rank-orders", move || {
        let mut orders = BufReader::new(io::stdin());
        while let Ok(Some((order, _))) = read_frame::<EngineCommand>(&mut orders) {
            let files = match &order {
                EngineCommand::RunStage(order) => packed(&order.folder),
                _ => Ok(Vec::new()),
            };
            if let Err(err) = files.and_then(|files| write_frame(&mut input, &order, &files)) {
                tracing::error!("a stage cannot be sent to another computer: {err}");
                break;
            }
        }
    });
    let mut output = BufReader::new(output);
    let mut has_begun = false;
    while let Ok(Some((message, _))) = read_frame::<EngineMessage>(&mut output) {
        if let EngineMessage::Ready(report) = &message
            && report.protocol != PROTOCOL_VERSION
        {
            let what = format!("{host} has another version of Safelight");
            let advice =
                format!("Install the same version on both: `safelight computers install {host}`");
            return Err(JobError::new(JobErrorKind::Network, what).advise(advice));
        }
        has_begun = true;
        let message = match message {
            EngineMessage::Refused(err) => EngineMessage::Refused(named(host, err, None)),
            EngineMessage::StageEnded(StageEnd::Failed { error }) => {
                let error = named(host, error, None);
                EngineMessage::StageEnded(StageEnd::Failed { error })
            }
            message => message,
        };
        if write_frame(&mut io::stdout(), &message, &[]).is_err() {
            return Ok(());
        }
    }
    if has_begun {
        Ok(())
    } else {
        Err(process.failure().error)
    }
}

/// Regular files of a job's folder, each a frame with its name.
fn packed(folder: &Path) -> io::Result<Vec<u8>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_file() {
            continue;
        }
        let bytes = fs::read(entry.path())?;
        if (files.len() + bytes.len()) as u64 > MAX_FILES_BYTES {
            return Err(io::Error::other("the files of its stage are too large"));
        }
        write_frame(&mut files, &entry.file_name().to_string_lossy(), &bytes)?;
    }
    Ok(files)
}

/// Replaces the files of a folder by packed ones.
fn unpack(mut files: &[u8], folder: &Path) -> io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    make_private_folder(folder)?;
    while let Some((name, bytes)) = read_frame::<String>(&mut files)? {
        if Path::new(&name).file_name() != Some(name.as_ref()) {
            return Err(io::Error::other(format!("{name:?} is no name of a file")));
        }
        fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}

/// Connects standard input and output with an engine of this computer, a rank of another one's job. Returns when either
/// ends.
pub fn serve(device: DeviceChoice, launcher: &mut dyn EngineLauncher, paths: &AppPaths) {
    // Dropped, the control ends the engine.
    let EngineLink {
        commands,
        messages,
        control: _control,
    } = match launcher.launch(device) {
        Ok(link) => link,
        Err(err) => return say(&EngineMessage::Refused(err)),
    };
    let folder = paths.cache.join(format!("rank-{}", std::process::id()));
    let (paths, own) = (paths.clone(), folder.clone());
    // The engine ends with its commands.
    spawn("rank-orders", move || pass_orders(&commands, &own, &paths));
    for (message, _) in messages {
        match message {
            EngineMessage::Ready(mut report) => {
                report.addresses = addresses();
                say(&EngineMessage::Ready(report));
            }
            EngineMessage::Refused(_) | EngineMessage::StageEnded(_) => say(&message),
            _ => {}
        }
    }
    fs::remove_dir_all(folder).ok();
}

/// Frames of both threads.
fn say(message: &EngineMessage) {
    // Without a reader the end of the input follows.
    write_frame(&mut io::stdout().lock(), message, &[]).ok();
}

/// The two addresses of the ssh connection that started this process.
fn addresses() -> Option<RankAddresses> {
    let connection = std::env::var("SSH_CONNECTION").ok()?;
    let mut parts = connection.split_whitespace().map(str::to_owned);
    let (first, own) = (parts.next()?, parts.nth(1)?);
    Some(RankAddresses { first, own })
}

fn pass_orders(commands: &Sender<EngineCommand>, folder: &Path, paths: &AppPaths) {
    let mut input = BufReader::new(io::stdin());
    while let Ok(Some((mut command, files))) = read_frame::<EngineCommand>(&mut input) {
        if let EngineCommand::RunStage(order) = &mut command
            && let Err(error) = make_local(order, &files, folder, paths)
        {
            say(&EngineMessage::StageEnded(StageEnd::Failed { error }));
        } else if commands.send(command).is_err() {
            break;
        }
    }
}

/// Gives a stage the folder, model and LoRAs of this computer.
fn make_local(
    order: &mut StageOrder,
    files: &[u8],
    folder: &Path,
    paths: &AppPaths,
) -> Result<(), JobError> {
    unpack(files, folder).map_err(|err| JobError::disk("the files of a stage", &err))?;
    order.folder = folder.to_owned();
    if let JobRequest::Generate(request) = &mut order.request {
        let settings = Settings::load(&paths.settings_file()).settings;
        if !request.files.transformer.exists() {
            let models = ModelCatalog::load(paths, &settings).available;
            request.files = own_model(request, models)?.files;
        }
        let own = fitting::find(paths, &settings);
        for lora in request.loras.iter_mut().filter(|lora| !lora.path.exists()) {
            let named = |path: &&PathBuf| path.file_name() == lora.path.file_name();
            let found = own.iter().find(named).ok_or_else(|| missing(&lora.path))?;
            lora.path.clone_from(found);
        }
    }
    Ok(())
}

/// The model whose transformer has the same name in a folder of the same name.
fn own_model(request: &GenerateRequest, models: Vec<ModelSpec>) -> Result<ModelSpec, JobError> {
    let name = |path: &Path| {
        let folder = path.parent().and_then(Path::file_name);
        (
            folder.map(ToOwned::to_owned),
            path.file_name().map(ToOwned::to_owned),
        )
    };
    let named = |spec: &ModelSpec| {
        spec.family == request.family
            && (spec.id == request.model
                || name(&spec.files.transformer) == name(&request.files.transformer))
    };
    let mut models = models.into_iter();
    models
        .find(named)
        .ok_or_else(|| missing(&request.files.transformer))
}

fn missing(path: &Path) -> JobError {
    let what = format!("the file is missing there: {}", path.display());
    JobError::invalid(what)
        .advise("Copy it to a model folder of that computer, under the same name")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::testing::request;

    #[test]
    fn a_stage_gets_the_model_of_this_computer_and_its_files() {
        let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(there.path().join("encode.safetensors"), "abc").unwrap();
        fs::create_dir(there.path().join("parts")).unwrap();
        let files = packed(there.path()).unwrap();
        let folder = here.path().join("rank");
        for _ in 0..2 {
            unpack(&files, &folder).unwrap();
            assert_eq!(fs::read(folder.join("encode.safetensors")).unwrap(), b"abc");
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
            fs::write(folder.join("of the last stage"), "").unwrap();
        }
        let mut evil = Vec::new();
        write_frame(&mut evil, &"../evil", b"abc").unwrap();
        assert!(unpack(&evil, &folder).is_err());

        let mut request = request();
        request.files.transformer = "/nas/models/wan/transformer".into();
        let tiny = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wan/pipeline");
        let tiny = ModelSpec::open(&tiny).unwrap();
        request.family = tiny.family;
        let spec = |id: &str, transformer: &str| {
            let mut spec = ModelSpec {
                id: id.to_owned(),
                ..tiny.clone()
            };
            spec.files.transformer = transformer.into();
            spec
        };
        let other = spec("other", "/home/me/other/transformer");
        let own = spec("own", "/home/me/wan/transformer");
        let found = own_model(&request, vec![other.clone(), own.clone()]).unwrap();
        assert_eq!(found.id, "own");
        let err = own_model(&request, vec![other]).unwrap_err();
        assert!(err.summary.contains("/nas/models/wan/transformer"), "{err}");
    }
}

//! The work of the file thread, one task after the other.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::naming;

use crate::app::background::{Answer, FoundOutput, OutputWish, Task};
use crate::app::inputs::opening::{continue_result, keep_pasted, open_inputs, opened_one};
use crate::app::inputs::{Placing, Slot};
use crate::worker::LeftJob;

pub(super) fn run(task: Task, taken: &mut HashSet<PathBuf>) -> Option<Answer> {
    match task {
        Task::LoadModels(load, settings) => Some(Answer::Models(load(&settings))),
        Task::CheckEngine(check, settings) => Some(Answer::Engine(check(&settings))),
        Task::ReadPlan(read, settings, wish) => {
            let basis = read(&settings, &wish).map(Box::new);
            Some(Answer::Plan(wish, basis))
        }
        Task::OpenInputs {
            paths,
            placing,
            room,
            edit,
        } => Some(Answer::Inputs(open_inputs(&paths, placing, room, edit))),
        Task::KeepPasted(image, folder) => {
            let opened = keep_pasted(&image, &folder);
            Some(Answer::Inputs(opened_one(opened, Placing::default())))
        }
        Task::Continue(result) => {
            let opened = continue_result(&result);
            let placing = Placing {
                slot: Some(Slot::Start),
                ..Placing::default()
            };
            Some(Answer::Inputs(opened_one(opened, placing)))
        }
        Task::Work(work) => work(),
        Task::FindLeft(jobs) => Some(Answer::Left(LeftJob::all(&jobs))),
        Task::FindOutput(wish) => {
            let id = wish.id;
            Some(Answer::Output(id, find_output(wish, taken)))
        }
    }
}

fn find_output(wish: OutputWish, taken: &mut HashSet<PathBuf>) -> Result<FoundOutput, JobError> {
    let OutputWish {
        id: _,
        folder,
        mut form,
        wildcards,
        extension,
    } = wish;
    let expanded = wildcards.map(|wildcards| form.expand_prompts(&wildcards));
    let notices = expanded.transpose().map_err(|errors| {
        let messages: Vec<String> = errors.into_iter().map(|err| err.message).collect();
        JobError::new(JobErrorKind::InvalidRequest, messages.join("; "))
    })?;
    fs::create_dir_all(&folder).map_err(|err| folder_error(&folder, &err))?;
    let slug = naming::slug(&form.prompt);
    let stem = format!("{}_{slug}_{}", naming::timestamp(), form.seed);
    Ok(FoundOutput {
        path: naming::free_path(&folder, &stem, &extension, taken),
        form,
        notices: notices.unwrap_or_default(),
    })
}

fn folder_error(folder: &Path, err: &io::Error) -> JobError {
    JobError::new(
        JobErrorKind::Disk,
        format!(
            "the folder for results cannot be made ({err}): {}",
            folder.display()
        ),
    )
    .advise("Choose another folder in the settings")
    .detail(err.to_string())
}

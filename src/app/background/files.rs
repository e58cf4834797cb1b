//! The work of the file thread, one task after the other.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crossbeam_channel::Receiver;
use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::naming;

use crate::app::background::guard::guarded;
use crate::app::background::{Answer, FoundOutput, OutputWish, Postbox, Task};
use crate::app::inputs::opening::{continue_result, keep_pasted, open_inputs, opened_one};
use crate::app::inputs::{Placing, Slot};
use crate::worker::LeftJob;

/// Runs them until nobody can send one any more. All others need this thread, so one that panics ends alone.
pub(super) fn run_all(tasks: &Receiver<Task>, postbox: &Postbox) {
    let mut taken = HashSet::new();
    for task in tasks {
        let answer = guarded(|| run(task, &mut taken));
        let answer = answer.unwrap_or_else(|| Some(Answer::Problem(not_done())));
        if let Some(answer) = answer {
            postbox.post(answer);
        }
    }
}

fn not_done() -> JobError {
    JobError::new(JobErrorKind::Internal, "work on files ended in the middle")
        .advise("Do it once more. The log says where it ended")
}

fn run(task: Task, taken: &mut HashSet<PathBuf>) -> Option<Answer> {
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
            ticket,
        } => Some(Answer::Inputs(open_inputs(&paths, placing, room, ticket))),
        Task::KeepPasted(image, folder, ticket) => {
            let opened = keep_pasted(&image, &folder);
            let placing = Placing::default();
            Some(Answer::Inputs(opened_one(opened, placing, ticket)))
        }
        Task::Continue(result, ticket) => {
            let opened = continue_result(&result);
            let placing = Placing {
                slot: Some(Slot::Start),
                ..Placing::default()
            };
            Some(Answer::Inputs(opened_one(opened, placing, ticket)))
        }
        Task::Work(work) => work(),
        Task::FindLeft(jobs) => Some(Answer::Left(LeftJob::all(&jobs))),
        Task::FindOutput(wish) => {
            let id = wish.id;
            // The next job waits for its answer, whatever becomes of it.
            let found = guarded(|| find_output(wish, taken));
            let found = found.unwrap_or_else(|| Err(not_done()));
            Some(Answer::Output(id, found))
        }
    }
}

fn find_output(wish: OutputWish, taken: &mut HashSet<PathBuf>) -> Result<FoundOutput, JobError> {
    let OutputWish {
        id: _,
        folder,
        mut request,
        wildcards,
    } = wish;
    let expanded = wildcards.map(|wildcards| request.expand_prompts(&wildcards));
    let notices = expanded.transpose().map_err(|errors| {
        let messages: Vec<String> = errors.into_iter().map(|err| err.message).collect();
        JobError::new(JobErrorKind::InvalidRequest, messages.join("; "))
    })?;
    fs::create_dir_all(&folder).map_err(|err| folder_error(&folder, &err))?;
    let slug = naming::slug(&request.prompt);
    let stem = format!("{}_{slug}_{}", naming::timestamp(), request.seed);
    let extension = request.out.extension().unwrap_or_default();
    let extension = extension.to_string_lossy().into_owned();
    request.out = naming::free_path(&folder, &stem, &extension, taken);
    Ok(FoundOutput {
        request,
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

#[cfg(test)]
mod tests {
    use crossbeam_channel::bounded;

    use super::*;

    #[test]
    fn work_that_panics_is_told_and_what_comes_behind_it_is_done() {
        let (tasks, receiver) = bounded(8);
        let (sender, answers) = bounded(8);
        let postbox = Postbox {
            answers: sender,
            ctx: egui::Context::default(),
        };
        let panics = Task::Work(Box::new(|| panic!("on purpose")));
        let jobs = PathBuf::from("/nowhere");
        for task in [panics, Task::FindLeft(jobs)] {
            tasks.send(task).expect("there is room");
        }
        drop(tasks);
        run_all(&receiver, &postbox);
        assert!(matches!(answers.recv(), Ok(Answer::Problem(_))));
        assert!(matches!(answers.recv(), Ok(Answer::Left(left)) if left.is_empty()));
    }
}

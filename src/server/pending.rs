//! Jobs that a request waits for.

use std::sync::Arc;

use safelight_core::job::JobId;
use safelight_core::job::prompt::check_length;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::context::ServerContext;
use super::error::ApiError;
use super::link::{
    AppBusy, JobChange, JobEvent, JobStatus, JobView, NewJobs, PreviewImage, ServerCall,
    ServerLink, SubmittedJobs,
};

/// Jobs of one request. Those that have not ended are cancelled when this is dropped, as when the client is gone.
pub struct PendingJobs {
    link: ServerLink,
    events: Receiver<JobEvent>,
    ids: Vec<JobId>,
    /// Sentences on values of the form that were changed or are not used.
    pub notices: Vec<String>,
    ended: Vec<Arc<JobView>>,
}

/// News of the jobs.
pub enum JobNews {
    Preview(Arc<PreviewImage>),
    /// One of them, which has not ended.
    Progress(Arc<JobView>),
    /// All have ended, in the order of their seeds.
    Ended(Vec<Arc<JobView>>),
}

impl ServerContext {
    pub async fn submit(&self, jobs: impl Into<NewJobs>) -> Result<SubmittedJobs, ApiError> {
        let link = &self.0.link;
        let jobs = jobs.into();
        if let NewJobs::Generate(form, _) = &jobs {
            // The app would copy a long prompt many times.
            check_length(&form.prompt)?;
        }
        let submitted = link.ask(|reply| ServerCall::Submit(jobs, reply));
        Ok(submitted.await??)
    }

    /// Queues jobs, to wait for them.
    pub async fn begin(&self, jobs: impl Into<NewJobs>) -> Result<PendingJobs, ApiError> {
        let events = self.0.link.events.subscribe();
        let SubmittedJobs { ids, notices } = self.submit(jobs).await?;
        Ok(PendingJobs {
            link: self.0.link.clone(),
            events,
            ids,
            notices,
            ended: Vec::new(),
        })
    }

    pub async fn jobs(&self) -> Result<Vec<JobView>, AppBusy> {
        self.0.link.ask(ServerCall::List).await
    }

    pub async fn job(&self, id: JobId) -> Result<JobView, ApiError> {
        let mut jobs = self.jobs().await?.into_iter();
        let job = jobs.find(|job| job.id == id);
        job.ok_or_else(|| ApiError::not_found(&format!("job {id}")))
    }
}

impl PendingJobs {
    pub async fn next(&mut self) -> Result<JobNews, ApiError> {
        loop {
            if self.ended.len() == self.ids.len() {
                self.ids.clear();
                self.ended.sort_by_key(|job| job.id);
                return Ok(JobNews::Ended(std::mem::take(&mut self.ended)));
            }
            match self.events.recv().await {
                Ok(JobEvent::Preview(id, image)) if self.ids.contains(&id) => {
                    return Ok(JobNews::Preview(image));
                }
                Ok(JobEvent::Changed(job)) => {
                    self.take(&job);
                    if !job.status.has_ended() && self.ids.contains(&job.id) {
                        return Ok(JobNews::Progress(job));
                    }
                }
                Ok(JobEvent::Preview(..)) => {}
                // Events were lost: the list says what they said.
                Err(RecvError::Lagged(_)) => {
                    for job in self.link.ask(ServerCall::List).await? {
                        self.take(&Arc::new(job));
                    }
                }
                Err(RecvError::Closed) => return Err(AppBusy.into()),
            }
        }
    }

    fn take(&mut self, job: &Arc<JobView>) {
        let is_new = !self.ended.iter().any(|ended| ended.id == job.id);
        if is_new && job.status.has_ended() && self.ids.contains(&job.id) {
            self.ended.push(Arc::clone(job));
        }
    }

    /// Waits until all have ended; the first that failed is the error.
    pub async fn finish(mut self) -> Result<Vec<Arc<JobView>>, ApiError> {
        loop {
            if let JobNews::Ended(jobs) = self.next().await? {
                check_all(&jobs)?;
                return Ok(jobs);
            }
        }
    }
}

pub fn check_all(jobs: &[Arc<JobView>]) -> Result<(), ApiError> {
    for job in jobs {
        if let Some(problem) = &job.error {
            return Err(problem.into());
        }
        if job.status == JobStatus::Cancelled {
            return Err(ApiError::cancelled());
        }
    }
    Ok(())
}

impl Drop for PendingJobs {
    fn drop(&mut self) {
        for id in std::mem::take(&mut self.ids) {
            if !self.ended.iter().any(|ended| ended.id == id) {
                let (reply, _) = tokio::sync::oneshot::channel();
                let call = ServerCall::Change(id, JobChange::Cancel, reply);
                self.link.tell(call).ok();
            }
        }
    }
}

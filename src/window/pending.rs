//! Background work as its owner sees it: on its way, until what came of it is taken.
//!
//! Whoever drops or replaces it hears nothing of it any more. Threads are [`crate::window::background`]'s.

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use egui::Context;
use safelight_core::job::CancelToken;

/// Answers that may wait in a stream until they are taken.
const ROOM: usize = 64;

/// Sender of a thread's results; each wakes the window, and so does the end.
pub struct TaskChannel<T> {
    answers: Option<Sender<T>>,
    ctx: Context,
}

impl<T> Clone for TaskChannel<T> {
    fn clone(&self) -> Self {
        Self {
            answers: self.answers.clone(),
            ctx: self.ctx.clone(),
        }
    }
}

impl<T> std::fmt::Debug for TaskChannel<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postbox").finish_non_exhaustive()
    }
}

impl<T> TaskChannel<T> {
    pub(super) fn new(ctx: &Context, room: usize) -> (Self, Receiver<T>) {
        let (answers, receiver) = bounded(room);
        let postbox = Self {
            answers: Some(answers),
            ctx: ctx.clone(),
        };
        (postbox, receiver)
    }

    /// Waits for room; `false` when the receiver is gone.
    pub fn post(&self, answer: T) -> bool {
        let answers = self.answers.as_ref();
        let is_heard = answers.is_some_and(|answers| answers.send(answer).is_ok());
        if is_heard {
            self.ctx.request_repaint();
        }
        is_heard
    }

    /// Leaves the answer out where there is no room.
    pub fn try_post(&self, answer: T) {
        let answers = self.answers.as_ref();
        if answers.is_some_and(|answers| answers.try_send(answer).is_ok()) {
            self.ctx.request_repaint();
        }
    }
}

impl<T> Drop for TaskChannel<T> {
    fn drop(&mut self) {
        // First the end, then the look at it.
        self.answers = None;
        self.ctx.request_repaint();
    }
}

/// Work that brings one answer or a stream of them; several pieces of work can share it.
#[derive(Debug)]
pub struct BackgroundTask<T>(Vec<Receiver<T>>);

impl<T> BackgroundTask<T> {
    /// Task with one answer.
    pub(super) fn new(ctx: &Context) -> (TaskChannel<T>, Self) {
        Self::with_room(ctx, 1)
    }

    /// Task with a stream of answers.
    pub(super) fn stream(ctx: &Context) -> (TaskChannel<T>, Self) {
        Self::with_room(ctx, ROOM)
    }

    fn with_room(ctx: &Context, room: usize) -> (TaskChannel<T>, Self) {
        let (postbox, answers) = TaskChannel::new(ctx, room);
        (postbox, Self(vec![answers]))
    }

    pub fn add(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// An answer that has come. Of work that ended without one there is none.
    pub fn take(&mut self) -> Option<T> {
        let mut index = 0;
        while let Some(answers) = self.0.get(index) {
            match answers.try_recv() {
                Ok(answer) => {
                    if answers.capacity() == Some(1) {
                        self.0.remove(index);
                    }
                    return Some(answer);
                }
                Err(TryRecvError::Empty) => index += 1,
                Err(TryRecvError::Disconnected) => drop(self.0.remove(index)),
            }
        }
        None
    }

    /// True if more answers may come: to be called when there is nothing to take.
    pub fn is_busy(&self) -> bool {
        !self.0.is_empty()
    }
}

impl<T> Default for BackgroundTask<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Progress or the end of a [`LongTask`].
pub enum TaskUpdate<P, T> {
    Progress(P),
    End(T),
}

/// Work with progress that can be stopped. It is stopped when it is dropped.
pub struct LongTask<P, T> {
    /// Last progress, while it runs.
    pub progress: Option<P>,
    pub(super) cancel: CancelToken,
    pub(super) updates: BackgroundTask<TaskUpdate<P, T>>,
}

impl<P, T> LongTask<P, T> {
    pub fn is_busy(&self) -> bool {
        self.updates.is_busy()
    }

    /// True until its thread has let go.
    pub fn is_stopping(&self) -> bool {
        self.is_busy() && self.cancel.is_cancelled()
    }

    /// Results so far are kept.
    pub fn stop(&self) {
        self.cancel.cancel();
    }

    /// Result at the end. A thread that ended in the middle gives nothing.
    pub fn take(&mut self) -> Option<T> {
        loop {
            match self.updates.take()? {
                TaskUpdate::Progress(progress) => self.progress = Some(progress),
                TaskUpdate::End(end) => {
                    self.updates = BackgroundTask::default();
                    return Some(end);
                }
            }
        }
    }
}

impl<P, T> Default for LongTask<P, T> {
    fn default() -> Self {
        Self {
            progress: None,
            cancel: CancelToken::default(),
            updates: BackgroundTask::default(),
        }
    }
}

impl<P, T> Drop for LongTask<P, T> {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_is_taken_once_and_work_that_died_is_not_waited_for() {
        let ctx = Context::default();
        let (first, mut pending) = BackgroundTask::new(&ctx);
        let (second, other) = BackgroundTask::new(&ctx);
        pending.add(other);
        assert_eq!(pending.take(), None);
        assert!(second.post("late") && first.post("early"));
        assert_eq!(pending.take(), Some("early"));
        assert_eq!(pending.take(), Some("late"));
        assert!(!pending.is_busy());
        let (dead, mut pending) = BackgroundTask::<u8>::new(&ctx);
        drop(dead);
        assert!(pending.is_busy() && pending.take().is_none() && !pending.is_busy());
    }

    #[test]
    fn stream_ends_with_its_sender_and_a_dropped_stream_refuses_posts() {
        let ctx = Context::default();
        let (postbox, mut stream) = BackgroundTask::stream(&ctx);
        assert!(postbox.post(1) && postbox.post(2));
        drop(postbox);
        assert_eq!((stream.take(), stream.take()), (Some(1), Some(2)));
        assert!(stream.is_busy() && stream.take().is_none() && !stream.is_busy());
        let (postbox, stream) = BackgroundTask::stream(&ctx);
        drop(stream);
        assert!(!postbox.post(3));
    }
}

//! How much of the prompt the model's text encoders read, counted while somebody writes.
//!
//! Counted on a thread of its own, when the writing pauses for a moment; the tokenizers go along and come back, so
//! that the largest is opened once. Nothing is counted before the prompt was touched.

use std::time::Duration;

use egui::Context;
use safelight_core::job::GenerateForm;
use safelight_core::job::prompt::{self, PromptError};
use safelight_core::model::ModelSpec;
use safelight_core::tokens::{CountWish, PromptCount, TextReader, TokenCounter};

use crate::app::App;
use crate::app::background::Answer;
use crate::app::background::guard::{NOT_SURVIVED, guarded};
use crate::app::prompt::PromptAnswer;

/// Who writes faster is not counted behind.
const PAUSE_SECS: f64 = 0.15;

/// What is counted, or what is wrong with it in a sentence.
type CountResult = Result<PromptCount, String>;

/// What is counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wish {
    prompt: CountWish,
    negative: Option<CountWish>,
}

/// What the thread brings back.
pub struct Counted {
    counter: TokenCounter,
    wish: Wish,
    prompt: CountResult,
    negative: Option<CountResult>,
}

/// Counting of one window.
#[derive(Default)]
pub struct Counting {
    has_begun: bool,
    /// Not here while it counts.
    counter: Option<TokenCounter>,
    is_running: bool,
    /// What was counted last, or is being counted.
    wish: Option<Wish>,
    /// What is wanted since then, and when it was first seen.
    wanted: Option<(Wish, f64)>,
    prompt: Option<CountResult>,
    negative: Option<CountResult>,
}

impl Counting {
    /// The tokens of the prompt; `None` while they are not known.
    pub fn prompt(&self) -> Option<&CountResult> {
        self.prompt.as_ref()
    }

    /// The same of the negative prompt, where it acts.
    pub fn negative(&self) -> Option<&CountResult> {
        self.negative.as_ref()
    }

    pub(super) fn begin(&mut self) {
        self.has_begun = true;
    }

    /// Lets everything be counted anew.
    pub(super) fn forget(&mut self) {
        self.wish = None;
    }

    pub(super) fn take(&mut self, counted: Counted) {
        self.is_running = false;
        self.counter = Some(counted.counter);
        // Of another model it would be a number of another kind.
        let readers = |wish: &Wish| wish.prompt.readers.clone();
        if self
            .wanted
            .as_ref()
            .is_none_or(|(wanted, _)| readers(wanted) == readers(&counted.wish))
        {
            self.prompt = Some(counted.prompt);
            self.negative = counted.negative;
        }
    }

    /// The wish to begin with now, or how long to wait for it.
    fn due(&mut self, wish: Wish, now: f64) -> Due {
        if self.wish.as_ref() == Some(&wish) {
            self.wanted = None;
            return Due::Nothing;
        }
        let since = match &self.wanted {
            Some((wanted, since)) if *wanted == wish => *since,
            _ => {
                let last = self.wish.as_ref();
                if last.is_none_or(|last| last.prompt.readers != wish.prompt.readers) {
                    (self.prompt, self.negative) = (None, None);
                }
                self.wanted = Some((wish, now));
                now
            }
        };
        let left = PAUSE_SECS - (now - since);
        if self.is_running {
            Due::Nothing
        } else if left > 0.0 {
            Due::In(left)
        } else {
            Due::Now
        }
    }
}

#[derive(Debug, PartialEq)]
enum Due {
    Nothing,
    Now,
    /// After so many seconds.
    In(f64),
}

impl App {
    /// Counts what the form says, if that is another text than the last one.
    pub(in crate::app) fn count_tokens(&mut self, ctx: &Context) {
        if !self.session.prompt.counting.has_begun {
            return;
        }
        let Some(spec) = self.session.model(&self.state.form) else {
            return;
        };
        let wish = self.count_wish(spec);
        let counting = &mut self.session.prompt.counting;
        if wish.prompt.prompts.is_empty() && wish.negative.is_none() {
            (counting.prompt, counting.negative) = (None, None);
            (counting.wish, counting.wanted) = (Some(wish), None);
            return;
        }
        match counting.due(wish, self.now_secs) {
            Due::Nothing => {}
            Due::In(secs) => {
                let wait = Duration::try_from_secs_f64(secs).unwrap_or_default();
                ctx.request_repaint_after(wait);
            }
            Due::Now => self.start_counting(),
        }
    }

    fn count_wish(&self, spec: &ModelSpec) -> Wish {
        let form = &self.state.form;
        let of = |prompts: Vec<String>| CountWish {
            readers: TextReader::of_model(spec),
            prompts,
            wildcards: self.wildcard_folders(),
            has_times: spec.section_order.is_some(),
        };
        let negative = form.negative_prompt.as_ref();
        let negative = negative.filter(|text| form.is_guided(spec) && !text.trim().is_empty());
        Wish {
            prompt: of(written(form)),
            negative: negative.map(|text| of(vec![text.clone()])),
        }
    }

    fn start_counting(&mut self) {
        let counting = &mut self.session.prompt.counting;
        let Some((wish, _)) = counting.wanted.take() else {
            return;
        };
        counting.wish = Some(wish.clone());
        counting.is_running = true;
        let mut counter = counting.counter.take().unwrap_or_default();
        self.background.spawn("tokens", move |postbox| {
            let said = |err: PromptError| err.to_string();
            let mut count = |wish: &CountWish| {
                let counted = guarded(|| counter.count(wish));
                counted.map_or_else(
                    || {
                        // Whatever is half open in it is not used again.
                        counter = TokenCounter::default();
                        Err(NOT_SURVIVED.to_owned())
                    },
                    |counted| counted.map_err(said),
                )
            };
            let prompt = count(&wish.prompt);
            let negative = wish.negative.as_ref().map(count);
            postbox.post(Answer::Prompt(PromptAnswer::Counted(Box::new(Counted {
                counter,
                wish,
                prompt,
                negative,
            }))));
        });
    }
}

/// The prompts as they are written; none while the field is empty.
fn written(form: &GenerateForm) -> Vec<String> {
    if form.is_one_a_line {
        return prompt::lines(&form.prompt);
    }
    let text = form.prompt.trim();
    let is_empty = text.is_empty();
    (!is_empty).then(|| text.to_owned()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(text: &str) -> Wish {
        Wish {
            prompt: CountWish {
                readers: Vec::new(),
                prompts: vec![text.to_owned()],
                wildcards: Default::default(),
                has_times: false,
            },
            negative: None,
        }
    }

    #[test]
    fn counting_waits_for_a_pause_and_counts_nothing_twice() {
        let mut counting = Counting::default();
        assert_eq!(counting.due(wish("a"), 1.0), Due::In(PAUSE_SECS));
        assert_eq!(counting.due(wish("ab"), 1.125), Due::In(PAUSE_SECS));
        assert_eq!(counting.due(wish("ab"), 1.5), Due::Now);
        counting.wish = counting.wanted.take().map(|(wish, _)| wish);
        counting.is_running = true;
        assert_eq!(counting.due(wish("ab"), 2.0), Due::Nothing);
        assert_eq!(counting.due(wish("abc"), 2.0), Due::Nothing);
        counting.is_running = false;
        assert_eq!(counting.due(wish("abc"), 2.5), Due::Now);
    }
}

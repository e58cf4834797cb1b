//! Token count of the prompt, updated while the user types.
//!
//! Runs on a separate thread when typing pauses; the tokenizers are passed along and returned, so that the largest is
//! opened once. Nothing is opened before there is a prompt.

use safelight_core::families::text_readers;
use safelight_core::fitting::FoundEmbedding;

use safelight_core::job::prompt::PromptError;
use safelight_core::token_count::{PromptCount, TokenCountRequest, TokenCounter};

use crate::window::background::{NOT_SURVIVED, guarded};
use crate::window::prelude::*;

const PAUSE_SECS: f64 = 0.15;

/// Count, or a sentence on a problem.
type CountResult = Result<PromptCount, String>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PromptsToCount {
    prompt: TokenCountRequest,
    negative: Option<TokenCountRequest>,
}

struct CountedPrompts {
    counter: TokenCounter,
    prompts: PromptsToCount,
    prompt: CountResult,
    negative: Option<CountResult>,
}

#[derive(Default)]
pub struct PromptCounting {
    pub(super) has_begun: bool,
    /// `None` while it counts.
    counter: Option<TokenCounter>,
    running: BackgroundTask<CountedPrompts>,
    /// Request that was counted last, or is being counted.
    pub(super) prompts: Option<PromptsToCount>,
    wanted: Option<(PromptsToCount, f64)>,
    /// The tokens of the prompt; `None` while they are not known.
    pub prompt: Option<CountResult>,
    /// `None` if the negative prompt has no effect.
    pub negative: Option<CountResult>,
}

impl PromptCounting {
    pub(super) fn poll(&mut self) {
        let Some(counted) = self.running.take() else {
            return;
        };
        self.counter = Some(counted.counter);
        // Of another model it would be a number of another kind.
        let readers = &counted.prompts.prompt.readers;
        let wanted = self.wanted.as_ref();
        if wanted.is_none_or(|(wanted, _)| wanted.prompt.readers == *readers) {
            self.prompt = Some(counted.prompt);
            self.negative = counted.negative;
        }
    }

    /// Seconds until this is to be counted; `None` if it is counted, or another count runs.
    fn due(&mut self, prompts: PromptsToCount, now: f64) -> Option<f64> {
        if self.prompts.as_ref() == Some(&prompts) {
            self.wanted = None;
            return None;
        }
        let since = match &self.wanted {
            Some((wanted, since)) if *wanted == prompts => *since,
            _ => {
                let last = self.prompts.as_ref();
                if last.is_none_or(|last| last.prompt.readers != prompts.prompt.readers) {
                    (self.prompt, self.negative) = (None, None);
                }
                self.wanted = Some((prompts, now));
                now
            }
        };
        let left = PAUSE_SECS - (now - since);
        (!self.running.is_busy()).then_some(left.max(0.0))
    }

    /// Counts what the form says, if that is another text than the last one.
    pub(super) fn follow(&mut self, embeddings: &Arc<Vec<FoundEmbedding>>, cx: &AppContext) {
        // The tokenizer of another computer is there.
        let Some(spec) = cx.model().filter(|spec| spec.computer.is_none()) else {
            (self.prompt, self.negative) = (None, None);
            return;
        };
        // A prompt from an earlier run or a file is counted too, but not guessed without a tokenizer.
        let has_tokenizer = !spec.files.tokenizer.as_os_str().is_empty();
        if !self.has_begun && (!has_tokenizer || written(&cx.form).is_empty()) {
            return;
        }
        let prompts = prompts_to_count(spec, embeddings, cx);
        if prompts.prompt.prompts.is_empty() && prompts.negative.is_none() {
            (self.prompt, self.negative) = (None, None);
            (self.prompts, self.wanted) = (Some(prompts), None);
            return;
        }
        match self.due(prompts, cx.now_secs) {
            Some(secs) if secs > 0.0 => cx.wake_in(secs),
            Some(_) => self.start(cx),
            None => {}
        }
    }

    fn start(&mut self, cx: &AppContext) {
        let Some((prompts, _)) = self.wanted.take() else {
            return;
        };
        self.prompts = Some(prompts.clone());
        let mut counter = self.counter.take().unwrap_or_default();
        self.running = cx.background.run("tokens", move || {
            let mut count = |prompts: &TokenCountRequest| {
                let counted = guarded(|| counter.count(prompts));
                let Some(counted) = counted else {
                    // Whatever is half open in it is not used again.
                    counter = TokenCounter::default();
                    return Err(NOT_SURVIVED.to_owned());
                };
                counted.map_err(|err: PromptError| err.to_string())
            };
            let prompt = count(&prompts.prompt);
            let negative = prompts.negative.as_ref().map(count);
            CountedPrompts {
                counter,
                prompts,
                prompt,
                negative,
            }
        });
    }
}

fn prompts_to_count(
    spec: &ModelSpec,
    embeddings: &Arc<Vec<FoundEmbedding>>,
    cx: &AppContext,
) -> PromptsToCount {
    let options = cx.settings.options_over(cx.form.options.clone());
    let brackets = options.bracket_use(spec.family);
    let of = |prompts: Vec<String>, is_literal: bool| TokenCountRequest {
        readers: text_readers(spec),
        prompts,
        is_literal,
        wildcards: cx.wildcard_folders(),
        brackets,
        embeddings: Arc::clone(embeddings),
        has_times: spec.section_order.is_some(),
    };
    let form = &cx.form;
    let negative = form.negative_prompt.as_ref();
    let negative = negative.filter(|text| form.is_guided(spec) && !text.trim().is_empty());
    PromptsToCount {
        prompt: of(written(form), form.unedited_prompt().is_some()),
        negative: negative.map(|text| of(vec![text.clone()], form.unedited_negative().is_some())),
    }
}

/// The prompts as they are written; none while the field is empty.
fn written(form: &GenerateForm) -> Vec<String> {
    let prompts = form.prompts().into_iter();
    let prompts = prompts.map(|prompt| prompt.trim().to_owned());
    prompts.filter(|prompt| !prompt.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompts(text: &str) -> PromptsToCount {
        PromptsToCount {
            prompt: TokenCountRequest {
                readers: Vec::new(),
                prompts: vec![text.to_owned()],
                is_literal: false,
                wildcards: Default::default(),
                brackets: Default::default(),
                embeddings: Arc::default(),
                has_times: false,
            },
            negative: None,
        }
    }

    #[test]
    fn counting_waits_for_a_pause_and_counts_nothing_twice() {
        let mut counting = PromptCounting::default();
        assert_eq!(counting.due(prompts("a"), 1.0), Some(PAUSE_SECS));
        assert_eq!(counting.due(prompts("ab"), 1.125), Some(PAUSE_SECS));
        assert_eq!(counting.due(prompts("ab"), 1.5), Some(0.0));
        counting.prompts = counting.wanted.take().map(|(prompts, _)| prompts);
        let (postbox, running) = BackgroundTask::new(&egui::Context::default());
        counting.running = running;
        assert_eq!(counting.due(prompts("ab"), 2.0), None);
        assert_eq!(counting.due(prompts("abc"), 2.0), None);
        drop(postbox);
        counting.poll();
        assert_eq!(counting.due(prompts("abc"), 2.5), Some(0.0));
    }
}

//! Post-processing of a result: installed networks, the chosen ones, and the conversion of a request to a job of the
//! queue.
//!
//! Requests are checked in the background, where files may be read; the worker computes.

pub mod panel;

use safelight_core::catalog::{HelperKind, helper_entry};
use safelight_core::finish::{
    FoundDepth, FoundInterpolator, FoundUpscaler, PostprocessForm, PostprocessOptions, TargetSize,
    find_depth, find_interpolators, find_upscalers, read_depth, read_interpolator, read_upscaler,
};
use safelight_core::job::PostprocessRequest;
use safelight_core::networks::{DepthConfig, IfnetConfig, UpscalerConfig};

use crate::window::inputs::NetworkChoice;
use crate::window::prelude::*;
use crate::window::queue::JobQueue;

pub const NO_UPSCALER: &str = "Download Real-ESRGAN x4plus, or put another upscaler as .safetensors into models/upscale_models. A .pth file must be converted to .safetensors first";
pub const NO_DEPTH: &str = "Download Depth Anything V2 Small, or put a Depth Anything V2 as .safetensors into models/depth_estimation";
pub const NO_RIFE: &str =
    "Download RIFE 4.26, or put RIFE 4.5 to 4.26 as .safetensors into models/frame_interpolation";

type FoundNetworks = (Vec<FoundUpscaler>, Vec<FoundInterpolator>, Vec<FoundDepth>);

#[derive(Default)]
pub struct PostprocessState {
    pub upscalers: NetworkChoice<UpscalerConfig>,
    pub interpolators: NetworkChoice<IfnetConfig>,
    pub depth: NetworkChoice<DepthConfig>,
    has_looked: bool,
    looking: BackgroundTask<FoundNetworks>,
    checking: BackgroundTask<Result<PostprocessRequest, JobError>>,
}

impl PostprocessState {
    pub(super) fn update(&mut self, command: FinishCommand, cx: &mut AppContext) {
        match command {
            FinishCommand::Look => self.has_looked = false,
            FinishCommand::UseUpscaler(path) => self.upscalers.chosen = Some(path),
            FinishCommand::UseInterpolator(path) => self.interpolators.chosen = Some(path),
            FinishCommand::UseDepth(path) => self.depth.chosen = Some(path),
            FinishCommand::Make(source, finish) => self.make(source, finish, cx),
            FinishCommand::Pick(PostprocessAction::Upscale(_)) => {
                self.upscalers.pick("Choose an upscaler", read_upscaler, cx);
            }
            FinishCommand::Pick(PostprocessAction::Frames(_)) => {
                let title = "Choose a RIFE model";
                self.interpolators.pick(title, read_interpolator, cx);
            }
            FinishCommand::Pick(PostprocessAction::Depth) => {
                self.depth
                    .pick("Choose a Depth Anything model", read_depth, cx);
            }
        }
    }

    fn make(&mut self, source: PathBuf, finish: PostprocessAction, cx: &mut AppContext) {
        let network = match finish {
            PostprocessAction::Upscale(_) => self.upscalers.chosen().map(|it| it.path.clone()),
            PostprocessAction::Frames(_) => self.interpolators.chosen().map(|it| it.path.clone()),
            PostprocessAction::Depth => self.depth.chosen().map(|it| it.path.clone()),
        };
        let Some(network) = network else {
            let (missing, get, kind) = match finish {
                PostprocessAction::Upscale(_) => (
                    "there is no upscaler yet",
                    NO_UPSCALER,
                    HelperKind::Upscaler,
                ),
                PostprocessAction::Frames(_) => (
                    "there is no RIFE model yet",
                    NO_RIFE,
                    HelperKind::Interpolator,
                ),
                PostprocessAction::Depth => (
                    "there is no model for depth yet",
                    NO_DEPTH,
                    HelperKind::DepthEstimator,
                ),
            };
            let mut notice = UserNotice::warning(missing, get);
            if let Some(entry) = helper_entry(kind, None) {
                let hover = "Show its file, its size and its licence, and download it";
                notice = notice.offer("Download…", hover, FetchCommand::Offer(Box::new(entry)));
            }
            let hover = "Choose a .safetensors file of it on this computer";
            let notice = notice.offer("From a file…", hover, FinishCommand::Pick(finish));
            return cx.notices.show(notice);
        };
        let options = match finish {
            PostprocessAction::Upscale(factor) => PostprocessOptions::Upscale {
                size: TargetSize::Factor(f64::from(factor)),
                tile: None,
            },
            PostprocessAction::Frames(rate) => PostprocessOptions::Interpolate(rate),
            PostprocessAction::Depth => PostprocessOptions::Depth,
        };
        let settings = cx.settings.clone();
        let checking = cx.on_files("The job was not put into the queue", move || {
            PostprocessForm::of_settings(source, network, options, &settings)?.validate()
        });
        self.checking.add(checking);
    }

    pub(super) fn poll(&mut self, queue: &mut JobQueue, cx: &mut AppContext) {
        if !self.has_looked
            && let Some(paths) = cx.paths.clone()
        {
            let settings = cx.settings.clone();
            self.looking = cx.background.search(move || {
                let upscalers = find_upscalers(&paths, &settings);
                let interpolators = find_interpolators(&paths, &settings);
                (upscalers, interpolators, find_depth(&paths, &settings))
            });
            // If too many searches are running, it is requested again.
            self.has_looked = self.looking.is_busy();
        }
        if let Some((upscalers, interpolators, depth)) = self.looking.take() {
            self.depth.take_found(depth);
            self.upscalers.take_found(upscalers);
            self.interpolators.take_found(interpolators);
        }
        let picked = self.upscalers.take_picked(cx);
        let picked = picked.or_else(|| self.interpolators.take_picked(cx));
        if let Some(path) = picked.or_else(|| self.depth.take_picked(cx)) {
            let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
            let text = format!("{} is used until Safelight is closed", file_name(&path));
            let notice = UserNotice::info(text, "Add its folder to have it at every start");
            cx.notices.show(notice.offer_folder(folder));
        }
        match self.checking.take() {
            None => {}
            Some(Ok(request)) => {
                cx.say(format!("Queued: {}", request.title()));
                queue.add(vec![request], cx);
            }
            Some(Err(err)) => cx.notify(NoticeSeverity::Error, err),
        }
    }
}

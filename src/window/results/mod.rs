//! Post-processing of a result: installed networks, the chosen ones, and the conversion of a request to a job of the
//! queue.
//!
//! Requests are checked in the background, where files may be read; the worker computes.

pub mod panel;

use std::path::{Path, PathBuf};

use safelight_core::finish::{
    FoundInterpolator, FoundUpscaler, InstalledNetwork, PostprocessForm, PostprocessOptions,
    TargetSize, ending_of, find_interpolators, find_upscalers, look_at, read_interpolator,
    read_upscaler,
};
use safelight_core::job::{DtypeChoice, PostprocessRequest};
use safelight_core::model::{CatalogError, advice_for};
use safelight_core::networks::{IfnetConfig, UpscalerConfig};

use crate::window::commands::PostprocessAction;
use crate::window::prelude::*;
use crate::window::queue::JobQueue;

/// The networks that do one thing, and the one among them that is used.
pub struct NetworkChoice<C> {
    /// In the order of their names.
    pub found: Vec<InstalledNetwork<C>>,
    /// The one that was chosen; the first where none was, or it is gone.
    chosen: Option<PathBuf>,
    /// Chosen from files outside of the searched folders.
    picked: Vec<InstalledNetwork<C>>,
}

impl<C> Default for NetworkChoice<C> {
    fn default() -> Self {
        Self {
            found: Vec::new(),
            chosen: None,
            picked: Vec::new(),
        }
    }
}

impl<C: Clone> NetworkChoice<C> {
    fn take_found(&mut self, found: Vec<InstalledNetwork<C>>) {
        self.found = found;
        for picked in &self.picked {
            if self.found.iter().all(|it| it.path != picked.path) {
                self.found.push(picked.clone());
            }
        }
    }

    /// Uses a network from a file; returns its path.
    fn take_picked(&mut self, network: InstalledNetwork<C>) -> PathBuf {
        let path = network.path.clone();
        self.chosen = Some(path.clone());
        self.picked.push(network);
        let found = std::mem::take(&mut self.found);
        self.take_found(found);
        path
    }
}

impl<C> NetworkChoice<C> {
    pub fn chosen(&self) -> Option<&InstalledNetwork<C>> {
        let chosen = self.chosen.as_ref();
        let found = self.found.iter().find(|it| Some(&it.path) == chosen);
        found.or_else(|| self.found.first())
    }
}

pub const NO_UPSCALER: &str = "Put an upscaler as .safetensors (Real-ESRGAN x4plus, 4x-UltraSharp) into models/upscale_models. A .pth file must be converted to .safetensors first";
pub const NO_RIFE: &str = "Put RIFE 4.5 to 4.26 as .safetensors into models/frame_interpolation";

#[derive(Default)]
pub struct PostprocessState {
    pub upscalers: NetworkChoice<UpscalerConfig>,
    pub interpolators: NetworkChoice<IfnetConfig>,
    has_looked: bool,
    looking: BackgroundTask<(Vec<FoundUpscaler>, Vec<FoundInterpolator>)>,
    checking: BackgroundTask<Result<PostprocessRequest, JobError>>,
    picking: BackgroundTask<Option<Result<PickedNetwork, CatalogError>>>,
}

enum PickedNetwork {
    Upscaler(FoundUpscaler),
    Interpolator(FoundInterpolator),
}

impl PostprocessState {
    pub(super) fn update(&mut self, command: FinishCommand, cx: &mut AppContext) {
        match command {
            FinishCommand::Look => self.has_looked = false,
            FinishCommand::UseUpscaler(path) => self.upscalers.chosen = Some(path),
            FinishCommand::UseInterpolator(path) => self.interpolators.chosen = Some(path),
            FinishCommand::Make(source, finish) => self.make(source, finish, cx),
            FinishCommand::Pick(finish) => {
                self.picking = cx.background.ask(move || {
                    let dialog = rfd::FileDialog::new()
                        .set_title("Choose the network")
                        .add_filter("Networks", &["safetensors"])
                        .add_filter("All files", &["*"]);
                    let path = dialog.pick_file()?;
                    Some(match finish {
                        PostprocessAction::Upscale(_) => {
                            read_upscaler(&path).map(PickedNetwork::Upscaler)
                        }
                        PostprocessAction::Frames(_) => {
                            read_interpolator(&path).map(PickedNetwork::Interpolator)
                        }
                    })
                });
            }
        }
    }

    fn make(&mut self, source: PathBuf, finish: PostprocessAction, cx: &mut AppContext) {
        let network = match finish {
            PostprocessAction::Upscale(_) => self.upscalers.chosen().map(|it| it.path.clone()),
            PostprocessAction::Frames(_) => self.interpolators.chosen().map(|it| it.path.clone()),
        };
        let Some(network) = network else {
            let (missing, get) = match finish {
                PostprocessAction::Upscale(_) => ("there is no upscaler yet", NO_UPSCALER),
                PostprocessAction::Frames(_) => ("there is no RIFE model yet", NO_RIFE),
            };
            let pick = NoticeAction {
                label: "From a file…",
                explanation: "Choose a .safetensors file of it on this computer",
                command: FinishCommand::Pick(finish).into(),
            };
            let notice = UserNotice::warning(missing, get).with(vec![pick]);
            return cx.notices.show(notice);
        };
        let choice = PostprocessChoice {
            source,
            network,
            settings: cx.settings.clone(),
        };
        let checking = cx.on_files("The job was not put into the queue", move || {
            choice.request(finish)
        });
        self.checking.add(checking);
    }

    pub(super) fn poll(&mut self, queue: &mut JobQueue, cx: &mut AppContext) {
        if !self.has_looked
            && let Some(paths) = cx.paths.clone()
        {
            let settings = cx.settings.clone();
            let looking = cx.background.search(move || {
                let upscalers = find_upscalers(&paths, &settings);
                (upscalers, find_interpolators(&paths, &settings))
            });
            // If too many searches are running, it is requested again.
            self.has_looked = looking.is_some();
            self.looking = looking.unwrap_or_default();
        }
        if let Some((upscalers, interpolators)) = self.looking.take() {
            self.upscalers.take_found(upscalers);
            self.interpolators.take_found(interpolators);
        }
        if let Some(Some(picked)) = self.picking.take() {
            let path = picked.map(|picked| match picked {
                PickedNetwork::Upscaler(network) => self.upscalers.take_picked(network),
                PickedNetwork::Interpolator(network) => self.interpolators.take_picked(network),
            });
            match path {
                Ok(path) => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
                    let notice = UserNotice::info(
                        format!("{name} is used until Safelight is closed"),
                        "Add its folder to have it at every start",
                    );
                    let add = NoticeAction::add_folder(folder);
                    cx.notices.show(notice.with(vec![add]));
                }
                Err(err) => {
                    let err =
                        JobError::from_error(JobErrorKind::BadModel, &err).advise(advice_for(&err));
                    cx.notify(NoticeSeverity::Error, err);
                }
            }
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

/// Request, with the window's state that its job needs.
struct PostprocessChoice {
    source: PathBuf,
    network: PathBuf,
    settings: Settings,
}

impl PostprocessChoice {
    fn request(self, finish: PostprocessAction) -> Result<PostprocessRequest, JobError> {
        let (is_image, _) = look_at(&self.source)?;
        let ending = ending_of(&self.source, is_image);
        let Self {
            source,
            network,
            settings,
        } = self;
        let options = match finish {
            PostprocessAction::Upscale(factor) => PostprocessOptions::Upscale {
                size: TargetSize::Factor(f64::from(factor)),
                tile: None,
            },
            PostprocessAction::Frames(rate) => PostprocessOptions::Interpolate(rate),
        };
        let form = PostprocessForm {
            source,
            network,
            options,
            out: format!("result.{ending}").into(),
            is_out_automatic: true,
            // Eight bits of colour need more than the bf16 that others compute in.
            dtype: DtypeChoice::Auto,
            memory: settings.memory.choice(),
            crf: settings.output.crf,
        };
        form.validate()
    }
}

//! A model's scheduler: `scheduler/scheduler_config.json` of flow-match Euler or UniPC, with diffusers' defaults.
//!
//! Checks the config, and has the values of files without one. The engine computes the sigmas.

use std::path::Path;

use crate::formats::read_json;
use crate::networks::prelude::*;

const FLOW_MATCH_EULER: &str = "FlowMatchEulerDiscreteScheduler";
const UNIPC: &str = "UniPCMultistepScheduler";

network_config! {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct SchedulerConfig {
        #[serde(rename = "_class_name")]
        pub class_name: String = String::new(),
        pub num_train_timesteps: u32 = 1000,
        /// UniPC's name for the shift.
        pub flow_shift: Option<f64> = None,
        /// Flow-match Euler's.
        pub shift: Option<f64> = None,
        pub use_dynamic_shifting: bool = false,
        pub base_shift: f64 = 0.5,
        pub max_shift: f64 = 1.15,
        pub base_image_seq_len: i64 = 256,
        pub max_image_seq_len: i64 = 4096,
        pub time_shift_type: String = "exponential".to_owned(),
        pub solver_order: usize = 2,
        pub solver_type: String = "bh2".to_owned(),
        pub lower_order_final: bool = true,
        pub disable_corrector: Vec<usize> = Vec::new(),
        pub final_sigmas_type: String = "zero".to_owned(),
        prediction_type: String = "epsilon".to_owned(),
        predict_x0: bool = true,
        use_flow_sigmas: bool = false,
        use_karras_sigmas: bool = false => only(),
        use_exponential_sigmas: bool = false => only(),
        use_beta_sigmas: bool = false => only(),
        invert_sigmas: bool = false => only(),
        stochastic_sampling: bool = false => only(),
        thresholding: bool = false => only(),
        pub shift_terminal: Option<f64> = None,
    }
}

impl SchedulerConfig {
    /// Flow-match Euler with a shift that is the same for every size, for files that come without one.
    pub fn of_shift(shift: f64) -> Self {
        Self {
            class_name: FLOW_MATCH_EULER.to_owned(),
            shift: Some(shift),
            ..Self::default()
        }
    }

    /// Flow-match Euler with a shift that depends on the size, between these two numbers of tokens.
    pub fn of_tokens([base, most]: [i64; 2]) -> Self {
        Self {
            use_dynamic_shifting: true,
            base_image_seq_len: base,
            max_image_seq_len: most,
            ..Self::of_shift(1.0)
        }
    }

    /// Wan's own, for files that come without one.
    pub fn of_wan() -> Self {
        Self {
            class_name: UNIPC.to_owned(),
            flow_shift: Some(5.0),
            prediction_type: "flow_prediction".to_owned(),
            use_flow_sigmas: true,
            ..Self::default()
        }
    }

    /// Flux's, for files that come without one: dev's, which has a guidance, or schnell's.
    pub fn of_flux(guidance_embeds: bool) -> Self {
        Self {
            use_dynamic_shifting: guidance_embeds,
            ..Self::of_shift(if guidance_embeds { 3.0 } else { 1.0 })
        }
    }

    /// Qwen-Image's, for files that come without one; its shift depends on the size.
    pub fn of_qwen_image() -> Self {
        Self {
            max_shift: 0.9,
            shift_terminal: Some(0.02),
            ..Self::of_tokens([256, 8192])
        }
    }

    /// UniPC or flow-match Euler with one shift for all sizes, from a scheduler's folder.
    pub fn read_with_fixed_shift(folder: &Path) -> Result<Self, CatalogError> {
        Self::read(folder, |config| {
            config.check_class(&[UNIPC, FLOW_MATCH_EULER])?;
            config.check_options(&[
                ("use_dynamic_shifting", config.use_dynamic_shifting),
                ("shift_terminal", config.terminal().is_some()),
            ])
        })
    }

    /// Flow-match Euler, whose shift may go with the number of tokens, from a scheduler's folder.
    pub fn read_flow_match_euler(folder: &Path) -> Result<Self, CatalogError> {
        Self::read(folder, |config| config.check_class(&[FLOW_MATCH_EULER]))
    }

    fn read(
        folder: &Path,
        check_kind: impl Fn(&Self) -> Result<(), String>,
    ) -> Result<Self, CatalogError> {
        let path = folder.join("scheduler_config.json");
        let config: Self = read_json(&path)?;
        match check_kind(&config).and_then(|()| config.check()) {
            Ok(()) => Ok(config),
            Err(reason) => Err(CatalogError::config(reason, path)),
        }
    }

    pub fn is_unipc(&self) -> bool {
        self.class_name == UNIPC
    }

    /// The shift under either name, where the config says one.
    pub fn stated_shift(&self) -> Option<f64> {
        self.flow_shift.or(self.shift)
    }

    /// The last sigma before 0, where the others are stretched to end there.
    pub fn terminal(&self) -> Option<f64> {
        self.shift_terminal.filter(|terminal| *terminal != 0.0)
    }

    fn check_class(&self, possible: &[&str]) -> Result<(), String> {
        ensure!(
            possible.contains(&self.class_name.as_str()),
            "expected the scheduler {}, found '{}'",
            possible.join(" or "),
            self.class_name
        );
        Ok(())
    }

    /// `options`: names, and whether they are on.
    fn check_options(&self, options: &[(&str, bool)]) -> Result<(), String> {
        for (name, is_on) in options {
            let class = &self.class_name;
            ensure!(!is_on, "expected a {class} without {name}, found it on");
        }
        Ok(())
    }

    /// The first thing that no model here can have, as "expected X, found Y".
    fn check(&self) -> Result<(), String> {
        self.check_declared()?;
        let has_terminal = self.terminal().is_some();
        self.check_options(&[("shift_terminal", self.is_unipc() && has_terminal)])?;
        let found = self.terminal().unwrap_or(0.0);
        ensure!(
            (0.0..1.0).contains(&found),
            "expected a shift_terminal between 0 and 1, found {found}"
        );
        for (name, found) in [
            ("flow_shift", self.flow_shift.unwrap_or(1.0)),
            ("shift", self.shift.unwrap_or(1.0)),
            ("base_shift", self.base_shift),
            ("max_shift", self.max_shift),
        ] {
            ensure!(
                found > 0.0 && found < 100.0,
                "expected a {name} between 0 and 100, found {found}"
            );
        }
        ensure!(
            self.num_train_timesteps > 0,
            "expected num_train_timesteps above 0, found 0"
        );
        let (base, most) = (self.base_image_seq_len, self.max_image_seq_len);
        ensure!(
            (0..most).contains(&base),
            "expected a base_image_seq_len below the max_image_seq_len, found {base} and {most}"
        );
        one_of(
            "time_shift_type",
            &self.time_shift_type,
            &["exponential", "linear"],
        )?;
        if self.is_unipc() {
            self.check_unipc()?;
        }
        Ok(())
    }

    fn check_unipc(&self) -> Result<(), String> {
        let flow = "flow_prediction".to_owned();
        check_only("prediction_type", &self.prediction_type, &flow)?;
        check_only("use_flow_sigmas", &self.use_flow_sigmas, &true)?;
        check_only("predict_x0", &self.predict_x0, &true)?;
        ensure!(
            (1..=3).contains(&self.solver_order),
            "expected a solver_order between 1 and 3, found {}",
            self.solver_order
        );
        let types = ["bh1", "bh2", "midpoint", "heun", "logrho"];
        one_of("solver_type", &self.solver_type, &types)?;
        let ends = ["zero", "sigma_min"];
        one_of("final_sigmas_type", &self.final_sigmas_type, &ends)?;
        let is_high_at_end = !self.lower_order_final && self.solver_order > 1;
        ensure!(
            self.final_sigmas_type != "zero" || (self.solver_type != "bh1" && !is_high_at_end),
            "expected a UniPC that can end at a sigma of 0, found the solver_type {} of order {} with lower_order_final {}",
            self.solver_type,
            self.solver_order,
            self.lower_order_final
        );
        Ok(())
    }
}

fn one_of(name: &str, found: &str, possible: &[&str]) -> Result<(), String> {
    ensure!(
        possible.contains(&found),
        "expected the {name} {}, found {found}",
        possible.join(" or ")
    );
    Ok(())
}

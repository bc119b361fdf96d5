//! The structure of a plan's file.

use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// A time with its unit.
pub(super) type Time = Spanned<String>;
/// A name that is defined elsewhere in the file.
pub(super) type Name = Spanned<String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    pub duration: Time,
    pub scheduler: Option<Name>,
    pub quantum: Option<Time>,
    pub run_queue: Option<Name>,
    pub balance: Option<Name>,
    pub seed: Option<u64>,
    #[serde(default)]
    pub machine: Machine,
    #[serde(default)]
    pub plan9: Plan9,
    pub users: BTreeMap<String, Spanned<i64>>,
    #[serde(default)]
    pub currencies: Vec<Currency>,
    #[serde(default)]
    pub programs: Vec<Program>,
    pub tasks: Vec<Task>,
    #[serde(default)]
    pub changes: Vec<Change>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Machine {
    pub cpus: Option<Spanned<i64>>,
    pub cpus_per_cache: Option<Spanned<i64>>,
    pub cpus_per_node: Option<Spanned<i64>>,
    pub switch_cost: Option<Time>,
    pub migration_cost: Option<Time>,
    pub cache_cost: Option<Time>,
    pub node_cost: Option<Time>,
    pub lock_hold: Option<Time>,
}

/// Parts of Plan 9's schedulers that are switched on or off.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Plan9 {
    pub wake_idle: Option<bool>,
    pub readied_first: Option<bool>,
    pub push: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Currency {
    pub name: Name,
    pub user: Name,
    pub r#in: Option<Name>,
    pub tickets: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Task {
    pub name: Name,
    pub user: Name,
    pub currency: Option<Name>,
    pub tickets: Option<Spanned<i64>>,
    pub count: Option<Spanned<i64>>,
    pub nice: Option<Spanned<i64>>,
    pub cpus: Option<Spanned<Vec<i64>>>,
    pub start: Option<Time>,
    pub end: Option<Time>,
    pub program: Option<Name>,
    pub steps: Option<Spanned<Vec<Step>>>,
    pub times: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Program {
    pub name: Name,
    pub steps: Spanned<Vec<Step>>,
    pub times: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Step {
    Run(Time),
    Sleep(Time),
    Timer(Time),
    Lock(String),
    Unlock(String),
    Fork(Name),
    Yield,
    Await,
    AwaitFewer(Spanned<i64>),
    Repeat(Repeat),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Repeat {
    pub times: Spanned<i64>,
    pub steps: Spanned<Vec<Step>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Change {
    pub at: Time,
    pub user: Option<Name>,
    pub currency: Option<Name>,
    pub task: Option<Name>,
    pub tickets: Spanned<i64>,
}

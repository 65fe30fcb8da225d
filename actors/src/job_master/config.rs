//! The configuration of a job's core, made from the job's options.

use super::JobMasterDeps;
use conf::{Options, checkpointing, restart as keys, restart::Strategy};
use control::checkpoints::CheckpointConfig;
use control::job_master::JobConfig;
use control::restart::{RestartPolicy, RestartSpec};

pub(super) fn job_config(deps: &JobMasterDeps, seed: u64) -> JobConfig {
    let options = &deps.options;
    let session = deps.session.0;
    JobConfig {
        restart: restart_policy(options),
        slot_timeout: options.get(&conf::resourcemanager::SLOT_REQUEST_TIMEOUT),
        history: options.get(&conf::rest::EXCEPTION_HISTORY_SIZE) as usize,
        graph_id: session.nonce ^ session.epoch.process.rotate_left(48),
        seed,
        initialized_ms: deps.submitted_ms,
        mutation: deps.services.mutation,
        checkpoints: CheckpointConfig {
            interval: options.get(&checkpointing::INTERVAL),
            timeout: options.get(&checkpointing::TIMEOUT),
            min_pause: options.get(&checkpointing::MIN_PAUSE),
            tolerable_failures: options.get(&checkpointing::TOLERABLE_FAILURES),
            retained: options.get(&checkpointing::RETAINED).get() as usize,
            falls_back: options.get(&checkpointing::FALLBACK),
            history: options.get(&conf::rest::CHECKPOINT_HISTORY_SIZE) as usize,
            directory: options.get(&checkpointing::DIRECTORY),
            kept: super::checkpoints::kept(options.get(&checkpointing::RETENTION)),
            mutation: deps.services.mutation,
        },
    }
}

fn restart_policy(options: &Options) -> RestartPolicy {
    let Some(strategy) = options.get(&keys::STRATEGY) else { return RestartPolicy::unset() };
    RestartPolicy::chosen(match strategy {
        Strategy::None => RestartSpec::None,
        Strategy::FixedDelay => RestartSpec::FixedDelay {
            attempts: options.get(&keys::FIXED_DELAY_ATTEMPTS),
            delay: options.get(&keys::FIXED_DELAY_DELAY),
        },
        Strategy::ExponentialDelay => RestartSpec::Exponential {
            initial: options.get(&keys::EXPONENTIAL_INITIAL_BACKOFF),
            max: options.get(&keys::EXPONENTIAL_MAX_BACKOFF),
            multiplier: options.get(&keys::EXPONENTIAL_MULTIPLIER),
            reset_after: options.get(&keys::EXPONENTIAL_RESET_THRESHOLD),
            jitter: options.get(&keys::EXPONENTIAL_JITTER),
            attempts: options.get(&keys::EXPONENTIAL_ATTEMPTS),
        },
        Strategy::FailureRate => RestartSpec::FailureRate {
            max: options.get(&keys::FAILURE_RATE_MAX),
            interval: options.get(&keys::FAILURE_RATE_INTERVAL),
            delay: options.get(&keys::FAILURE_RATE_DELAY),
        },
    })
}

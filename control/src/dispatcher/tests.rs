use super::*;
use model::ResourceProfile;
use model::testing::{graph, vertex};

fn job(id: u128) -> JobGraph {
    JobGraph { job_id: JobId(id), ..graph(vec![vertex(1, 2), vertex(2, 2)], vec![]) }
}

const RETENTION: Retention = Retention { jobs_max: 3, details_bytes_max: 100, age_ms_max: 1000 };

/// Returns the table of a Dispatcher that found nothing to recover.
fn table(mode: Mode) -> JobTable {
    let mut table = JobTable::new(mode, RETENTION);
    assert_eq!(table.listed(&[]), []);
    table
}

fn ended(status: JobStatus, end_ms: u64) -> EndedJob {
    EndedJob { status, end_ms, details_bytes: 10 }
}

const FINISHED: EndedJob = EndedJob { status: JobStatus::Finished, end_ms: 5, details_bytes: 10 };

fn ended_as(table: &JobTable, job: JobId) -> Option<JobStatus> {
    table.ended.get(job).map(|ended| ended.status)
}

#[test]
fn a_job_is_stored_then_run_then_its_end_is_stored() {
    let mut table = table(Mode::Session);
    assert_eq!(table.admit(&job(1), Origin::Client), Ok(()));
    assert_eq!(table.phase(JobId(1)), Some(JobPhase::Persisting));
    assert_eq!(table.ended(JobId(1), JobStatus::Finished), None, "it does not run yet");
    assert!(table.stored(JobId(1)));
    assert_eq!(table.ended(JobId(1), JobStatus::Finished), Some(EndStep::StoreDetails));
    assert_eq!(table.ended(JobId(1), JobStatus::Finished), None, "it ends once");
    assert_eq!(table.step_done(JobId(1), FINISHED), Some(EndStep::RecordResult));
    assert_eq!(ended_as(&table, JobId(1)), None, "its result is not recorded yet");
    assert_eq!(table.record_failed(JobId(1)), Some(Duration::from_secs(1)));
    assert_eq!(table.record_failed(JobId(1)), Some(Duration::from_secs(2)));
    assert_eq!(table.phase(JobId(1)), Some(JobPhase::Ending));
    assert_eq!(table.step_done(JobId(1), FINISHED), Some(EndStep::DeleteBlobs));
    assert_eq!(ended_as(&table, JobId(1)), Some(JobStatus::Finished));
    assert_eq!(table.step_done(JobId(1), FINISHED), Some(EndStep::ReleaseHost));
    assert_eq!(table.step_done(JobId(1), FINISHED), None);
    assert_eq!(table.phase(JobId(1)), None);
}

#[test]
fn the_tries_to_record_a_result_never_end_and_their_pauses_are_bounded() {
    let mut table = table(Mode::Session);
    table.admit(&job(1), Origin::Client).unwrap();
    table.stored(JobId(1));
    table.ended(JobId(1), JobStatus::Finished);
    table.step_done(JobId(1), FINISHED);
    let last = (0..100).map(|_| table.record_failed(JobId(1)).unwrap()).last();
    assert_eq!(last, Some(Duration::from_secs(30)));
    table.forget(JobId(1));
    assert_eq!(table.record_failed(JobId(1)), None);
    assert_eq!(table.step_done(JobId(1), FINISHED), None);
    assert_eq!(ended_as(&table, JobId(1)), None, "its end is the other leader's affair");
}

#[test]
fn both_kinds_of_duplicates_are_told_apart() {
    let mut table = table(Mode::Session);
    table.admit(&job(1), Origin::Client).unwrap();
    assert_eq!(table.admit(&job(1), Origin::Client), Err(Refusal::DuplicateRunning));
    assert_eq!(table.reserve(JobId(1), Origin::Client), Err(Refusal::DuplicateRunning));
    table.stored(JobId(1));
    table.ended(JobId(1), JobStatus::Finished);
    table.step_done(JobId(1), FINISHED);
    table.step_done(JobId(1), FINISHED);
    let terminated = Err(Refusal::DuplicateTerminated(JobStatus::Finished));
    assert_eq!(table.admit(&job(1), Origin::Client), terminated, "while steps are left");
    table.step_done(JobId(1), FINISHED);
    table.step_done(JobId(1), FINISHED);
    assert_eq!(table.admit(&job(1), Origin::Client), terminated);
    table.ended_jobs_mut().forget(JobId(1));
    assert_eq!(table.admit(&job(1), Origin::Client), Ok(()));
}

#[test]
fn a_place_that_was_kept_takes_its_graph() {
    let mut table = table(Mode::Session);
    assert_eq!(table.reserve(JobId(1), Origin::Client), Ok(()));
    assert_eq!(table.admit(&job(1), Origin::Client), Ok(()));
    assert_eq!(table.phase(JobId(1)), Some(JobPhase::Persisting));
}

#[test]
fn a_job_that_was_given_up_while_it_was_stored_does_not_run() {
    let mut table = table(Mode::Session);
    table.admit(&job(1), Origin::Client).unwrap();
    table.forget(JobId(1));
    assert!(!table.stored(JobId(1)));
}

#[test]
fn partial_resource_specs_are_refused_by_name() {
    let mut graph = job(1);
    graph.vertices[0].resources =
        Some(ResourceProfile { cpu_millis: 5, ..ResourceProfile::default() });
    let mut table = table(Mode::Session);
    let refusal = table.admit(&graph, Origin::Client).unwrap_err();
    assert_eq!(refusal, Refusal::PartialResources(vec!["v2".into()]));
    assert_eq!(table.phase(JobId(1)), None, "nothing is kept");
}

#[test]
fn a_malformed_graph_is_refused() {
    let mut table = table(Mode::Session);
    let empty = JobGraph { vertices: vec![], ..job(1) };
    assert!(matches!(table.admit(&empty, Origin::Client), Err(Refusal::Graph(_))));
}

#[test]
fn a_single_job_cluster_takes_its_own_job_and_ends_with_it() {
    for mode in [Mode::Application, Mode::PerJob] {
        let mut table = table(mode);
        assert_eq!(table.admit(&job(1), Origin::Client), Err(Refusal::SingleJob(mode)));
        assert_eq!(table.admit(&job(1), Origin::Own), Ok(()));
        table.stored(JobId(1));
        let mut steps = vec![table.ended(JobId(1), JobStatus::Failed).unwrap()];
        while let Some(step) = table.step_done(JobId(1), FINISHED) {
            steps.push(step);
        }
        assert_eq!(steps.last(), Some(&EndStep::EndCluster(JobStatus::Failed)));
    }
}

#[test]
fn recovery_runs_what_has_not_ended_and_remembers_the_rest() {
    let mut table = JobTable::new(Mode::Session, RETENTION);
    assert_eq!(table.recovery_progress(), Some((0, 0)));
    assert!(table.may_turn_up(JobId(9)), "the logs are not listed yet");
    // A client submits job 7 before the logs are listed, so the list contains it too.
    table.admit(&job(7), Origin::Client).unwrap();
    let ids: Vec<JobId> = (1..=7).map(JobId).collect();
    assert_eq!(table.listed(&ids), ids[..6]);
    assert_eq!(table.admit(&job(1), Origin::Client), Err(Refusal::DuplicateRunning));
    assert!(table.may_turn_up(JobId(1)) && !table.may_turn_up(JobId(9)));
    let malformed = JobGraph { vertices: vec![], ..job(2) };
    assert_eq!(table.recovered(JobId(1), Found::Running(&job(1))), Recovered::Run);
    let fail = table.recovered(JobId(2), Found::Running(&malformed));
    assert!(matches!(fail, Recovered::Fail(Some(_))), "{fail:?}");
    assert_eq!(table.ended(JobId(2), JobStatus::Failed), Some(EndStep::StoreDetails));
    assert_eq!(table.recovered(JobId(3), Found::Damaged), Recovered::Fail(None));
    assert_eq!(table.recovery_progress(), Some((3, 6)));
    assert_eq!(table.recovered(JobId(4), Found::Ended(FINISHED)), Recovered::Keep);
    assert_eq!(table.recovered(JobId(5), Found::Nothing), Recovered::Nothing);
    assert_eq!(table.recovered(JobId(6), Found::Superseded), Recovered::Leave);
    assert_eq!(table.recovery_progress(), None);
    let phases: Vec<_> = table.jobs().map(|(job, phase)| (job.0, phase)).collect();
    assert_eq!(
        phases,
        [
            (1, JobPhase::Running),
            (2, JobPhase::Ending),
            (3, JobPhase::Running),
            (7, JobPhase::Persisting)
        ]
    );
    assert_eq!(ended_as(&table, JobId(4)), Some(JobStatus::Finished));
    assert_eq!(table.recovered(JobId(1), Found::Nothing), Recovered::Leave, "it is known");
}

#[test]
fn a_log_that_turns_up_late_is_read_before_its_job_runs() {
    let mut table = JobTable::new(Mode::Session, RETENTION);
    table.listed(&[JobId(1)]);
    assert!(table.adopt(JobId(2)));
    assert!(!table.adopt(JobId(2)));
    assert_eq!(table.recovered(JobId(1), Found::Nothing), Recovered::Nothing);
    assert_eq!(table.recovery_progress(), Some((1, 2)));
    assert_eq!(table.recovered(JobId(2), Found::Running(&job(2))), Recovered::Run);
    assert_eq!(table.recovery_progress(), None);
    assert!(table.adopt(JobId(3)));
    assert_eq!(table.recovery_progress(), None);
}

#[test]
fn recovery_is_not_done_before_every_job_is_known_though_one_was_adopted_while_logs_were_listed() {
    let mut table = JobTable::new(Mode::Session, RETENTION);
    assert!(table.adopt(JobId(1)));
    assert!(table.adopt(JobId(4)));
    assert_eq!(table.recovered(JobId(4), Found::Running(&job(4))), Recovered::Run);
    assert_eq!(table.listed(&[JobId(1), JobId(2), JobId(3), JobId(4)]), [JobId(2), JobId(3)]);
    assert_eq!(table.recovered(JobId(2), Found::Nothing), Recovered::Nothing);
    assert_eq!(table.recovered(JobId(1), Found::Running(&job(1))), Recovered::Run);
    assert_eq!(table.recovery_progress(), Some((2, 3)), "nothing is known of job 3");
    assert_eq!(table.recovered(JobId(3), Found::Nothing), Recovered::Nothing);
    assert_eq!(table.recovery_progress(), None);
    let mut none_left = JobTable::new(Mode::Session, RETENTION);
    assert!(none_left.adopt(JobId(1)));
    assert_eq!(none_left.listed(&[JobId(1)]), []);
    assert_eq!(none_left.recovery_progress(), Some((0, 1)));
}

#[test]
fn a_closing_dispatcher_takes_nothing() {
    let mut table = table(Mode::Session);
    table.reserve(JobId(1), Origin::Client).unwrap();
    table.close();
    assert_eq!(table.admit(&job(1), Origin::Client), Err(Refusal::Closing));
    assert_eq!(table.admit(&job(2), Origin::Client), Err(Refusal::Closing));
}

#[test]
fn ended_jobs_go_by_age_and_by_number_and_stay_refused_until_they_are_deleted() {
    let mut jobs = EndedJobs::new(RETENTION);
    for n in 1..=4 {
        jobs.keep(JobId(n), ended(JobStatus::Finished, n as u64 * 100));
    }
    assert_eq!(jobs.take_due(500), [JobId(1)], "four are one too many");
    assert_eq!(jobs.take_due(500), [], "it is named once");
    assert!(jobs.get(JobId(1)).is_some());
    jobs.forget_failed(JobId(1));
    assert_eq!(jobs.take_due(500), [JobId(1)]);
    jobs.forget(JobId(1));
    assert_eq!(jobs.get(JobId(1)), None);
    assert_eq!(jobs.take_due(1299), [JobId(2)]);
    assert_eq!(jobs.take_due(9999), [JobId(3), JobId(4)]);
}

#[test]
fn the_oldest_details_go_when_all_together_are_too_large() {
    let mut jobs = EndedJobs::new(Retention { jobs_max: 100, ..RETENTION });
    for n in 1..=12 {
        jobs.keep(JobId(n), ended(JobStatus::Finished, n as u64));
    }
    assert_eq!(jobs.take_excess_details(), [JobId(1), JobId(2)]);
    assert_eq!(jobs.take_excess_details(), []);
    assert_eq!(jobs.get(JobId(1)).map(|job| job.details_bytes), Some(0));
    jobs.forget(JobId(3));
    jobs.forget(JobId(1));
    jobs.keep(JobId(20), EndedJob { details_bytes: 30, ..FINISHED });
    assert_eq!(jobs.take_excess_details().len(), 2);
}

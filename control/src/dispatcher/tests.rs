use super::*;
use crate::testing::{graph, vertex};
use model::ResourceProfile;

fn job(id: u128) -> JobGraph {
    JobGraph { job_id: JobId(id), ..graph(vec![vertex(1, 2), vertex(2, 2)], vec![]) }
}

#[test]
fn a_job_is_stored_then_run_then_put_in_order() {
    let mut table = JobTable::new(Mode::Session);
    assert_eq!(table.admit(&job(1), None, Origin::Client), Ok(()));
    assert!(table.stored(JobId(1)));
    assert_eq!(
        table.ended(JobId(1), JobStatus::Finished),
        [
            EndStep::Archive,
            EndStep::RecordResult,
            EndStep::RemoveGraph,
            EndStep::DeleteBlobs,
            EndStep::ReleaseHost,
            EndStep::MarkClean
        ]
    );
    assert_eq!(table.ended(JobId(1), JobStatus::Finished), [], "ends once");
    table.forget(JobId(1));
    assert_eq!(table.phase(JobId(1)), None);
}

#[test]
fn both_kinds_of_duplicates_are_told_apart() {
    let mut table = JobTable::new(Mode::Session);
    table.admit(&job(1), None, Origin::Client).unwrap();
    assert_eq!(table.admit(&job(1), None, Origin::Client), Err(Refusal::DuplicateRunning));
    assert_eq!(table.reserve(JobId(1), None, Origin::Client), Err(Refusal::DuplicateRunning));
    let ended = Some(JobStatus::Canceled);
    assert_eq!(
        table.admit(&job(2), ended, Origin::Client),
        Err(Refusal::DuplicateTerminated(JobStatus::Canceled))
    );
    // Ended, but its traces are not in order yet.
    table.stored(JobId(1));
    table.ended(JobId(1), JobStatus::Finished);
    assert_eq!(
        table.admit(&job(1), Some(JobStatus::Finished), Origin::Client),
        Err(Refusal::DuplicateTerminated(JobStatus::Finished))
    );
}

#[test]
fn a_place_that_was_kept_takes_its_graph() {
    let mut table = JobTable::new(Mode::Session);
    assert_eq!(table.reserve(JobId(1), None, Origin::Client), Ok(()));
    assert_eq!(table.admit(&job(1), None, Origin::Client), Ok(()));
    assert_eq!(table.phase(JobId(1)), Some(JobPhase::Persisting));
}

#[test]
fn partial_resource_specs_are_refused_by_name() {
    let mut graph = job(1);
    graph.vertices[0].resources =
        Some(ResourceProfile { cpu_millis: 5, ..ResourceProfile::default() });
    let mut table = JobTable::new(Mode::Session);
    let refusal = table.admit(&graph, None, Origin::Client).unwrap_err();
    assert_eq!(refusal, Refusal::PartialResources(vec!["v2".into()]));
    assert_eq!(table.phase(JobId(1)), None, "nothing is kept");
}

#[test]
fn a_malformed_graph_is_refused() {
    let mut table = JobTable::new(Mode::Session);
    let empty = JobGraph { vertices: vec![], ..job(1) };
    assert!(matches!(table.admit(&empty, None, Origin::Client), Err(Refusal::Graph(_))));
}

#[test]
fn a_single_job_cluster_takes_its_own_job_and_ends_with_it() {
    for mode in [Mode::Application, Mode::PerJob] {
        let mut table = JobTable::new(mode);
        assert_eq!(table.admit(&job(1), None, Origin::Client), Err(Refusal::SingleJob(mode)));
        assert_eq!(table.admit(&job(1), None, Origin::Own), Ok(()));
        table.stored(JobId(1));
        let steps = table.ended(JobId(1), JobStatus::Failed);
        assert_eq!(steps.last(), Some(&EndStep::EndCluster(JobStatus::Failed)));
    }
}

#[test]
fn recovery_runs_what_has_not_ended_and_puts_the_rest_in_order() {
    let mut table = JobTable::new(Mode::Session);
    let graphs = [JobId(1), JobId(2), JobId(3)];
    let dirty = [(JobId(2), JobStatus::Finished)];
    let ended = |job| match job {
        JobId(2) => Some(JobStatus::Finished),
        JobId(3) => Some(JobStatus::Failed),
        _ => None,
    };
    let recovery = table.recover(&graphs, &dirty, ended);
    assert_eq!(recovery.run, [JobId(1)]);
    assert_eq!(recovery.clean, [(JobId(2), JobStatus::Finished), (JobId(3), JobStatus::Failed)]);
    assert_eq!(table.phase(JobId(1)), Some(JobPhase::Running));
}

#[test]
fn a_closing_dispatcher_takes_nothing() {
    let mut table = JobTable::new(Mode::Session);
    table.reserve(JobId(1), None, Origin::Client).unwrap();
    table.close();
    assert_eq!(table.admit(&job(1), None, Origin::Client), Err(Refusal::Closing));
    assert_eq!(table.admit(&job(2), None, Origin::Client), Err(Refusal::Closing));
}

#[test]
fn a_job_whose_graph_can_not_be_read_ends_and_its_graph_stays() {
    let mut table = JobTable::new(Mode::Application);
    let steps = table.unreadable(JobId(1));
    assert_eq!(
        steps,
        [
            EndStep::Archive,
            EndStep::RecordResult,
            EndStep::DeleteBlobs,
            EndStep::ReleaseHost,
            EndStep::MarkClean,
            EndStep::EndCluster(JobStatus::Failed)
        ]
    );
    assert_eq!(table.phase(JobId(1)), Some(JobPhase::Cleaning), "until its result is recorded");
}

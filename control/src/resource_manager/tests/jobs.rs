//! Leaders of jobs and their registrations.

use super::*;
use model::JobMasterId;

const JOB: JobId = JobId(1);
const OTHER: JobId = JobId(2);

fn master(process: u64) -> JobMasterId {
    JobMasterId(session(process))
}
fn closed(reason: &str) -> Command {
    Command::CloseJob { job_id: JOB, reason: reason.to_owned() }
}
fn removed(job_id: JobId) -> Command {
    Command::RemoveJob { job_id, reason: "nobody has led it for too long" }
}
/// Returns a ResourceManager at which a JobMaster that leads [`JOB`] is registered.
fn with_master(process: u64) -> ResourceManager {
    let mut rm = passive();
    assert!(rm.watch_job(s(0), JOB));
    assert_eq!(rm.leader_seen(s(0), JOB, Some(session(process))), []);
    rm.register_job_master(JOB, master(process)).expect("leads");
    rm
}

#[test]
fn a_job_without_a_leader_times_out_once() {
    let mut rm = passive();
    assert!(rm.watch_job(s(0), JOB));
    assert!(!rm.watch_job(s(200), JOB), "watched since 0");
    assert_eq!(rm.tick(s(299)), []);
    assert_eq!(rm.tick(s(300)), [removed(JOB)]);
    assert_eq!(rm.tick(s(900)), []);
    assert!(rm.watch_job(s(900), JOB), "it was watched no longer");
}

#[test]
fn jobs_time_out_in_the_order_in_which_they_lost_their_leaders() {
    let mut rm = passive();
    rm.watch_job(s(0), JOB);
    rm.watch_job(s(1), OTHER);
    rm.leader_seen(s(2), JOB, Some(session(1)));
    rm.leader_seen(s(3), JOB, None);
    assert_eq!(rm.tick(s(302)), [removed(OTHER)]);
    assert_eq!(rm.tick(s(303)), [removed(JOB)]);
}

#[test]
fn a_leader_ends_the_waiting_and_its_loss_starts_it_anew() {
    let mut rm = passive();
    rm.watch_job(s(0), JOB);
    assert_eq!(rm.leader_seen(s(299), JOB, Some(session(1))), [], "nobody was registered");
    assert_eq!(rm.tick(s(9_000)), []);
    rm.leader_seen(s(9_000), JOB, None);
    rm.leader_seen(s(9_100), JOB, None);
    assert_eq!(rm.tick(s(9_299)), []);
    assert_eq!(rm.tick(s(9_300)), [removed(JOB)]);
}

#[test]
fn old_news_does_not_bring_an_earlier_leader_back() {
    let mut rm = with_master(2);
    assert_eq!(rm.leader_seen(s(2), JOB, Some(session(1))), []);
    let refused = rm.register_job_master(JOB, master(1)).unwrap_err();
    assert_eq!(refused.leader, Some(session(2)));
    assert_eq!(rm.leader_seen(s(3), OTHER, Some(session(1))), []);
    let refused = rm.register_job_master(OTHER, master(1)).unwrap_err();
    assert!(refused.to_string().ends_with("leader as far as known: none"), "not watched");
}

#[test]
fn a_registration_ends_with_its_leadership_and_not_before() {
    let mut rm = with_master(1);
    assert_eq!(rm.leader_seen(s(1), JOB, Some(session(1))), [], "told twice");
    rm.register_job_master(JOB, master(1)).expect("again");
    let ended = closed("it leads the job no more");
    assert_eq!(rm.leader_seen(s(2), JOB, Some(session(2))), std::slice::from_ref(&ended));
    assert!(rm.register_job_master(JOB, master(1)).is_err());
    assert_eq!(rm.leader_seen(s(3), JOB, Some(session(3))), [], "2 never registered");
    rm.register_job_master(JOB, master(3)).expect("leads");
    assert_eq!(rm.leader_seen(s(4), JOB, None), [ended]);
    assert_eq!(rm.tick(s(304)), [removed(JOB)]);
}

#[test]
fn only_the_registered_job_master_leaves_or_ends_its_job() {
    let mut rm = with_master(2);
    assert_eq!(rm.job_master_gone(JOB, session(1), "silent".into()), []);
    assert_eq!(rm.job_ended(JOB, master(1)), []);
    assert_eq!(rm.job_master_gone(JOB, session(2), "silent".into()), [closed("silent")]);
    assert_eq!(rm.job_master_gone(JOB, session(2), "silent".into()), []);
    assert_eq!(rm.job_ended(JOB, master(2)), [], "not registered");
    rm.register_job_master(JOB, master(2)).expect("it leads still");
    let ended = Command::RemoveJob { job_id: JOB, reason: "it has ended" };
    assert_eq!(rm.job_ended(JOB, master(2)), [ended]);
    assert!(rm.watch_job(s(1), JOB), "it was watched no longer");
}

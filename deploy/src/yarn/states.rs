//! Messages about an application that starts: one sentence for each step that YARN reports.
//!
//! Pure. ResourceManagers report the steps of the first container only as texts; a text that is not known is shown as
//! it is.

use hadoop::yarn::messages::{ApplicationReport, YarnApplicationState};
use std::fmt::Debug;

/// Returns the sentence for a report, without the application's id. `None`: the report contains
/// nothing new for users.
pub(super) fn sentence(report: &ApplicationReport) -> Option<String> {
    let text = report.diagnostics().trim();
    if let Some(number) = report.state.filter(|n| YarnApplicationState::try_from(*n).is_err()) {
        return Some(unknown(number, text));
    }
    Some(match report.state() {
        YarnApplicationState::New
        | YarnApplicationState::NewSaving
        | YarnApplicationState::Submitted => {
            "submitted: the ResourceManager writes it down".to_owned()
        }
        YarnApplicationState::Accepted => return accepted(text),
        YarnApplicationState::Running => "running: the JobManager has registered".to_owned(),
        YarnApplicationState::Finished => {
            format!("ended as {:?}{}", report.final_status(), why(text))
        }
        YarnApplicationState::Failed => format!("failed{}", why(text)),
        YarnApplicationState::Killed => format!("was killed{}", why(text)),
        other => unknown(other, text),
    })
}

/// Returns the sentence for a state of a later Hadoop.
fn unknown(state: impl Debug, text: &str) -> String {
    format!("in state {state:?}, which this version of Flott does not know{}", why(text))
}

/// Returns the sentence for a step on the way to the JobManager's container.
fn accepted(text: &str) -> Option<String> {
    let is = |part: &str| text.contains(part);
    Some(if is("waiting for AM container to Register") {
        "launched: the JobManager starts on its node".to_owned()
    } else if is("assigned a container for AM") {
        "assigned: the JobManager has a container".to_owned()
    } else if is("waiting for resources to be assigned for AM") {
        format!("activated: waits for a container for the JobManager{}", details(text))
    } else if is("not yet activated") {
        format!("accepted: the queue does not let it start yet{}", details(text))
    } else if text.is_empty() || text == "N/A" {
        return None;
    } else {
        format!("accepted{}", why(text))
    })
}

/// Returns YARN's own reason after `Details :`, on one line.
fn details(text: &str) -> String {
    let found = text.split_once("Details :").map(|(_, rest)| rest.trim());
    found
        .filter(|rest| !rest.is_empty())
        .map(|rest| format!(" ({})", line(rest)))
        .unwrap_or_default()
}

/// Returns YARN's text as a reason.
fn why(text: &str) -> String {
    match text {
        "" | "N/A" => String::new(),
        text => format!(": {text}"),
    }
}

fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(state: YarnApplicationState, text: &str) -> Option<String> {
        sentence(&ApplicationReport {
            state: Some(state.into()),
            diagnostics: Some(text.to_owned()),
            ..ApplicationReport::default()
        })
    }

    #[test]
    fn every_step_to_the_first_container_has_a_sentence() {
        // Texts of a CapacityScheduler of Hadoop 3.4.
        let steps = [
            (
                "[Sun Nov 22 18:00:00 +0000 2026] Application is Activated, waiting for resources to be assigned for AM. \
                 Details : AM Partition = <DEFAULT_PARTITION> ; Queue's Absolute capacity = 100.0 % ;",
                "activated: waits for a container for the JobManager (AM Partition = <DEFAULT_PARTITION> ; Queue's \
                 Absolute capacity = 100.0 % ;)",
            ),
            (
                "[…] Scheduler has assigned a container for AM, waiting for AM container to be launched",
                "assigned: the JobManager has a container",
            ),
            (
                "AM container is launched, waiting for AM container to Register with RM",
                "launched: the JobManager starts on its node",
            ),
            (
                "[…] Application is added to the scheduler and is not yet activated. Queue's AM resource limit exceeded.  \
                 Details : AM Partition = <DEFAULT_PARTITION>;",
                "accepted: the queue does not let it start yet (AM Partition = <DEFAULT_PARTITION>;)",
            ),
            ("something new", "accepted: something new"),
        ];
        for (text, expected) in steps {
            assert_eq!(said(YarnApplicationState::Accepted, text).as_deref(), Some(expected));
        }
        assert_eq!(said(YarnApplicationState::Accepted, ""), None);
    }

    #[test]
    fn an_end_comes_with_its_reason() {
        let failed =
            said(YarnApplicationState::Failed, "AM Container exited with exitCode: 1\n").unwrap();
        assert_eq!(failed, "failed: AM Container exited with exitCode: 1");
        assert_eq!(said(YarnApplicationState::Killed, "N/A").unwrap(), "was killed");
        assert_eq!(said(YarnApplicationState::Finished, "").unwrap(), "ended as Undefined");
    }

    #[test]
    fn a_state_of_a_later_hadoop_is_named_by_its_number() {
        let report = ApplicationReport {
            state: Some(77),
            diagnostics: Some("paused by its queue".to_owned()),
            ..ApplicationReport::default()
        };
        assert_eq!(
            sentence(&report).as_deref(),
            Some("in state 77, which this version of Flott does not know: paused by its queue")
        );
    }
}

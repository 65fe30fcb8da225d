//! Applications: submitted, listed, watched, moved, killed. Waits end with what was asked for or an error; time
//! is bounded by whoever calls.

use super::YarnClient;
use crate::yarn::YarnError;
use crate::yarn::messages::*;
use std::time::Duration;
use tokio::time::Instant;

/// Between two questions whether something asked for has happened, at first.
const QUICK: Duration = Duration::from_millis(10);
/// The same at last.
const POLL: Duration = Duration::from_millis(250);
/// The end of a wait is heard of late by at most one part in this many of the wait: questions become fewer with it.
const LATE: u32 = 10;
/// Between two reports of a running application.
const POLL_RUNNING: Duration = Duration::from_secs(1);

/// Until the next question, when one has been waiting since then.
fn pause(since: Instant) -> Duration {
    (since.elapsed() / LATE).clamp(QUICK, POLL)
}

impl YarnClient {
    /// Asks for the id of a new application, and for the size of the largest container that the cluster grants (empty if the
    /// answer lacks it). Submits nothing yet; the id may stay unused.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example
    /// because the user may not do this; `YarnError::Incomplete` for an answer without an id.
    pub async fn new_application(&self) -> Result<(ApplicationId, Resource), YarnError> {
        let method = "getNewApplication";
        let response: GetNewApplicationResponse =
            self.call(method, &GetNewApplicationRequest {}).await?;
        let id = response.application_id.ok_or(YarnError::Incomplete { method, field: "id" })?;
        Ok((id, response.maximum_capability.unwrap_or_default()))
    }

    /// Submits an application under the id in `context`, and waits until the scheduler has accepted it, or it runs or has finished already;
    /// submits it again if a ResourceManager lost it before writing it down. The whole wait has no bound:
    /// [`with_deadline`](Self::with_deadline) bounds each call, and [`tokio::time::timeout`] the whole, after which the application may
    /// have been submitted or not. A second call for an application that was submitted changes nothing. Returns the
    /// application's id; [`report`](Self::report) tells its state.
    ///
    /// # Errors
    /// Fails with [`YarnError::Ended`] and the reason if the application failed or was refused or killed; `YarnError::Incomplete` if
    /// `context` has no id, or for an answer without a report; `YarnError::Call` if no ResourceManager answers after all tries, or for its
    /// exception: then the application may have been submitted or not.
    pub async fn submit(
        &self,
        context: ApplicationSubmissionContext,
    ) -> Result<ApplicationId, YarnError> {
        let method = "submitApplication";
        let id =
            context.application_id.ok_or(YarnError::Incomplete { method, field: "application" })?;
        let request = SubmitApplicationRequest { application_submission_context: Some(context) };
        let _: SubmitApplicationResponse = self.call(method, &request).await?;
        let since = Instant::now();
        loop {
            match self.report(id).await {
                Err(error) if error.is_remote("ApplicationNotFoundException") => {
                    let _: SubmitApplicationResponse = self.call(method, &request).await?;
                }
                Err(error) => return Err(error),
                Ok(report) => match report.state() {
                    YarnApplicationState::New
                    | YarnApplicationState::NewSaving
                    | YarnApplicationState::Submitted => {}
                    state @ (YarnApplicationState::Failed | YarnApplicationState::Killed) => {
                        let diagnostics = report.diagnostics().to_owned();
                        return Err(YarnError::Ended { application: id, state, diagnostics });
                    }
                    _ => return Ok(id),
                },
            }
            tokio::time::sleep(pause(since)).await;
        }
    }

    /// Returns the ResourceManager's report of an application: its state, diagnostics, use of resources and more.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception:
    /// `ApplicationNotFoundException` if it knows no such application; `YarnError::Incomplete` for an answer without a
    /// report.
    pub async fn report(&self, id: ApplicationId) -> Result<ApplicationReport, YarnError> {
        let method = "getApplicationReport";
        let request = GetApplicationReportRequest { application_id: Some(id) };
        let response: GetApplicationReportResponse = self.call(method, &request).await?;
        response.application_report.ok_or(YarnError::Incomplete { method, field: "report" })
    }

    /// Returns the reports of the applications that fulfil every filter in `request`; the default request has none, and
    /// returns those of all applications.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example
    /// because the user may not do this.
    pub async fn applications(
        &self,
        request: &GetApplicationsRequest,
    ) -> Result<Vec<ApplicationReport>, YarnError> {
        let response: GetApplicationsResponse = self.call("getApplications", request).await?;
        Ok(response.applications)
    }

    /// Returns a watch that gives a report of an application for each change of its state, attempt or diagnostics that its
    /// questions find. Asks nothing until [`Watch::next`] is called.
    #[must_use]
    pub fn watch(&self, id: ApplicationId) -> Watch {
        Watch { client: self.clone(), id, last: None, since: Instant::now() }
    }

    /// Kills an application and waits until it is dead, asking again and again without a bound: [`tokio::time::timeout`] bounds the whole,
    /// [`with_deadline`](Self::with_deadline) each call. Succeeds, and changes nothing, for one that has ended before. `diagnostics` is the
    /// reason, shown in the application's report; `None`: YARN's own words.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries (the application may be killed all the same), or for its
    /// exception, for example because the user may not do this or there is no such application.
    pub async fn kill(
        &self,
        id: ApplicationId,
        diagnostics: Option<String>,
    ) -> Result<(), YarnError> {
        let request = KillApplicationRequest { application_id: Some(id), diagnostics };
        let since = Instant::now();
        loop {
            let response: KillApplicationResponse =
                self.call("forceKillApplication", &request).await?;
            if response.is_kill_completed() {
                return Ok(());
            }
            tokio::time::sleep(pause(since)).await;
        }
    }

    /// Moves an application with its containers to another queue, named by the leaf's name or full path. Returns once it is moved.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries (it may have been moved then), or for its exception, for
    /// example because the user may not do this, the application has ended, or the queue does not exist or has no room; then nothing has
    /// moved.
    pub async fn move_to_queue(&self, id: ApplicationId, queue: &str) -> Result<(), YarnError> {
        let request = MoveApplicationAcrossQueuesRequest {
            application_id: id,
            target_queue: queue.to_owned(),
        };
        let method = "moveApplicationAcrossQueues";
        let _: MoveApplicationAcrossQueuesResponse = self.call(method, &request).await?;
        Ok(())
    }

    /// Changes an application's priority: the higher, the sooner it is served within its queue. Returns the priority
    /// that now holds, at most the cluster's maximum. If the application has ended, nothing changes, and its old priority is returned.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example
    /// because the user may not do this.
    pub async fn set_priority(&self, id: ApplicationId, priority: i32) -> Result<i32, YarnError> {
        let application_priority = Priority { priority: Some(priority) };
        let request = UpdateApplicationPriorityRequest { application_id: id, application_priority };
        let response: UpdateApplicationPriorityResponse =
            self.call("updateApplicationPriority", &request).await?;
        Ok(response.application_priority.map_or(priority, |now| now.priority()))
    }

    /// Changes the time at which YARN kills an application that is still in the period `kind`: `at` is in milliseconds
    /// since 1970 and must lie in the future. If the application has ended, nothing changes.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example
    /// because the user may not do this.
    pub async fn set_timeout(
        &self,
        id: ApplicationId,
        kind: ApplicationTimeoutType,
        at: u64,
    ) -> Result<(), YarnError> {
        let timeout = ApplicationUpdateTimeoutMap {
            application_timeout_type: Some(kind.into()),
            expire_time: Some(iso8601(at)),
        };
        let request = UpdateApplicationTimeoutsRequest {
            application_id: id,
            application_timeouts: vec![timeout],
        };
        let _: UpdateApplicationTimeoutsResponse =
            self.call("updateApplicationTimeouts", &request).await?;
        Ok(())
    }
}

/// A time in milliseconds since 1970 as YARN reads it: `2026-01-31T23:59:59.000+0000`.
pub(in crate::yarn) fn iso8601(at: u64) -> String {
    let (days, rest) = (at / 86_400_000, at % 86_400_000);
    // Years that begin in March end with the leap day; 400 of them have as many days each time.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day + 2) / 153;
    let day = day - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hours, minutes) = (rest / 3_600_000, rest / 60_000 % 60);
    let (seconds, millis) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}+0000")
}

/// A watch of one application, which gives a report for each change; made by [`YarnClient::watch`]. Dropping it stops the questions and
/// changes nothing about the application. States that last shorter than the pause between two questions are missed.
#[derive(Debug)]
pub struct Watch {
    client: YarnClient,
    id: ApplicationId,
    last: Option<ApplicationReport>,
    /// When the last news was.
    since: Instant,
}

impl Watch {
    /// Waits for the next report with another state, attempt or diagnostics than the one before; the first call returns the present report.
    /// Asks the ResourceManager every 10 ms at first, less often the longer nothing changes, at last every 250 ms; while the application
    /// runs, every second. Returns `None` after the report of the application's end. The future may be dropped and the call made again.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, such as one that has forgotten the
    /// application; `YarnError::Incomplete` for an answer without a report. The call can be made again then.
    pub async fn next(&mut self) -> Result<Option<ApplicationReport>, YarnError> {
        loop {
            match self.last.as_ref().map(ApplicationReport::state) {
                None => {}
                Some(
                    YarnApplicationState::Finished
                    | YarnApplicationState::Failed
                    | YarnApplicationState::Killed,
                ) => return Ok(None),
                Some(YarnApplicationState::Running) => tokio::time::sleep(POLL_RUNNING).await,
                Some(_) => tokio::time::sleep(pause(self.since)).await,
            }
            let report = self.client.report(self.id).await?;
            let says = |report: &ApplicationReport| {
                (report.state(), report.current_application_attempt_id, report.diagnostics.clone())
            };
            let is_new = self.last.as_ref().is_none_or(|last| says(last) != says(&report));
            self.last = Some(report.clone());
            if is_new {
                self.since = Instant::now();
                return Ok(Some(report));
            }
        }
    }
}

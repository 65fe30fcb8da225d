//! The attempts and containers of applications: reported, failed and signalled.

use super::YarnClient;
use crate::yarn::YarnError;
use crate::yarn::messages::*;

impl YarnClient {
    /// Returns the reports of all attempts of an application that the ResourceManager still knows; each attempt is one
    /// run of its ApplicationMaster.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example
    /// because the user may not do this.
    pub async fn attempts(
        &self,
        id: ApplicationId,
    ) -> Result<Vec<ApplicationAttemptReport>, YarnError> {
        let request = GetApplicationAttemptsRequest { application_id: Some(id) };
        let response: GetApplicationAttemptsResponse =
            self.call("getApplicationAttempts", &request).await?;
        Ok(response.application_attempts)
    }

    /// Returns the reports of those containers of an attempt that have not ended: ResourceManagers list no others, so none once the
    /// application has ended.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example
    /// because the user may not do this or there is no such attempt.
    pub async fn containers(
        &self,
        id: ApplicationAttemptId,
    ) -> Result<Vec<ContainerReport>, YarnError> {
        let request = GetContainersRequest { application_attempt_id: Some(id) };
        let response: GetContainersResponse = self.call("getContainers", &request).await?;
        Ok(response.containers)
    }

    /// Returns the report of one attempt to run an application.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception:
    /// `ApplicationAttemptNotFoundException` or `ApplicationNotFoundException` if it knows no such attempt;
    /// `YarnError::Incomplete` for an answer without a report.
    pub async fn attempt(
        &self,
        id: ApplicationAttemptId,
    ) -> Result<ApplicationAttemptReport, YarnError> {
        let method = "getApplicationAttemptReport";
        let request = GetApplicationAttemptReportRequest { application_attempt_id: Some(id) };
        let response: GetApplicationAttemptReportResponse = self.call(method, &request).await?;
        let report = response.application_attempt_report;
        report.ok_or(YarnError::Incomplete { method, field: "report" })
    }

    /// Returns the report of one container. ResourceManagers forget most containers that have ended.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception:
    /// `ContainerNotFoundException` if it knows no such container (any more); `YarnError::Incomplete` for an answer without
    /// a report.
    pub async fn container(&self, id: ContainerId) -> Result<ContainerReport, YarnError> {
        let method = "getContainerReport";
        let request = GetContainerReportRequest { container_id: Some(id) };
        let response: GetContainerReportResponse = self.call(method, &request).await?;
        response.container_report.ok_or(YarnError::Incomplete { method, field: "report" })
    }

    /// Has the ResourceManager end an attempt as failed, with its containers unless the application keeps them across attempts. YARN starts
    /// another attempt if the application may have one. Returns once the ResourceManager has taken the request; the attempt may end later.
    /// If the application has ended, nothing happens, and the call succeeds.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example because the user may
    /// not do this or there is no such attempt.
    pub async fn fail_attempt(&self, id: ApplicationAttemptId) -> Result<(), YarnError> {
        let request = FailApplicationAttemptRequest { application_attempt_id: Some(id) };
        let _: FailApplicationAttemptResponse =
            self.call("failApplicationAttempt", &request).await?;
        Ok(())
    }

    /// Has the ResourceManager send a signal to a container's program, by way of its node's next heartbeat. Success does not say that the
    /// signal was delivered.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example because the user may
    /// not do this, or the container is unknown or has ended.
    pub async fn signal(
        &self,
        id: ContainerId,
        signal: SignalContainerCommand,
    ) -> Result<(), YarnError> {
        let request = SignalContainerRequest { container_id: id, command: signal.into() };
        let _: SignalContainerResponse = self.call("signalToContainer", &request).await?;
        Ok(())
    }
}

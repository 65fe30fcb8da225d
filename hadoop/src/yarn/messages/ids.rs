//! Ids as texts, the way YARN's logs, directories and environment variables spell them.

use super::{ApplicationAttemptId, ApplicationId, ContainerId, NodeId};
use std::fmt::{Display, Formatter, Result as Written};
use std::str::FromStr;

/// The error of parsing a text that has not the form of the wanted id (of an application, attempt, container or node)
/// or URI.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {expected}")]
pub struct IdError {
    /// The text that was to be parsed.
    pub text: String,
    /// The expected form in words, with an example.
    pub expected: &'static str,
}

/// The bits of a container's number below the ResourceManager's epoch.
const EPOCH_SHIFT: u32 = 40;

impl Display for ApplicationId {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        write!(f, "application_{}_{:04}", self.cluster_timestamp(), self.id())
    }
}

impl Display for ApplicationAttemptId {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let application = self.application_id.unwrap_or_default();
        let (time, id) = (application.cluster_timestamp(), application.id());
        write!(f, "appattempt_{time}_{id:04}_{:06}", self.attempt_id())
    }
}

impl Display for ContainerId {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let attempt = self.app_attempt_id.unwrap_or_default();
        let application = attempt.application_id.unwrap_or_default();
        let (epoch, number) = (self.id() >> EPOCH_SHIFT, self.id() & ((1 << EPOCH_SHIFT) - 1));
        f.write_str("container_")?;
        if epoch > 0 {
            write!(f, "e{epoch:02}_")?;
        }
        let (time, id) = (application.cluster_timestamp(), application.id());
        write!(f, "{time}_{id:04}_{:02}_{number:06}", attempt.attempt_id())
    }
}

impl Display for NodeId {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        write!(f, "{}:{}", self.host(), self.port())
    }
}

/// The numbers between underscores, from the right, as many as asked for, and what is left of them.
fn numbers<const N: usize>(text: &str) -> Option<(&str, [i64; N])> {
    let mut parts = text.rsplitn(N + 1, '_');
    let mut found = [0; N];
    for place in found.iter_mut().rev() {
        let part = parts.next()?;
        // The parser would take a sign.
        *place = part.parse().ok().filter(|_| part.bytes().all(|byte| byte.is_ascii_digit()))?;
    }
    Some((parts.next()?, found))
}

fn attempt(time: i64, id: i64, attempt: i64) -> Option<ApplicationAttemptId> {
    let id = Some(i32::try_from(id).ok()?);
    let application = ApplicationId { id, cluster_timestamp: Some(time) };
    let attempt_id = Some(i32::try_from(attempt).ok()?);
    Some(ApplicationAttemptId { application_id: Some(application), attempt_id })
}

impl FromStr for ApplicationId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parse = || match numbers(text)? {
            ("application", [time, id]) => attempt(time, id, 0)?.application_id,
            _ => None,
        };
        let expected = "an application id, such as application_1570379089091_0019";
        parse().ok_or_else(|| IdError { text: text.to_owned(), expected })
    }
}

impl FromStr for ApplicationAttemptId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parse = || match numbers(text)? {
            ("appattempt", [time, id, number]) => attempt(time, id, number),
            _ => None,
        };
        let expected = "an attempt id, such as appattempt_1570379089091_0019_000001";
        parse().ok_or_else(|| IdError { text: text.to_owned(), expected })
    }
}

impl FromStr for ContainerId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parse = || {
            let (head, [time, id, number, container]) = numbers(text)?;
            let epoch = match head.strip_prefix("container")? {
                "" => 0,
                epoch => epoch.strip_prefix("_e")?.parse::<u32>().ok().filter(|e| *e < 1 << 23)?,
            };
            let container = Some(container).filter(|number| *number < 1 << EPOCH_SHIFT)?;
            let id_in_attempt = (i64::from(epoch) << EPOCH_SHIFT) | container;
            let app_attempt_id = Some(attempt(time, id, number)?);
            Some(Self { app_id: None, app_attempt_id, id: Some(id_in_attempt) })
        };
        let expected = "a container id, such as container_e01_1570379089091_0019_01_000002";
        parse().ok_or_else(|| IdError { text: text.to_owned(), expected })
    }
}

impl FromStr for NodeId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parse = || {
            let (host, port) = text.rsplit_once(':').filter(|(host, _)| !host.is_empty())?;
            let port = Some(i32::from(port.parse::<u16>().ok()?));
            Some(Self { host: Some(host.to_owned()), port })
        };
        let expected = "a node id, such as host.example.org:45454";
        parse().ok_or_else(|| IdError { text: text.to_owned(), expected })
    }
}

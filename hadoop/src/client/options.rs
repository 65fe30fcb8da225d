//! Settings of a client, from Hadoop's configuration. Only values belong here.

use crate::conf::{ConfError, Configuration};
use crate::rpc::{LONGEST, Limits};
use std::time::Duration;

/// Settings of a client's connections, as durations and counts: how long and how often it tries to connect and to authenticate, how long a
/// call may take, when it pings, when an idle connection closes, and the bounds of each connection. `Options::default()` and
/// `Options::from_conf` of an empty configuration give the defaults of Hadoop's clients, which the fields name. How a failed call is
/// repeated is no setting here, but a [`RetryPolicy`](crate::rpc::RetryPolicy).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Maximum time of one try to connect to one address, and of looking the host up (`ipc.client.connect.timeout`; 20
    /// s).
    pub connect_timeout: Duration,
    /// Number of further tries to connect before the calls that wait for the connection fail
    /// (`ipc.client.connect.max.retries`). 0 by default, because a retry policy repeats the whole call.
    pub connect_retries: u32,
    /// Pause before each of the `connect_retries`, varied at random by half up or down
    /// (`ipc.client.connect.retry.interval`; 1 s).
    pub connect_backoff: Duration,
    /// Maximum time of authentication on a new connection, which is closed after it: its calls fail with
    /// [`ConnectionError::SetupTimeout`](crate::rpc::ConnectionError::SetupTimeout). [`Options::from_conf`] always sets 60 s.
    pub setup_timeout: Duration,
    /// Number of further tries to authenticate by Kerberos before the connection fails, each with the newest tickets
    /// and on a connection of its own (`ipc.client.connect.max.retries.on.sasl`; 5, as in earlier versions of Hadoop,
    /// which have no such property).
    pub kerberos_retries: u32,
    /// Longest pause before each of the `kerberos_retries`; a random part of it is waited, so that clients of one user
    /// do not meet again. [`Options::from_conf`] always sets 5 s, as in Hadoop's clients.
    pub kerberos_backoff: Duration,
    /// Maximum time of one try of a call where the caller of a [`Proxy`](super::Proxy) names none
    /// (`ipc.client.rpc-timeout.ms`; 120 s).
    pub call_timeout: Duration,
    /// Silence after which a ping is sent while calls wait (`ipc.client.ping`, `ipc.ping.interval`; 60 s). `None`: no
    /// pings.
    pub ping: Option<Duration>,
    /// Time after which a connection without calls closes (`ipc.client.connection.maxidletime`; 10 s). `None`: never, which
    /// no property can say.
    pub idle: Option<Duration>,
    /// Bounds of each connection on the length of frames (`ipc.maximum.response.length`, `ipc.maximum.data.length`), waiting
    /// calls and unsent bytes. At the last two bounds further calls wait in line, at most until their deadlines.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(20),
            connect_retries: 0,
            connect_backoff: Duration::from_secs(1),
            setup_timeout: Duration::from_secs(60),
            kerberos_retries: 5,
            kerberos_backoff: Duration::from_secs(5),
            call_timeout: Duration::from_secs(120),
            ping: Some(Duration::from_secs(60)),
            idle: Some(Duration::from_secs(10)),
            limits: Limits::default(),
        }
    }
}

impl Options {
    /// The same with times that can be added to any moment.
    pub(super) fn bounded(self) -> Self {
        let bounded = |time: Duration| time.min(LONGEST);
        Self {
            connect_timeout: bounded(self.connect_timeout),
            connect_backoff: bounded(self.connect_backoff),
            setup_timeout: bounded(self.setup_timeout),
            kerberos_backoff: bounded(self.kerberos_backoff),
            call_timeout: bounded(self.call_timeout),
            ping: self.ping.map(bounded),
            idle: self.idle.map(bounded),
            ..self
        }
    }

    /// Reads the options from the Hadoop properties that the fields name. A property that is not set leaves the value
    /// of `Options::default()`. A call timeout of 0, which means for ever in Hadoop, becomes an hour; a ping interval
    /// of 0 means no pings; a maximum length of 0 means the default.
    ///
    /// # Errors
    /// Fails with [`ConfError::Type`] for a property of the wrong type or a negative number of tries, and with
    /// [`ConfError::Expansion`] for one whose `${…}` never stop expanding.
    pub fn from_conf(conf: &Configuration) -> Result<Self, ConfError> {
        let default = Self::default();
        let duration = |name: &str, or: Duration| Ok(conf.get_duration(name)?.unwrap_or(or));
        let bytes = |name: &str, or: usize| -> Result<usize, ConfError> {
            let value = conf.get_bytes(name)?.and_then(|bytes| usize::try_from(bytes).ok());
            Ok(value.filter(|bytes| *bytes > 0).unwrap_or(or))
        };
        let pings = conf.get_bool("ipc.client.ping")?.unwrap_or(true);
        let ping = duration("ipc.ping.interval", Duration::from_secs(60))?;
        // Hadoop waits for ever at 0. Nothing here does; this is the longest that it waits.
        let call = duration("ipc.client.rpc-timeout.ms", default.call_timeout)?;
        let call_timeout = if call.is_zero() { Duration::from_secs(3600) } else { call };
        Ok(Self {
            connect_retries: connect_retries(conf, "ipc.client.connect.max.retries")?,
            kerberos_retries: tries(conf, "ipc.client.connect.max.retries.on.sasl")?
                .unwrap_or(default.kerberos_retries),
            connect_backoff: duration(
                "ipc.client.connect.retry.interval",
                default.connect_backoff,
            )?,
            connect_timeout: duration("ipc.client.connect.timeout", default.connect_timeout)?,
            call_timeout,
            ping: Some(ping).filter(|every| pings && !every.is_zero()),
            idle: Some(duration("ipc.client.connection.maxidletime", Duration::from_secs(10))?),
            limits: Limits {
                frame_in: bytes("ipc.maximum.response.length", default.limits.frame_in)?,
                frame_out: bytes("ipc.maximum.data.length", default.limits.frame_out)?,
                ..default.limits
            },
            ..default
        })
    }
}

/// How often to try again to connect by a property; not at all where it is not set.
pub(crate) fn connect_retries(conf: &Configuration, name: &str) -> Result<u32, ConfError> {
    Ok(tries(conf, name)?.unwrap_or(0))
}

fn tries(conf: &Configuration, name: &str) -> Result<Option<u32>, ConfError> {
    let wrong = |_| ConfError::Type { name: name.to_owned(), expected: "a number of tries" };
    conf.get_i64(name)?.map(u32::try_from).transpose().map_err(wrong)
}

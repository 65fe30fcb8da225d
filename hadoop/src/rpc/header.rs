//! The headers around every message of Hadoop RPC 9. Only declarations belong here; names and numbers are
//! those of Hadoop's `RpcHeader.proto`, `IpcConnectionContext.proto` and `ProtobufRpcEngine.proto`.

/// `RpcRequestHeaderProto.rpcKind` of protocol buffer calls, the only kind that is spoken here.
pub const KIND_PROTOBUF: i32 = 2;
/// `RpcRequestHeaderProto.rpcOp` of a whole request, the only one that is used.
pub const OP_FINAL_PACKET: i32 = 0;
/// The call id of the connection context.
pub const CALL_CONTEXT: i32 = -3;
/// The call id of a ping.
pub const CALL_PING: i32 = -4;
/// The call id of SASL messages.
pub const CALL_SASL: i32 = -33;
/// The retry count of what is no call.
pub const RETRY_NONE: i32 = -1;

/// Before every message from the client.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RequestHeader {
    /// [`KIND_PROTOBUF`].
    #[prost(int32, optional, tag = "1")]
    pub kind: Option<i32>,
    /// [`OP_FINAL_PACKET`].
    #[prost(int32, optional, tag = "2")]
    pub op: Option<i32>,
    /// Which call this is; negative ones are no calls.
    #[prost(sint32, required, tag = "3")]
    pub call_id: i32,
    /// The client, 16 bytes; together with the call id it names a request across reconnections.
    #[prost(bytes = "vec", required, tag = "4")]
    pub client_id: Vec<u8>,
    /// How often this request was sent before, or [`RETRY_NONE`].
    #[prost(sint32, optional, tag = "5")]
    pub retry_count: Option<i32>,
}

/// Between the [`RequestHeader`] and the request of a call.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MethodHeader {
    /// The method, such as `getClusterNodes`.
    #[prost(string, required, tag = "1")]
    pub method: String,
    /// The protocol, as Java names its interface.
    #[prost(string, required, tag = "2")]
    pub protocol: String,
    /// The protocol's version; 1 for all of them so far.
    #[prost(uint64, required, tag = "3")]
    pub version: u64,
}

/// Before every message from the server.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResponseHeader {
    /// The call that is answered. Negative ones come back as their two's complement.
    #[prost(uint32, required, tag = "1")]
    pub call_id: u32,
    /// [`ResponseStatus`].
    #[prost(enumeration = "ResponseStatus", required, tag = "2")]
    pub status: i32,
    /// The version that the server speaks.
    #[prost(uint32, optional, tag = "3")]
    pub server_version: Option<u32>,
    /// The class of the exception, for anything but success.
    #[prost(string, optional, tag = "4")]
    pub exception_class: Option<String>,
    /// The exception's message, often followed by its stack trace.
    #[prost(string, optional, tag = "5")]
    pub error: Option<String>,
    /// [`ErrorCode`](super::ErrorCode) as a number.
    #[prost(int32, optional, tag = "6")]
    pub error_code: Option<i32>,
    /// The client that is answered.
    #[prost(bytes = "vec", optional, tag = "7")]
    pub client_id: Option<Vec<u8>>,
    /// The retry count of the request that is answered.
    #[prost(sint32, optional, tag = "8")]
    pub retry_count: Option<i32>,
}

/// How a call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ResponseStatus {
    /// A response follows.
    Success = 0,
    /// The call failed; the connection stays.
    Error = 1,
    /// The connection failed and is being closed.
    Fatal = 2,
}

/// Who calls, told once per connection.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConnectionContext {
    /// Whom the server shall take the client for; without names when the token says so.
    #[prost(message, optional, tag = "2")]
    pub user: Option<UserInformation>,
    /// The protocol, as in [`MethodHeader`].
    #[prost(string, optional, tag = "3")]
    pub protocol: Option<String>,
}

/// The user part of a [`ConnectionContext`].
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct UserInformation {
    /// In whose name the calls are made.
    #[prost(string, optional, tag = "1")]
    pub effective: Option<String>,
    /// Who really makes them, where that is another user.
    #[prost(string, optional, tag = "2")]
    pub real: Option<String>,
}

/// A message of the SASL exchange.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct SaslMessage {
    /// Not used by anybody yet.
    #[prost(uint32, optional, tag = "1")]
    pub version: Option<u32>,
    /// [`SaslState`].
    #[prost(enumeration = "SaslState", required, tag = "2")]
    pub state: i32,
    /// What the mechanism says, or a wrapped part of the stream.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub token: Option<Vec<u8>>,
    /// What the server offers, or what the client has chosen.
    #[prost(message, repeated, tag = "4")]
    pub auths: Vec<SaslAuth>,
}

impl std::fmt::Debug for SaslMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SaslMessage")
            .field("state", &self.state)
            .field("token", &self.token.as_ref().map(Vec::len))
            .field("auths", &self.auths)
            .finish_non_exhaustive()
    }
}

/// A way to authenticate.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct SaslAuth {
    /// `SIMPLE`, `TOKEN`, `KERBEROS`, ….
    #[prost(string, required, tag = "1")]
    pub method: String,
    /// The SASL mechanism: `DIGEST-MD5`, `GSSAPI`; empty for `SIMPLE`.
    #[prost(string, required, tag = "2")]
    pub mechanism: String,
    /// The service part of the server's name.
    #[prost(string, optional, tag = "3")]
    pub protocol: Option<String>,
    /// The host part of the server's name.
    #[prost(string, optional, tag = "4")]
    pub server_id: Option<String>,
    /// The first challenge, where the server speaks first.
    #[prost(bytes = "vec", optional, tag = "5")]
    pub challenge: Option<Vec<u8>>,
}

impl std::fmt::Debug for SaslAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SaslAuth")
            .field("method", &self.method)
            .field("mechanism", &self.mechanism)
            .field("protocol", &self.protocol)
            .field("server_id", &self.server_id)
            .finish_non_exhaustive()
    }
}

/// What a [`SaslMessage`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum SaslState {
    /// The exchange is over; the mechanism's last word may be with it.
    Success = 0,
    /// The client asks for offers; the server makes them.
    Negotiate = 1,
    /// The client has chosen.
    Initiate = 2,
    /// From the server, to be answered.
    Challenge = 3,
    /// The client's answer.
    Response = 4,
    /// A part of the stream, protected.
    Wrap = 5,
}

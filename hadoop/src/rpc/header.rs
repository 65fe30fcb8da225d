//! The headers around every message of Hadoop RPC 9. Only declarations belong here; names and numbers are
//! those of Hadoop's `RpcHeader.proto`, `IpcConnectionContext.proto` and `ProtobufRpcEngine.proto`.

use crate::proto::{enumerations, messages};

/// Value of `RequestHeader::kind` for requests in protocol buffers, the only kind that is spoken here
/// (`RpcRequestHeaderProto.rpcKind`).
pub const KIND_PROTOBUF: i32 = 2;
/// Value of `RequestHeader::op` for a whole request, the only one that is used (`RpcRequestHeaderProto.rpcOp`).
pub const OP_FINAL_PACKET: i32 = 0;
/// The call id that marks the [`ConnectionContext`], a connection's first message after authentication.
pub const CALL_CONTEXT: i32 = -3;
/// The call id that marks a ping, which has no answer.
pub const CALL_PING: i32 = -4;
/// The call id that marks SASL messages, from either side: authentication and the protected stream.
pub const CALL_SASL: i32 = -33;
/// The retry count in the header of messages that are no calls, such as pings.
pub const RETRY_NONE: i32 = -1;

messages! {
    /// The header before every message from the client to the server: whose message it is, and which call it belongs
    /// to.
    pub struct RequestHeader (Eq) {
        /// Always [`KIND_PROTOBUF`] here.
        optional int32 kind = 1;
        /// Always [`OP_FINAL_PACKET`] here.
        optional int32 op = 2;
        /// The call's number; negative numbers mark messages that are no calls.
        required sint32 call_id = 3;
        /// The client, 16 bytes; together with the call id it names a request across reconnections. Empty in pings and SASL
        /// messages.
        required bytes client_id = 4;
        /// How often this request was sent before, for calls; [`RETRY_NONE`] for messages that are no calls.
        optional sint32 retry_count = 5;
    }

    /// The header between the [`RequestHeader`] and the request of a call: the method and protocol that are called.
    pub struct MethodHeader (Eq) {
        /// The method, such as `getClusterNodes`.
        required string method = 1;
        /// The protocol, as Java names its interface.
        required string protocol = 2;
        /// The protocol's version; 1 for all of them so far.
        required uint64 version = 3;
    }

    /// The header before every message from the server: which call it answers, and whether that succeeded. After success the encoded
    /// response follows in the same frame; otherwise the exception is in the header's own fields.
    pub struct ResponseHeader (Eq) {
        /// The number of the call that is answered. Negative numbers come back as their two's
        /// complement.
        required uint32 call_id = 1;
        /// A [`ResponseStatus`]: whether the call succeeded, and whether the connection survives.
        required enumeration(ResponseStatus) status = 2;
        /// The version of Hadoop RPC that the server speaks, 9; clients here do not look at it.
        optional uint32 server_version = 3;
        /// The class of the exception, for anything but success.
        optional string exception_class = 4;
        /// The exception's message, often followed by its stack trace.
        optional string error = 5;
        /// The kind of error, for anything but success: [`ErrorCode`](super::ErrorCode) as a number.
        optional int32 error_code = 6;
        /// The id of the client that is answered. A [`Connection`](super::Connection) ends with an error if it is another's; it
        /// may be empty.
        optional bytes client_id = 7;
        /// The retry count of the request that is answered; clients here do not look at it.
        optional sint32 retry_count = 8;
    }
}

enumerations! {
    /// The outcome of a call or the end of the connection, as the header of a response says it: success, a failed call on a connection that
    /// stays, or a failure of the connection, which the server closes.
    pub enum ResponseStatus {
        /// The call succeeded; its response follows.
        Success = 0,
        /// The call failed; the connection stays.
        Error = 1,
        /// The connection failed and is being closed.
        Fatal = 2,
    }
}

messages! {
    /// The protocol and the user of a connection, which the client sends once after authentication, before its calls. It has no answer; a
    /// server that refuses it ends the connection.
    pub struct ConnectionContext (Eq) {
        /// The user that the server shall take the client for; without names after authentication by a token, which
        /// names the user itself.
        optional message<UserInformation> user = 2;
        /// The protocol, as in [`MethodHeader`].
        optional string protocol = 3;
    }

    /// The user of a connection: in whose name calls are made, and who really makes them.
    pub struct UserInformation (Eq, Hash) {
        /// The user in whose name the calls are made.
        optional string effective = 1;
        /// The user that really makes the calls (a proxy user's real user), if that is another one.
        optional string real = 2;
    }

    /// A message of the exchange by which a connection authenticates, from either side; afterwards, of a protected stream, the wrapped
    /// bytes. Its `Debug` shows the length of its token only. Sent with the call id [`CALL_SASL`].
    #[prost(skip_debug)]
    pub struct SaslMessage (Eq) {
        /// Version of the exchange; nobody uses it yet.
        optional uint32 version = 1;
        /// A [`SaslState`]: the step of the exchange that the message makes.
        required enumeration(SaslState) state = 2;
        /// A message of the mechanism, or with `Wrap` a part of the stream in protected form.
        optional bytes token = 3;
        /// The methods that the server offers, in its order of preference, or the one that the client has chosen.
        repeated message<SaslAuth> auths = 4;
    }
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

messages! {
    /// A way to authenticate, method and mechanism, that the server offers or the client chooses in a [`SaslMessage`].
    #[prost(skip_debug)]
    pub struct SaslAuth (Eq) {
        /// The method: `SIMPLE`, `TOKEN`, `KERBEROS`, ….
        required string method = 1;
        /// The SASL mechanism: `DIGEST-MD5`, `GSSAPI`; empty for `SIMPLE`.
        required string mechanism = 2;
        /// The service part of the server's name: of its Kerberos principal, such as `yarn`; empty for `TOKEN`.
        optional string protocol = 3;
        /// The host part of the server's name: of its Kerberos principal; `default` for `TOKEN`.
        optional string server_id = 4;
        /// The mechanism's first challenge, where the server speaks first, as for `DIGEST-MD5`; a client leaves it out.
        optional bytes challenge = 5;
    }
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

enumerations! {
    /// The step of the exchange that a [`SaslMessage`] makes.
    pub enum SaslState {
        /// The server says that the exchange is over; the mechanism's last token may be with it.
        Success = 0,
        /// From the client: asks for offers. From the server: makes them.
        Negotiate = 1,
        /// The client names the way that it has chosen, with its first token.
        Initiate = 2,
        /// A token from the server, to be answered.
        Challenge = 3,
        /// The client's answer to a challenge.
        Response = 4,
        /// A part of the stream, protected by the mechanism.
        Wrap = 5,
    }
}

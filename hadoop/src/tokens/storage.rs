//! Token storage files. Both formats begin with `HDTS` and a format byte; files are written for their owner
//! alone and never partly.

use super::message::{CredentialsKv, CredentialsProto, TokenProto};
use super::writable::{put_bytes, put_vint, take_bytes, take_count, take_text};
use super::{Credentials, Secret, Token, TokenError};
use prost::Message as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

const MAGIC: &[u8] = b"HDTS";
const WRITABLE: u8 = 0;
const PROTO: u8 = 1;
const TOO_LONG: TokenError = TokenError::Malformed("it is longer than any token storage");
/// Bytes of a storage: thousands of tokens.
const BYTES_MAX: u64 = 4 << 20;

pub(super) fn decode(bytes: &[u8]) -> Result<Credentials, TokenError> {
    if bytes.len() as u64 > BYTES_MAX {
        return Err(TOO_LONG);
    }
    let rest =
        bytes.strip_prefix(MAGIC).ok_or(TokenError::Malformed("it does not begin with HDTS"))?;
    match rest.split_first() {
        Some((&WRITABLE, rest)) => decode_writable(rest),
        Some((&PROTO, rest)) => decode_proto(rest),
        Some((&format, _)) => Err(TokenError::UnknownFormat(format)),
        None => Err(TokenError::Malformed("it ends too early")),
    }
}

fn decode_writable(mut input: &[u8]) -> Result<Credentials, TokenError> {
    let input = &mut input;
    let mut credentials = Credentials::new();
    for _ in 0..take_count(input)? {
        let alias = take_text(input)?;
        let identifier = take_bytes(input)?.to_vec();
        let password = take_bytes(input)?.to_vec();
        let (kind, service) = (take_text(input)?, take_text(input)?);
        credentials.add(alias, Token::new(identifier, password, kind, service));
    }
    for _ in 0..take_count(input)? {
        let alias = take_text(input)?;
        credentials.add_secret(alias, Secret::new(take_bytes(input)?.to_vec()));
    }
    Ok(credentials)
}

fn decode_proto(input: &[u8]) -> Result<Credentials, TokenError> {
    let stored = CredentialsProto::decode_length_delimited(input)
        .map_err(|_| TokenError::Malformed("its message cannot be decoded"))?;
    let mut credentials = Credentials::new();
    for entry in stored.tokens {
        let token = entry.token.ok_or(TokenError::Malformed("a token is missing"))?;
        credentials.add(entry.alias, token.into());
    }
    for entry in stored.secrets {
        let secret = entry.secret.ok_or(TokenError::Malformed("a secret key is missing"))?;
        credentials.add_secret(entry.alias, Secret::new(secret));
    }
    Ok(credentials)
}

pub(super) fn encode_writable(credentials: &Credentials) -> Vec<u8> {
    let count = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let mut out = [MAGIC, &[WRITABLE]].concat();
    put_vint(count(credentials.tokens.len()), &mut out);
    for (alias, token) in &credentials.tokens {
        put_bytes(alias.as_bytes(), &mut out);
        put_bytes(&token.identifier, &mut out);
        put_bytes(token.password.expose(), &mut out);
        put_bytes(token.kind.as_bytes(), &mut out);
        put_bytes(token.service.as_bytes(), &mut out);
    }
    put_vint(count(credentials.secrets.len()), &mut out);
    for (alias, secret) in &credentials.secrets {
        put_bytes(alias.as_bytes(), &mut out);
        put_bytes(secret.expose(), &mut out);
    }
    out
}

pub(super) fn encode_proto(credentials: &Credentials) -> Vec<u8> {
    let tokens = credentials.tokens.iter().map(|(alias, token)| CredentialsKv {
        alias: alias.clone(),
        token: Some(TokenProto::from(token)),
        secret: None,
    });
    let secrets = credentials.secrets.iter().map(|(alias, secret)| CredentialsKv {
        alias: alias.clone(),
        token: None,
        secret: Some(secret.expose().to_vec()),
    });
    let stored = CredentialsProto { tokens: tokens.collect(), secrets: secrets.collect() };
    let mut out = [MAGIC, &[PROTO]].concat();
    out.extend(stored.encode_length_delimited_to_vec());
    out
}

pub(super) fn read_file(path: &Path) -> Result<Credentials, TokenError> {
    let failed = |source| TokenError::File { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(TOO_LONG);
    }
    let read = decode(&bytes);
    bytes.fill(0);
    read.map_err(|error| failed(std::io::Error::new(std::io::ErrorKind::InvalidData, error)))
}

pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), TokenError> {
    let failed = |source| TokenError::File { path: path.to_owned(), source };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let write = || {
        // Left by a process that had this id before and died here; its permissions are not ours.
        let _ = fs::remove_file(&temporary);
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|source| {
        let _ = fs::remove_file(&temporary);
        failed(source)
    })
}

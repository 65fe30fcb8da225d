use super::*;
use proptest::prelude::*;

fn am_token() -> Token {
    Token::new(vec![0x0a; 21], vec![0x5a; 20], kinds::AM_RM, "")
}

/// The file of an ApplicationMaster as Hadoop 3.4.2 writes it: one token without alias and service, and
/// no secrets.
fn am_file() -> Vec<u8> {
    let mut bytes = b"HDTS\x00\x01\x00\x15".to_vec();
    bytes.extend([0x0a; 21]);
    bytes.push(0x14);
    bytes.extend([0x5a; 20]);
    bytes.extend(b"\x10YARN_AM_RM_TOKEN\x00\x00");
    bytes
}

#[test]
fn the_file_of_an_application_master_is_read_and_written_alike() {
    let file = am_file();
    assert_eq!(file.len(), 69);
    let read = Credentials::from_bytes(&file).unwrap();
    assert_eq!(read.by_kind(kinds::AM_RM), Some(&am_token()));
    assert_eq!(read.to_bytes(), file);
    // The file of a container without tokens.
    assert_eq!(Credentials::from_bytes(b"HDTS\0\0\0").unwrap(), Credentials::new());
    assert_eq!(Credentials::new().to_bytes().len(), 7);
}

#[test]
fn the_newer_format_has_hadoops_field_numbers() {
    let mut credentials = Credentials::new();
    credentials.add("a", Token::new(vec![1], vec![2], "k", "s"));
    credentials.add_secret("b", Secret::new(vec![3]));
    let token = b"\x0a\x01\x01\x12\x01\x02\x1a\x01k\x22\x01s";
    let mut expected = b"HDTS\x01".to_vec();
    expected.push(2 + 3 + 2 + 12 + 2 + 3 + 3);
    expected.extend([0x0a, 17, 0x0a, 1, b'a', 0x12, 12]);
    expected.extend(token);
    expected.extend([0x12, 6, 0x0a, 1, b'b', 0x1a, 1, 3]);
    assert_eq!(credentials.to_proto_bytes(), expected);
    assert_eq!(Credentials::from_bytes(&expected).unwrap(), credentials);
}

#[test]
fn vints_are_hadoops() {
    let cases: &[(i64, &[u8])] = &[
        (0, &[0]),
        (127, &[127]),
        (-112, &[0x90]),
        (128, &[0x8f, 0x80]),
        (255, &[0x8f, 0xff]),
        (256, &[0x8e, 1, 0]),
        (-113, &[0x87, 0x70]),
        (-256, &[0x87, 0xff]),
        (i64::MAX, &[0x88, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        (i64::MIN, &[0x80, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
    ];
    for (value, bytes) in cases {
        let mut out = Vec::new();
        writable::put_vint(*value, &mut out);
        assert_eq!(&out, bytes, "{value}");
        assert_eq!(writable::take_vint(&mut out.as_slice()).unwrap(), *value);
    }
}

#[test]
fn broken_storages_are_refused() {
    let file = am_file();
    for length in 0..file.len() {
        assert!(Credentials::from_bytes(&file[..length]).is_err(), "{length} bytes");
    }
    assert!(matches!(Credentials::from_bytes(b"HDTS\x02\0\0"), Err(TokenError::UnknownFormat(2))));
    assert!(Credentials::from_bytes(b"HDTX\0\0\0").is_err());
    // A billion tokens, a negative length, a length beyond the end.
    assert!(Credentials::from_bytes(b"HDTS\0\x8c\x3f\xff\xff\xff").is_err());
    assert!(Credentials::from_bytes(b"HDTS\0\x01\xff").is_err());
    assert!(Credentials::from_bytes(b"HDTS\0\x01\x7f").is_err());
}

#[test]
fn tokens_are_found_by_kind_and_by_service() {
    let mut credentials = Credentials::new();
    let token = |kind: &str, service: &str| Token::new(vec![], vec![], kind, service);
    credentials.add("1", token(kinds::HDFS_DELEGATION, "10.0.0.1:8020"));
    credentials.add("2", token(kinds::HDFS_DELEGATION, "10.0.0.2:8020"));
    credentials.add("3", token(kinds::RM_DELEGATION, "10.0.0.1:8032,10.0.0.2:8032"));
    let service = |kind, service| credentials.by_service(kind, service).map(Token::service);
    assert_eq!(service(kinds::HDFS_DELEGATION, "10.0.0.2:8020"), Some("10.0.0.2:8020"));
    assert!(service(kinds::RM_DELEGATION, "10.0.0.2:8032").is_some());
    assert_eq!(service(kinds::RM_DELEGATION, "10.0.0.2:803"), None);
    assert_eq!(service(kinds::NODE_MANAGER, "10.0.0.2:8020"), None);
    let address = "10.0.0.1:8032".parse().unwrap();
    assert_eq!(service_of("RM.example.org", address, true), "10.0.0.1:8032");
    assert_eq!(service_of("RM.example.org", address, false), "rm.example.org:8032");
    credentials.retain(|_, token| token.kind() != kinds::HDFS_DELEGATION);
    assert_eq!(credentials.tokens().count(), 1);
}

#[test]
fn files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens");
    let mut credentials = Credentials::new();
    credentials.add("", am_token());
    credentials.write_file(&path).unwrap();
    credentials.write_file(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(Credentials::read_file(&path).unwrap(), credentials);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let absent = Credentials::read_file(&dir.path().join("x")).unwrap_err();
    assert!(absent.to_string().contains("/x"));
}

#[test]
fn debug_shows_no_secret() {
    let mut credentials = Credentials::new();
    credentials.add("alias", Token::new(b"identifier".to_vec(), b"hunter2".to_vec(), "k", "s"));
    credentials.add_secret("key", Secret::new(b"hunter2".to_vec()));
    let message = TokenProto::from(credentials.get("alias").unwrap());
    for shown in [
        format!("{credentials:?}"),
        format!("{message:?}"),
        format!("{:#?}", credentials.secret("key")),
    ] {
        assert!(!shown.contains("hunter2") && !shown.contains("104, 117"), "{shown}");
    }
    assert_ne!(Secret::new(vec![1]), Secret::new(vec![1, 2]));
    assert_ne!(Secret::new(vec![1]), Secret::new(vec![2]));
}

fn any_credentials() -> impl Strategy<Value = Credentials> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..300);
    let token = (bytes(), bytes(), ".{0,10}", ".{0,10}").prop_map(
        |(identifier, password, kind, service)| Token::new(identifier, password, kind, service),
    );
    let tokens = prop::collection::btree_map(".{0,10}", token, 0..4);
    let secrets = prop::collection::btree_map(".{0,10}", bytes(), 0..4);
    (tokens, secrets).prop_map(|(tokens, secrets)| {
        let mut credentials = Credentials::new();
        tokens.into_iter().for_each(|(alias, token)| credentials.add(alias, token));
        secrets
            .into_iter()
            .for_each(|(alias, key)| credentials.add_secret(alias, Secret::new(key)));
        credentials
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(credentials in any_credentials()) {
        prop_assert_eq!(&Credentials::from_bytes(&credentials.to_bytes()).unwrap(), &credentials);
        prop_assert_eq!(&Credentials::from_bytes(&credentials.to_proto_bytes()).unwrap(), &credentials);
    }

    #[test]
    fn any_bytes_are_a_storage_or_an_error(format in 0_u8..3, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Credentials::from_bytes(&bytes);
        let _ = Credentials::from_bytes(&[b"HDTS", &[format][..], &bytes].concat());
    }

    #[test]
    fn a_storage_with_a_changed_byte_is_a_storage_or_an_error(
        credentials in any_credentials(), at in any::<prop::sample::Index>(), byte in any::<u8>(), proto in any::<bool>()
    ) {
        let mut bytes = if proto { credentials.to_proto_bytes() } else { credentials.to_bytes() };
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = Credentials::from_bytes(&bytes);
    }
}

use super::*;
use crate::client::tests::{Does, Server};
use crate::conf::tests::with_properties as conf;
use crate::rpc::testing::ServerAuth;
use crate::tokens::Credentials;
use bytes::Bytes;
use prost::Message as _;
use std::sync::Arc;

fn issued() -> Token {
    Token::new(b"who".to_vec(), b"hunter2".to_vec(), kinds::HDFS_DELEGATION, "")
}

#[test]
fn name_nodes_are_found() {
    let one = FileSystem::from_conf(&conf(&[("fs.defaultFS", "hdfs://nn:9000/")]), None).unwrap();
    assert_eq!((one.uri.as_str(), one.logical_service()), ("hdfs://nn:9000", None));
    assert_eq!(one.name_nodes, [NameNode { host: "nn".to_owned(), port: 9000 }]);
    let ha = conf(&[
        ("dfs.ha.namenodes.ns", "a, b"),
        ("dfs.namenode.rpc-address.ns.a", "h1:1"),
        ("dfs.namenode.rpc-address.ns.b", "h2"),
    ]);
    let several = FileSystem::from_conf(&ha, Some("hdfs://ns/user/x")).unwrap();
    assert_eq!(several.logical_service().as_deref(), Some("ha-hdfs:ns"));
    assert_eq!(several.name_nodes[1], NameNode { host: "h2".to_owned(), port: 8020 });
    for wrong in ["file:///", "hdfs://", "hdfs://:1", "hdfs://h:x"] {
        assert!(FileSystem::from_conf(&ha, Some(wrong)).is_err(), "{wrong}");
    }
    let gap = conf(&[("dfs.ha.namenodes.ns", "a")]);
    assert!(
        FileSystem::from_conf(&gap, Some("hdfs://ns")).unwrap_err().to_string().contains("ns.a")
    );
}

#[tokio::test]
async fn tokens_are_got_renewed_and_cancelled() {
    let answers = |method: &str, body: &Bytes| match method {
        "getDelegationToken" => {
            assert_eq!(GetDelegationTokenRequest::decode(body.clone()).unwrap().renewer, "rm");
            Ok(GetDelegationTokenResponse { token: Some(TokenProto::from(&issued())) }
                .encode_to_vec())
        }
        "renewDelegationToken" => {
            let asked = RenewDelegationTokenRequest::decode(body.clone()).unwrap();
            assert_eq!(asked.token.password, b"hunter2");
            Ok(RenewDelegationTokenResponse { new_expiry_time: 7 }.encode_to_vec())
        }
        "cancelDelegationToken" => Ok(Vec::new()),
        _ => Err("java.lang.AssertionError"),
    };
    let standby = Server::start(ServerAuth::Simple, Does::Standby).await;
    let active = Server::start(ServerAuth::Simple, Does::Answer(Arc::new(answers))).await;
    let address = |server: &Server| format!("127.0.0.1:{}", server.port);
    let ha = conf(&[
        ("dfs.ha.namenodes.ns", "a,b"),
        ("dfs.namenode.rpc-address.ns.a", &address(&standby)),
        ("dfs.namenode.rpc-address.ns.b", &address(&active)),
    ]);
    let login = Login::simple(&ha, "alice", Credentials::new()).unwrap();
    let tokens = HdfsTokens::new(&ha, &login, Some("hdfs://ns")).await.unwrap();
    let token = tokens.get("rm").await.unwrap();
    assert_eq!((token.kind(), token.service()), (kinds::HDFS_DELEGATION, "ha-hdfs:ns"));
    assert_eq!(tokens.renew(&token).await.unwrap(), 7);
    tokens.cancel(&token).await.unwrap();

    let uri = format!("hdfs://{}", address(&active));
    let tokens = HdfsTokens::new(&ha, &login, Some(&uri)).await.unwrap();
    assert_eq!(tokens.get("rm").await.unwrap().service(), address(&active));
}

#[tokio::test]
async fn a_token_for_all_name_nodes_is_used_with_each() {
    let held = issued().with_service("ha-hdfs:ns");
    let (token, qops, ciphers) = (held.clone(), vec![crate::sasl::Qop::Authentication], vec![]);
    let auth = ServerAuth::Token { token, qops, ciphers };
    let none = GetDelegationTokenResponse { token: None }.encode_to_vec();
    let server = Server::start(auth, Does::Answer(Arc::new(move |_, _| Ok(none.clone())))).await;
    let conf = conf(&[
        ("dfs.ha.namenodes.ns", "a"),
        ("dfs.namenode.rpc-address.ns.a", &format!("127.0.0.1:{}", server.port)),
    ]);
    let mut credentials = Credentials::new();
    credentials.add("x", held);
    let login = Login::simple(&conf, "alice", credentials).unwrap();
    let tokens = HdfsTokens::new(&conf, &login, Some("hdfs://ns")).await.unwrap();
    let refused = tokens.get("rm").await.unwrap_err();
    assert!(matches!(&refused, HdfsError::NoToken(uri) if uri == "hdfs://ns"), "{refused}");
}

#[test]
fn a_token_tells_its_file_system_in_its_own_words() {
    let token = |kind: &str, service: &str| Token::new(Vec::new(), Vec::new(), kind, service);
    let uri = |service| uri_of(&token("HDFS_DELEGATION_TOKEN", service));
    assert_eq!(uri("10.1.2.3:8020").as_deref(), Some("hdfs://10.1.2.3:8020"));
    assert_eq!(uri("ha-hdfs:prod").as_deref(), Some("hdfs://prod"));
    assert_eq!(uri(""), None);
    assert_eq!(uri_of(&token("NMToken", "10.1.2.3:8020")), None);
}

//! Tests of the endpoint of a JobManager that does not lead, with doubles of the leader's components in a process of its own.

use super::{JOB, blobs, dispatcher, request, world};
use actix::Actor;
use gateways::blob_server::{BlobServerGateway, HasBlob, OpenUpload, UploadId};
use gateways::dispatcher::{BlobServerLocation, DispatcherGateway, RequestBlobServer};
use gateways::leader_election::LeaderInformation;
use gateways::{RpcOptions, RpcService};
use model::{ContentHash, DispatcherId, LeaderSession, ProcessSession};
use sha2::{Digest, Sha256};

#[tokio::test(flavor = "local")]
async fn a_standby_puts_a_program_where_the_leader_looks_for_it() {
    let world = world(|_| ()).await;
    let leader = RpcService::start(world.platform.clone(), RpcOptions::in_process()).await.unwrap();
    let session = LeaderSession { nonce: 7, ..LeaderSession::default() };
    let of_leader = BlobServerLocation {
        address: leader.address_of("blob_server"),
        session: ProcessSession(session),
    };
    let answer = of_leader.clone();
    let dispatcher = dispatcher().on(move |(), _: RequestBlobServer| Ok(answer.clone()));
    // A double without the count of uploads, which belongs to another test.
    let blobs = blobs().on(|(bytes, _), _: OpenUpload| {
        bytes.clear();
        Ok(UploadId(1))
    });
    let _served = [
        leader.serve(
            "dispatcher",
            DispatcherId(session),
            DispatcherGateway::endpoint(dispatcher.start()),
        ),
        leader.serve("blob_server", of_leader.session, BlobServerGateway::endpoint(blobs.start())),
    ];
    let address = leader.address_of("dispatcher");
    world.leader.send_replace(Some(LeaderInformation { session, address }));

    let program = world.folder.path().join("words");
    std::fs::write(&program, b"ours").unwrap();
    let uploaded = world.client.upload(&program, |_| ()).await.unwrap();
    let run = world.client.run(uploaded.jar_id(), &request()).await.unwrap();
    assert_eq!(run.jobid, JOB.to_string());
    world.client.plan(uploaded.jar_id(), &request()).await.unwrap();

    let has = HasBlob { job: None, hash: ContentHash(Sha256::digest(b"ours").into()) };
    let at_leader = leader.gateway::<BlobServerGateway>(&of_leader.address, of_leader.session);
    assert!(at_leader.ask(has.clone()).await.unwrap().is_some());
    let own = world.rpc.address_of("blob_server");
    let own = leader.gateway::<BlobServerGateway>(&own, ProcessSession(LeaderSession::default()));
    assert_eq!(own.ask(has).await.unwrap(), None, "nobody looks for it at the standby");
    let elsewhere = world.client.run("00000000000000000000000000000000_words", &request()).await;
    let elsewhere = elsewhere.unwrap_err();
    assert_eq!(elsewhere.status(), Some(404));
    assert!(elsewhere.to_string().contains("each JobManager keeps the programs"), "{elsewhere}");
    world.handle.stop().await;
}

//! Delivery of facts between two processes.

use crate::fixture::*;
use actix::prelude::*;
use gateways::slot_manager::{
    BlockHosts, RequestSlotOverview, SlotManagerFact, SlotManagerGateway, TakeFacts,
};
use gateways::{Answer, Ask, Courier, Inbox, RpcService};
use model::{Fence, SlotManagerId};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A receiver of facts. It executes the first call at once and answers it much too late.
struct Receiver {
    inbox: Inbox,
    taken: Arc<Mutex<Vec<String>>>,
    calls: u32,
}

impl Actor for Receiver {
    type Context = Context<Self>;
}

impl Handler<Ask<TakeFacts>> for Receiver {
    type Result = ResponseFuture<Answer<TakeFacts>>;
    fn handle(&mut self, ask: Ask<TakeFacts>, _: &mut Context<Self>) -> Self::Result {
        for fact in self.inbox.take(ask.body) {
            let SlotManagerFact::BlockHosts(BlockHosts { hosts }) = fact else {
                unreachable!("nothing else is sent")
            };
            self.taken.lock().unwrap().extend(hosts);
        }
        self.calls += 1;
        let late = Duration::from_secs(if self.calls == 1 { 30 } else { 0 });
        let expected = self.inbox.expected();
        Box::pin(async move {
            tokio::time::sleep(late).await;
            Ok(expected)
        })
    }
}

impl Handler<Ask<RequestSlotOverview>> for Receiver {
    type Result = ResponseFuture<Answer<RequestSlotOverview>>;
    fn handle(&mut self, _: Ask<RequestSlotOverview>, _: &mut Context<Self>) -> Self::Result {
        Box::pin(std::future::pending())
    }
}

fn fence() -> SlotManagerId {
    SlotManagerId::from_session(session(1).0)
}

fn courier(from: &RpcService, to: &RpcService) -> Courier<SlotManagerFact> {
    let remote = from.gateway(&to.address_of("slot_manager"), fence());
    Courier::new(remote, |why| panic!("{why}"))
}

fn names(facts: std::ops::Range<u32>) -> Vec<String> {
    facts.map(|n| n.to_string()).collect()
}

#[test]
fn facts_arrive_once_and_in_order_whatever_becomes_of_the_calls() {
    simulated(|world| async move {
        let (server, client) = (world.service("a").await, world.service("b").await);
        let courier = courier(&client, &server);
        for host in names(0..300) {
            courier.deliver(BlockHosts { hosts: vec![host] });
        }
        // No endpoint has the name yet, so the calls fail.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let taken = Arc::new(Mutex::new(Vec::new()));
        let receiver = Receiver { inbox: Inbox::default(), taken: Arc::clone(&taken), calls: 0 };
        let endpoint = SlotManagerGateway::endpoint(receiver.start());
        let _registration = server.serve("slot_manager", fence(), endpoint);
        // The first call is executed, and its answer comes after the sender has given the call up.
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(*taken.lock().unwrap(), names(0..256), "one call with as many as it may bring");
        for host in names(300..310) {
            courier.deliver(BlockHosts { hosts: vec![host] });
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(*taken.lock().unwrap(), names(0..310));
    });
}

#[test]
fn a_fenced_sender_delivers_nothing_and_its_pair_is_over() {
    simulated(|world| async move {
        let (server, client) = (world.service("a").await, world.service("b").await);
        let courier = courier(&client, &server);
        let taken = Arc::new(Mutex::new(Vec::new()));
        let receiver = Receiver { inbox: Inbox::default(), taken: Arc::clone(&taken), calls: 9 };
        let endpoint = SlotManagerGateway::endpoint(receiver.start());
        let newer = SlotManagerId::from_session(session(2).0);
        let registration = server.serve("slot_manager", newer, endpoint.clone());
        courier.deliver(BlockHosts { hosts: names(0..1) });
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(registration);
        let _again = server.serve("slot_manager", fence(), endpoint);
        courier.deliver(BlockHosts { hosts: names(1..2) });
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(*taken.lock().unwrap(), names(0..0));
    });
}

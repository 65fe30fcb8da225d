use super::*;
use crate::testing::picked;
use proptest::prelude::*;

type Commands = Vec<Command<u8>>;

fn fresh() -> Leaderships<u8> {
    Leaderships::new(3, Mutation::None)
}
fn granted(commands: &Commands) -> Vec<(u8, LeaderSession)> {
    picked!(commands, Command::Grant { component, session } => (*component, *session))
}
/// A contender that leads in this session.
fn leading() -> (Leaderships<u8>, LeaderSession) {
    let mut all = fresh();
    all.contend(1);
    let session = granted(&all.lease_granted(7))[0].1;
    (all, session)
}

#[test]
fn contenders_are_granted_once_the_lease_is_held() {
    let mut all = fresh();
    assert_eq!(all.contend(1), []);
    let first = granted(&all.lease_granted(7));
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].1.epoch, Epoch { store: 7, process: 1 });
    let second = granted(&all.contend(2));
    assert!(second[0].1 > first[0].1, "epochs rise");
    assert_eq!(all.lease_granted(7), [], "nothing new");
}

#[test]
fn an_address_is_published_after_confirmation_and_only_by_who_leads() {
    let (mut all, session) = leading();
    let wrong = LeaderSession { nonce: 0, ..session };
    assert_eq!(all.confirm(1, wrong), None);
    assert_eq!(all.confirm(2, session), None);
    assert_eq!(all.confirm(1, session), Some(vec![Command::Publish { component: 1, session }]));
    all.lease_lost();
    assert_eq!(all.confirm(1, session), None);
}

#[test]
fn the_next_grant_waits_for_the_end_of_what_was_revoked() {
    let (mut all, session) = leading();
    all.confirm(1, session);
    let lost =
        [Command::Retract { component: 1, session }, Command::Revoke { component: 1, session }];
    assert_eq!(all.lease_lost(), lost, "taken back before it is told");
    assert_eq!(all.lease_granted(8), []);
    assert_eq!(all.ended(1, LeaderSession::default()), [], "not what was revoked");
    let again = granted(&all.ended(1, session));
    assert_eq!(again[0].1.epoch, Epoch { store: 8, process: 2 });
    assert_eq!(all.ended(1, session), [], "once");
}

#[test]
fn a_revoke_during_the_start_leaves_nothing_published() {
    let (mut all, session) = leading();
    assert_eq!(all.lease_lost(), [Command::Revoke { component: 1, session }]);
    assert_eq!(all.confirm(1, session), None);
    assert_eq!(all.ended(1, session), []);
}

#[test]
fn a_lease_under_a_new_counter_was_lost_in_between() {
    let (mut all, session) = leading();
    assert_eq!(all.lease_granted(9), [Command::Revoke { component: 1, session }]);
    assert_eq!(granted(&all.ended(1, session))[0].1.epoch.store, 9);
}

#[test]
fn who_withdraws_is_taken_back_and_who_replaces_it_gets_a_session_of_its_own() {
    let (mut all, session) = leading();
    all.confirm(1, session);
    let commands = all.contend(1);
    assert_eq!(commands[0], Command::Retract { component: 1, session });
    assert!(granted(&commands)[0].1 > session);
    all.withdraw(1);
    assert_eq!(all.ended(1, session), []);
    assert_eq!(all.lease_lost(), []);
}

#[test]
fn sessions_of_a_job_rise_with_its_job_masters_and_its_dispatchers() {
    let dispatcher = |store, process, nonce| {
        DispatcherId(LeaderSession { epoch: Epoch { store, process }, nonce })
    };
    let (job, other) = (JobId(1), JobId(2));
    let mut last = LeaderSession::default();
    for dispatcher in [dispatcher(7, 2, 40), dispatcher(7, 3, 9), dispatcher(8, 1, 5)] {
        for nth in 0..=u8::MAX {
            let session = job_session(dispatcher, job, nth).session();
            assert!(session.epoch > last.epoch, "{session} follows {last}");
            assert_ne!(session, job_session(dispatcher, other, nth).session());
            last = session;
        }
    }
    assert_eq!(
        job_session(dispatcher(7, 2, 40), job, 1),
        job_session(dispatcher(7, 2, 40), job, 1)
    );
}

#[derive(Debug, Clone)]
enum Op {
    Lease,
    Lost,
    Contend(u8),
    Withdraw(u8),
    End(u8),
    EndWrong(u8),
    Confirm(u8),
    ConfirmOld(u8),
}

fn an_op() -> impl Strategy<Value = Op> {
    let c = 0u8..3;
    prop_oneof![
        Just(Op::Lease),
        Just(Op::Lost),
        c.clone().prop_map(Op::Contend),
        c.clone().prop_map(Op::Withdraw),
        c.clone().prop_map(Op::End),
        c.clone().prop_map(Op::EndWrong),
        c.clone().prop_map(Op::Confirm),
        c.prop_map(Op::ConfirmOld),
    ]
}

#[derive(Default)]
struct World {
    /// The running contenders, by component: the session of each, and true if it was told to stop.
    running: BTreeMap<u8, (LeaderSession, bool)>,
    old: BTreeMap<u8, LeaderSession>,
    published: BTreeMap<u8, LeaderSession>,
    last: LeaderSession,
}

impl World {
    fn obey(&mut self, commands: Commands) -> Result<(), TestCaseError> {
        for command in commands {
            match command {
                Command::Grant { component, session } => {
                    prop_assert!(session.epoch > self.last.epoch, "epochs rise");
                    prop_assert!(!self.running.contains_key(&component), "one at a time");
                    self.last = session;
                    self.running.insert(component, (session, false));
                }
                Command::Revoke { component, session } => {
                    let running = self.running.get_mut(&component).expect("runs");
                    prop_assert_eq!(*running, (session, false));
                    prop_assert!(!self.published.contains_key(&component));
                    running.1 = true;
                    self.old.insert(component, session);
                }
                Command::Publish { component, session } => {
                    prop_assert_eq!(self.running.get(&component), Some(&(session, false)));
                    self.published.insert(component, session);
                }
                Command::Retract { component, session } => {
                    prop_assert_eq!(self.published.remove(&component), Some(session));
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn the_order_of_leaderships_holds(ops in proptest::collection::vec(an_op(), 1..60)) {
        let mut all = fresh();
        let mut world = World::default();
        let mut store = 0;
        for op in ops {
            let commands = match op {
                Op::Lease => { store += 1; all.lease_granted(store) }
                Op::Lost => all.lease_lost(),
                Op::Contend(c) => { world.running.remove(&c); all.contend(c) }
                Op::Withdraw(c) => { world.running.remove(&c); all.withdraw(c) }
                Op::End(c) => match world.running.get(&c).copied() {
                    Some((session, true)) => { world.running.remove(&c); all.ended(c, session) }
                    _ => vec![],
                },
                Op::EndWrong(c) => all.ended(c, LeaderSession::default()),
                Op::Confirm(c) => match world.running.get(&c).copied() {
                    Some((session, told)) => {
                        let confirmed = all.confirm(c, session);
                        prop_assert_eq!(confirmed.is_some(), !told);
                        confirmed.unwrap_or_default()
                    }
                    None => vec![],
                },
                Op::ConfirmOld(c) => {
                    if let Some(session) = world.old.get(&c).copied() {
                        prop_assert_eq!(all.confirm(c, session), None);
                    }
                    vec![]
                }
            };
            world.obey(commands)?;
            for (component, session) in &world.published {
                prop_assert_eq!(world.running.get(component), Some(&(*session, false)));
            }
        }
    }
}

//! The events besides calls that give an actor a turn: the outcome of work that runs outside of it, and the next deadline of its core.

use actix::{Actor, Addr, AsyncContext, Context, Handler, MailboxError, SpawnHandle};
use std::time::Duration;

/// A step of an actor, as a rule a method with the outcome of work.
type Step<A> = Box<dyn FnOnce(&mut A, &mut <A as Actor>::Context) + Send>;

/// Message: a step that the actor takes in a turn of its own, in the order of its mailbox. Work that runs outside of the actor sends
/// it, because only in a turn is the actor's state at hand.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(crate) struct Then<A: Actor>(Step<A>);

impl<A: Actor> Then<A> {
    /// Makes the message from a step.
    pub(crate) fn new(step: impl FnOnce(&mut A, &mut A::Context) + Send + 'static) -> Self {
        Self(Box::new(step))
    }

    /// Takes the step; called by the actor's handler.
    pub(crate) fn take(self, actor: &mut A, ctx: &mut A::Context) {
        (self.0)(actor, ctx);
    }
}

/// Makes an actor take the steps that it is sent.
macro_rules! takes_steps {
    ($actor:ty) => {
        impl actix::Handler<$crate::turns::Then<Self>> for $actor {
            type Result = ();

            fn handle(&mut self, then: $crate::turns::Then<Self>, ctx: &mut Self::Context) {
                then.take(self, ctx);
            }
        }
    };
}
pub(crate) use takes_steps;

/// Has an actor take a step, and returns when it has.
///
/// # Errors
/// Returns the mailbox's error if the actor has ended.
pub(crate) async fn take_step<A>(
    addr: &Addr<A>,
    step: impl FnOnce(&mut A, &mut Context<A>) + Send + 'static,
) -> Result<(), MailboxError>
where
    A: Actor<Context = Context<A>> + Handler<Then<A>>,
{
    addr.send(Then::new(step)).await
}

/// Runs `work` as a task of its own, then has the actor take a step with the outcome, unless it has ended. It is no future of
/// the actor, because an actor polls all of its own futures at each turn.
pub(crate) fn spawn_then<A, T>(
    ctx: &Context<A>,
    work: impl Future<Output = T> + 'static,
    step: impl FnOnce(&mut A, T, &mut Context<A>) + Send + 'static,
) where
    A: Actor<Context = Context<A>> + Handler<Then<A>>,
    T: Send + 'static,
{
    let addr = ctx.address();
    actix::spawn(async move {
        let outcome = work.await;
        let _ = take_step(&addr, move |actor, ctx| step(actor, outcome, ctx)).await;
    });
}

/// An actor's timer for the next deadline of its core, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Option<(Duration, SpawnHandle)>);

impl Alarm {
    /// Sets the timer to `due` (monotonic), or ends it if nothing is due; one that is set so already stays. At that time the actor
    /// does `ring`, which has to [clear](Self::clear) the timer.
    pub(crate) fn set<A>(
        &mut self,
        due: Option<Duration>,
        now: Duration,
        ctx: &mut Context<A>,
        ring: fn(&mut A, &mut Context<A>),
    ) where
        A: Actor<Context = Context<A>>,
    {
        if self.0.map(|(at, _)| at) == due {
            return;
        }
        if let Some((_, handle)) = self.0.take() {
            ctx.cancel_future(handle);
        }
        self.0 = due.map(|at| (at, ctx.run_later(at.saturating_sub(now), ring)));
    }

    /// Notes that the timer has rung.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

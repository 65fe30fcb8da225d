//! Leaders of jobs, as retrieval tells them.

use super::*;

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_first_leader_that_is_published_a_moment_later_is_waited_for() {
    let world = world(false, &[]).await;
    let _double = JobMasterDouble::start(&world.process, JOB, master(7));
    let publish = async {
        settle().await;
        world.process.publish_job_master(JOB, master(7));
    };
    let (answer, ()) = futures::join!(world.introduce(master(7)), publish);
    answer.expect("it leads by then");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_master_that_is_superseded_is_told_so_and_its_successor_registers() {
    let world = world(false, &[]).await;
    let task_manager = world.task_manager("tm-1");
    world.join(&task_manager, 4).await;
    let first = world.job(master(7)).await;
    world.require(master(7), 1).await.expect("taken");
    let request = task_manager.requests.take().remove(0);
    assert_eq!(request.job_master_id, master(7));
    world.process.publish_job_master(JOB, master(8));
    settle().await;
    assert_eq!(first.disconnects.all().len(), 1);
    assert!(world.require(master(7), 2).await.is_err());
    // Both JobMasters live in one process here, under one name, so the first must end before the second starts.
    drop(first);
    let second = world.job(master(8)).await;
    world.require(master(8), 2).await.expect("taken");
    assert_eq!(task_manager.requests.all()[0].job_master_id, master(8));
    assert_eq!(second.disconnects.all().len(), 0);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_that_has_a_leader_does_not_time_out_and_one_that_lost_it_does() {
    let world = world(false, &[]).await;
    let task_manager = world.task_manager("tm-1");
    world.join(&task_manager, 1).await;
    let _job = world.job(master(7)).await;
    world.require(master(7), 1).await.expect("taken");
    seconds(900).await;
    assert_eq!(task_manager.freed.all().len(), 0);
    world.process.leaders.set(Component::JobMaster(JOB), None);
    seconds(299).await;
    assert_eq!(task_manager.freed.all().len(), 0);
    seconds(2).await;
    assert_eq!(task_manager.freed.all().len(), 1);
    // Afterwards the job is new again: it is watched from the registration of its next JobMaster on.
    world.process.publish_job_master(JOB, master(9));
    world.introduce(master(9)).await.expect("it leads");
}

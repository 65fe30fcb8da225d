//! Queues: what there are, which may be submitted to, and what the user may do there.

use super::YarnClient;
use crate::yarn::YarnError;
use crate::yarn::messages::*;

impl YarnClient {
    /// Returns the report of a queue, by its name or full path, with all queues below it and without their
    /// applications.
    ///
    /// # Errors
    /// Fails with `YarnError::Incomplete` if the ResourceManager has no such queue; `YarnError::Call` if no
    /// ResourceManager answers after all tries, or for its exception.
    pub async fn queue(&self, name: &str) -> Result<QueueInfo, YarnError> {
        let method = "getQueueInfo";
        let request = GetQueueInfoRequest {
            queue_name: Some(name.to_owned()),
            include_applications: Some(false),
            include_child_queues: Some(true),
            recursive: Some(true),
            sub_cluster_id: None,
        };
        let response: GetQueueInfoResponse = self.call(method, &request).await?;
        response.queue_info.ok_or(YarnError::Incomplete { method, field: "queue" })
    }

    /// Returns the leaf queues, the only ones that applications can be submitted to, with their full paths, sorted by these; stopped ones
    /// are among them. Asks for the whole tree in one call.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example because the user may
    /// not do this; `YarnError::Incomplete` for an answer without the queue `root`.
    pub async fn leaf_queues(&self) -> Result<Vec<(String, QueueInfo)>, YarnError> {
        let mut leaves = Vec::new();
        let mut open = vec![(String::new(), self.queue("root").await?)];
        while let Some((parent, mut queue)) = open.pop() {
            let path = path_of(&parent, &queue);
            match std::mem::take(&mut queue.child_queues) {
                children if children.is_empty() => leaves.push((path, queue)),
                children => open.extend(children.into_iter().map(|child| (path.clone(), child))),
            }
        }
        leaves.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(leaves)
    }

    /// Returns the leaf queue that has this short name or full path, if it takes applications. A full path goes before a name. Asks for the
    /// whole tree of queues; whether this user may submit there is not checked.
    ///
    /// # Errors
    /// Fails with [`YarnError::Queue`], which lists the leaves, if there is none; [`YarnError::QueueAmbiguous`] if the name fits several;
    /// [`YarnError::QueueStopped`] if it is not running; `YarnError::Call` if no ResourceManager answers after all tries, or for its
    /// exception; `YarnError::Incomplete` for an answer without the queue `root`.
    pub async fn check_queue(&self, name: &str) -> Result<QueueInfo, YarnError> {
        let leaves = self.leaf_queues().await?;
        let is_meant = |path: &str| path == name || path.rsplit('.').next() == Some(name);
        let (mut meant, others): (Vec<_>, Vec<_>) =
            leaves.into_iter().partition(|(path, _)| is_meant(path));
        let exact = meant.iter().position(|(path, _)| path == name);
        let queue = name.to_owned();
        match (exact, meant.len()) {
            (_, 0) => {
                let there_are = others.into_iter().map(|(path, _)| path).collect();
                Err(YarnError::Queue { queue, there_are })
            }
            (None, 2..) => {
                let candidates = meant.into_iter().map(|(path, _)| path).collect();
                Err(YarnError::QueueAmbiguous { queue, candidates })
            }
            (exact, _) => {
                let (path, queue) = meant.swap_remove(exact.unwrap_or(0));
                match queue.state.is_none() || queue.state() == QueueState::Running {
                    true => Ok(queue),
                    false => Err(YarnError::QueueStopped { queue: path }),
                }
            }
        }
    }

    /// Returns the permissions (submit, administer) that this client's user has in each queue.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example
    /// because the user may not do this.
    pub async fn queue_acls(&self) -> Result<Vec<QueueUserAclInfo>, YarnError> {
        let request = GetQueueUserAclsInfoRequest {};
        let response: GetQueueUserAclsInfoResponse =
            self.call("getQueueUserAcls", &request).await?;
        Ok(response.queue_user_acls)
    }
}

/// A queue's full path; older ResourceManagers give names only, and some of those are paths already.
fn path_of(parent: &str, queue: &QueueInfo) -> String {
    let name = queue.queue_name();
    match queue.queue_path.as_deref().filter(|path| !path.is_empty()) {
        Some(path) => path.to_owned(),
        None if parent.is_empty() || name.starts_with(&format!("{parent}.")) => name.to_owned(),
        None => format!("{parent}.{name}"),
    }
}

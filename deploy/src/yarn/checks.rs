//! Whether a cluster can hold what is asked for, before anything is uploaded: container sizes, nodes, attempts.
//!
//! Pure: what YARN said is given. A check that fails names the option to change.

use super::error::YarnFailure;
use crate::targets::ClusterSpecification;
use conf::{jobmanager, taskmanager_memory, yarn_client};
use hadoop::yarn::messages::{NodeReport, Resource};
use model::MemorySize;
use std::num::NonZeroU32;

/// The resources that a container is asked for with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display)]
#[display("{} MiB and {} vcores", self.memory_mib, self.vcores)]
pub(super) struct ContainerSize {
    /// Mebibytes, a multiple of the scheduler's smallest container.
    pub(super) memory_mib: i64,
    pub(super) vcores: i32,
}

impl ContainerSize {
    /// Rounds up to whole mebibytes, then to the scheduler's smallest container.
    pub(super) fn of(memory: MemorySize, vcores: u32, smallest_mib: i64) -> Self {
        let mib = i64::try_from(memory.0.div_ceil(1 << 20)).unwrap_or(i64::MAX);
        let step = smallest_mib.max(1);
        let memory_mib = mib.saturating_add(step - 1) / step * step;
        Self { memory_mib, vcores: i32::try_from(vcores).unwrap_or(i32::MAX) }
    }

    /// Converts the size to YARN's message.
    pub(super) fn resource(self) -> Resource {
        Resource {
            memory: Some(self.memory_mib),
            virtual_cores: Some(self.vcores),
            ..Resource::default()
        }
    }

    fn fits(self, resource: &Resource) -> bool {
        self.memory_mib <= resource.memory() && self.vcores <= resource.virtual_cores()
    }
}

/// The containers of a cluster: the JobManager's, and that of each TaskManager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Containers {
    pub(super) master: ContainerSize,
    pub(super) task_manager: ContainerSize,
}

impl Containers {
    /// Makes the containers for a cluster with these sizes.
    pub(super) fn of(spec: ClusterSpecification, vcores: (u32, u32), smallest_mib: i64) -> Self {
        Self {
            master: ContainerSize::of(spec.master_memory, vcores.0, smallest_mib),
            task_manager: ContainerSize::of(spec.task_manager_memory, vcores.1, smallest_mib),
        }
    }

    /// Checks that each container may be requested and fits on some node that takes containers.
    /// Returns warnings about what the cluster could hold, and cannot hold now.
    ///
    /// # Errors
    /// A container larger than YARN allows, or than any node.
    pub(super) fn check(
        self,
        maximum: &Resource,
        nodes: &[NodeReport],
    ) -> Result<Vec<String>, YarnFailure> {
        let both = [
            (
                self.master,
                "the JobManager",
                jobmanager::PROCESS_SIZE.key(),
                yarn_client::MASTER_VCORES.key(),
            ),
            (
                self.task_manager,
                "a TaskManager",
                taskmanager_memory::PROCESS_SIZE.key(),
                "yarn.containers.vcores",
            ),
        ];
        if nodes.is_empty() {
            return Err(YarnFailure::cluster(
                "the cluster has no node that takes containers: are its NodeManagers running?",
            ));
        }
        let mut largest = 0;
        for (size, whose, memory_key, vcores_key) in both {
            if !size.fits(maximum) {
                return Err(YarnFailure::configuration(format!(
                    "the container of {whose} needs {size}, and YARN allows at most {} MiB and {} vcores for one: lower \
                     {memory_key} or {vcores_key}, or raise yarn.scheduler.maximum-allocation-mb and -vcores",
                    maximum.memory(),
                    maximum.virtual_cores()
                )));
            }
            let capable =
                |node: &&NodeReport| node.capability.as_ref().is_some_and(|all| size.fits(all));
            if !nodes.iter().any(|node| capable(&node)) {
                largest = nodes
                    .iter()
                    .filter_map(|n| Some(n.capability.as_ref()?.memory()))
                    .max()
                    .unwrap_or(largest);
                return Err(YarnFailure::configuration(format!(
                    "the container of {whose} needs {size}, and no node of the cluster is that large (the largest has \
                     {largest} MiB): lower {memory_key} or {vcores_key}"
                )));
            }
        }
        Ok(self.lacking_now(nodes))
    }

    /// Returns a description of each resource that the nodes lack beside what runs on them now.
    fn lacking_now(self, nodes: &[NodeReport]) -> Vec<String> {
        let mut free: Vec<(i64, i32)> = nodes.iter().map(free_on).collect();
        // The smallest place that will do leaves the larger ones to larger containers.
        let mut place = |size: ContainerSize| {
            let fits = |node: &&mut (i64, i32)| size.memory_mib <= node.0 && size.vcores <= node.1;
            match free.iter_mut().filter(fits).min_by_key(|node| **node) {
                Some(node) => {
                    *node = (node.0 - size.memory_mib, node.1 - size.vcores);
                    true
                }
                None => false,
            }
        };
        let note = |whose: &str, size: ContainerSize| {
            format!(
                "the cluster has no room for {whose} ({size}) now; it is started when other applications release containers"
            )
        };
        if !place(self.master) {
            return vec![note("the JobManager", self.master)];
        }
        match place(self.task_manager) {
            true => Vec::new(),
            false => vec![note("a TaskManager beside the JobManager", self.task_manager)],
        }
    }
}

fn free_on(node: &NodeReport) -> (i64, i32) {
    let (all, used) =
        (node.capability.clone().unwrap_or_default(), node.used.clone().unwrap_or_default());
    (all.memory() - used.memory(), all.virtual_cores() - used.virtual_cores())
}

/// Returns how often YARN may start the JobManager, with a warning where the cluster allows less than was asked for.
pub(super) fn attempts(
    asked: Option<NonZeroU32>,
    high_availability: bool,
    allowed: u32,
) -> (u32, Option<String>) {
    let wanted = match asked {
        Some(asked) => asked.get(),
        None => 1 + u32::from(high_availability),
    };
    let attempts = wanted.min(allowed.max(1));
    let warning = (asked.is_some() && attempts < wanted).then(|| {
        format!(
            "yarn.application-attempts is {wanted}, and the cluster allows {allowed} \
             (yarn.resourcemanager.am.max-attempts): the JobManager is started at most {attempts} times"
        )
    });
    (attempts, warning)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(memory: i64, vcores: i32) -> Resource {
        ContainerSize { memory_mib: memory, vcores }.resource()
    }

    fn node(all: (i64, i32), used: (i64, i32)) -> NodeReport {
        NodeReport {
            capability: Some(resource(all.0, all.1)),
            used: Some(resource(used.0, used.1)),
            ..NodeReport::default()
        }
    }

    fn containers(master: i64, task_manager: i64) -> Containers {
        let size = |memory_mib| ContainerSize { memory_mib, vcores: 1 };
        Containers { master: size(master), task_manager: size(task_manager) }
    }

    #[test]
    fn sizes_are_rounded_to_the_smallest_container() {
        let of =
            |mib, smallest| ContainerSize::of(MemorySize::from_mib(mib), 1, smallest).memory_mib;
        assert_eq!((of(1728, 1024), of(2048, 1024), of(1, 64), of(100, 0)), (2048, 2048, 64, 100));
        assert_eq!(ContainerSize::of(MemorySize(1), 1, 1).memory_mib, 1);
        // No overflow, whatever is asked for.
        assert!(ContainerSize::of(MemorySize(u64::MAX), u32::MAX, i64::MAX).memory_mib > 0);
    }

    #[test]
    fn a_container_above_the_maximum_names_its_options() {
        let text = |master, task_manager| {
            let nodes = [node((8192, 8), (0, 0))];
            containers(master, task_manager)
                .check(&resource(2048, 4), &nodes)
                .unwrap_err()
                .to_string()
        };
        let master = text(4096, 1024);
        assert!(
            master.contains("JobManager") && master.contains("jobmanager.memory.process.size"),
            "{master}"
        );
        assert!(master.contains("at most 2048 MiB"), "{master}");
        let worker = text(1024, 4096);
        assert!(
            worker.contains("a TaskManager") && worker.contains("taskmanager.memory.process.size"),
            "{worker}"
        );
    }

    #[test]
    fn a_container_larger_than_every_node_is_refused_and_one_that_must_wait_is_noted() {
        let maximum = resource(8192, 8);
        let none = containers(1024, 1024).check(&maximum, &[]).unwrap_err().to_string();
        assert!(none.contains("NodeManagers"), "{none}");
        let small = [node((2048, 4), (0, 0)), node((1024, 4), (0, 0))];
        let text = containers(1024, 4096).check(&maximum, &small).unwrap_err().to_string();
        assert!(text.contains("the largest has 2048 MiB"), "{text}");
        assert_eq!(containers(1024, 2048).check(&maximum, &small).unwrap(), [""; 0]);
        let busy = [node((4096, 4), (2048, 1))];
        let notes = containers(1024, 2048).check(&maximum, &busy).unwrap();
        assert!(notes[0].contains("a TaskManager beside the JobManager"), "{notes:?}");
        let notes = containers(4096, 1024).check(&maximum, &busy).unwrap();
        assert!(notes[0].contains("no room for the JobManager"), "{notes:?}");
        let no_cores = [node((4096, 4), (0, 4))];
        assert_eq!(containers(1024, 1024).check(&maximum, &no_cores).unwrap().len(), 1);
    }

    #[test]
    fn attempts_are_at_most_what_the_cluster_allows() {
        let asked = NonZeroU32::new;
        assert_eq!(attempts(None, false, 2), (1, None));
        assert_eq!(attempts(None, true, 2), (2, None));
        assert_eq!(attempts(None, true, 1), (1, None));
        assert_eq!(attempts(asked(2), false, 2), (2, None));
        let (attempts, warning) = attempts(asked(10), true, 2);
        assert_eq!(attempts, 2);
        assert!(warning.unwrap().contains("at most 2 times"));
    }
}

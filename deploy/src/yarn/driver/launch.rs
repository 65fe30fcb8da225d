//! Prepares the launch of a TaskManager's container: its size, command, options, files, environment
//! and credentials.
//!
//! Options travel in the staged `flott.yaml`. Arguments name the container, its sizes and the JobManager's address and
//! nothing else: everybody on the node can read them.

use super::core::Size;
use crate::roles::{CLUSTER_ROLE, ROLE_VARIABLE};
use crate::yarn::contract::{
    CLUSTER_SECRET, FLOTT_FILE, LaunchFile, PROGRAM_FILE, PROGRAM_HASH_VARIABLE, USER_VARIABLE,
    hadoop_conf_env, program_hash_env, shipped_env,
};
use actors::resource_manager::WorkerRequest;
use conf::memory::TaskManagerMemory;
use conf::{Options, jobmanager, taskmanager, taskmanager_memory as memory, yarn_containers};
use hadoop::tokens::{Credentials, Secret, kinds};
use hadoop::yarn::messages::{
    ContainerLaunchContext, IdError, LocalResource, Resource, ResourceInformation,
};
use model::{MemorySize, ResourceId, WorkerResourceSpec};
use std::collections::BTreeMap;
use streaming::SHIPPED_VARIABLE;

/// The parts of a launch that all TaskManagers of an application share.
#[derive(Debug, Clone)]
pub(crate) struct LaunchPlan {
    /// `--config-dir` and the binary are relative to the container's working directory.
    command: &'static str,
    files: Vec<(String, LocalResource)>,
    env: BTreeMap<String, String>,
    /// The folder of ship files, as the container's shell finds it.
    shipped: Option<String>,
    credentials: Credentials,
    /// `jobmanager.rpc.address` and `jobmanager.rpc.port`, as bound.
    jobmanager: Vec<(String, String)>,
    /// Virtual cores of each container (`yarn.containers.vcores`); `None` leaves the cluster's
    /// default.
    vcores: Option<u32>,
    /// YARN's names of external resources.
    resource_keys: BTreeMap<String, String>,
}

impl LaunchPlan {
    /// Returns the plan of a JobManager with these options, which has bound its ports. `credentials` are its own; what
    /// is the ApplicationMaster's alone is left out. `user` is the submitter.
    ///
    /// # Errors
    /// The URL of a file that is none.
    pub(crate) fn new(
        options: &Options,
        files: &[LaunchFile],
        credentials: &Credentials,
        user: Option<String>,
    ) -> Result<Self, IdError> {
        let is_program = files.iter().any(|file| file.name == PROGRAM_FILE);
        let mut env = options.get_family(&yarn_containers::TASKMANAGER_ENV);
        env.extend(user.map(|user| (USER_VARIABLE.to_owned(), user)));
        if is_program {
            env.insert(ROLE_VARIABLE.to_owned(), CLUSTER_ROLE.to_owned());
            env.extend(
                program_hash_env(files).map(|hash| (PROGRAM_HASH_VARIABLE.to_owned(), hash)),
            );
        }
        let resource = |file: &LaunchFile| Ok((file.name.clone(), file.resource()?));
        let address = [jobmanager::RPC_ADDRESS.key(), jobmanager::RPC_PORT.key()];
        let set = |key: &&str| ((*key).to_owned(), options.text_of(key).unwrap_or_default());
        Ok(Self {
            command: if is_program { PROGRAM_FILE } else { FLOTT_FILE },
            files: files.iter().map(resource).collect::<Result<_, IdError>>()?,
            env,
            shipped: shipped_env(files),
            credentials: for_taskmanagers(credentials),
            jobmanager: address.iter().map(set).collect(),
            vcores: options.get(&yarn_containers::VCORES),
            resource_keys: options.get_family(&yarn_containers::EXTERNAL_RESOURCE_KEY),
        })
    }

    /// Returns the size of a worker's container: its memory rounded up to whole MiB.
    pub(super) fn size(&self, worker: &WorkerRequest) -> Size {
        let mib = worker.memory.total().0.div_ceil(1 << 20);
        let cores = u32::try_from(worker.spec.cpu_millis.div_ceil(1000)).unwrap_or(u32::MAX);
        let vcores = self.vcores.unwrap_or(cores).max(1);
        let other = |(name, key): (&String, &String)| {
            let amount = worker.spec.extended.get(name)?;
            Some((key.clone(), i64::try_from(*amount).unwrap_or(i64::MAX)))
        };
        Size {
            memory_mib: i64::try_from(mib).unwrap_or(i64::MAX),
            vcores: i32::try_from(vcores).unwrap_or(i32::MAX),
            others: self.resource_keys.iter().filter_map(other).collect(),
        }
    }

    /// Returns the launch context of a worker in a container.
    pub(super) fn launch(&self, id: &ResourceId, worker: &WorkerRequest) -> ContainerLaunchContext {
        let mut command = format!("./{} taskmanager --config-dir .", self.command);
        let own = (taskmanager::RESOURCE_ID.key().to_owned(), id.to_string());
        let sizes = sizes(&worker.spec, &worker.memory);
        for (key, value) in std::iter::once(own).chain(self.jobmanager.clone()).chain(sizes) {
            command.push_str(&format!(" -D {key}={value}"));
        }
        // Nodes put the end of a file that is called like this into the diagnostics of a container that failed.
        command.push_str(" 1><LOG_DIR>/taskmanager.out 2><LOG_DIR>/taskmanager.stderr");
        let mut launch = ContainerLaunchContext::of_command(command).with_tokens(&self.credentials);
        for (name, value) in &self.env {
            launch = launch.with_env(name, value);
        }
        launch = launch.with_expanded_env("HADOOP_CONF_DIR", hadoop_conf_env());
        if let Some(folder) = &self.shipped {
            launch = launch.with_expanded_env(SHIPPED_VARIABLE, folder.clone());
        }
        for (name, resource) in &self.files {
            launch = launch.with_file(name, resource.clone());
        }
        launch
    }
}

/// Returns the tokens of the application without the one that makes its bearer the
/// ApplicationMaster, and the cluster's secret without that of REST.
fn for_taskmanagers(all: &Credentials) -> Credentials {
    let mut credentials = Credentials::new();
    for (alias, token) in all.tokens().filter(|(_, token)| token.kind() != kinds::AM_RM) {
        credentials.add(alias, token.clone());
    }
    if let Some(secret) = all.secret(CLUSTER_SECRET) {
        credentials.add_secret(CLUSTER_SECRET, Secret::new(secret.expose().to_vec()));
    }
    credentials
}

/// Returns the options that make a TaskManager of exactly the requested size, whatever sizes its
/// `flott.yaml` has.
fn sizes(spec: &WorkerResourceSpec, parts: &TaskManagerMemory) -> Vec<(String, String)> {
    let bytes = |size: MemorySize| format!("{}b", size.0);
    let total = parts.total();
    let without_overhead = MemorySize(total.0.saturating_sub(parts.overhead.0));
    let mut sizes = vec![
        (taskmanager::SLOTS.key().to_owned(), spec.slots.to_string()),
        (taskmanager::CPU_CORES.key().to_owned(), format!("{}", spec.cpu_millis as f64 / 1000.0)),
        (memory::PROCESS_SIZE.key().to_owned(), bytes(total)),
        (memory::FLINK_SIZE.key().to_owned(), bytes(without_overhead)),
        (memory::FRAMEWORK_SIZE.key().to_owned(), bytes(parts.framework)),
        (memory::TASK_SIZE.key().to_owned(), bytes(parts.task)),
        (memory::MANAGED_SIZE.key().to_owned(), bytes(parts.managed)),
        (memory::NETWORK_MIN.key().to_owned(), bytes(parts.network)),
        (memory::NETWORK_MAX.key().to_owned(), bytes(parts.network)),
        (memory::OVERHEAD_MIN.key().to_owned(), bytes(parts.overhead)),
        (memory::OVERHEAD_MAX.key().to_owned(), bytes(parts.overhead)),
    ];
    for (name, amount) in &spec.extended {
        sizes.push((format!("external-resource.{name}.amount"), amount.to_string()));
    }
    sizes
}

/// Converts the size to the message by which a container is requested.
pub(super) fn resource(size: &Size) -> Resource {
    let other = |(key, value): (&String, &i64)| ResourceInformation {
        key: key.clone(),
        value: Some(*value),
        ..ResourceInformation::default()
    };
    Resource {
        memory: Some(size.memory_mib),
        virtual_cores: Some(size.vcores),
        resource_value_map: size.others.iter().map(other).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::memory::{
        Machine, task_manager_memory, task_manager_memory_for, worker_resource_spec,
    };
    use hadoop::tokens::Token;
    use model::ContentHash;
    use std::num::NonZeroU32;

    const HASH: ContentHash = ContentHash([7; 32]);

    fn file(name: &str) -> LaunchFile {
        LaunchFile {
            name: name.to_owned(),
            url: format!("hdfs://h:8020/user/u/.flott/application_1_0001/{name}"),
            size: 7,
            timestamp: 8,
            archive: false,
            public: false,
            hash: (name == PROGRAM_FILE).then_some(HASH),
        }
    }

    fn options(pairs: &[(&str, &str)]) -> Options {
        Options::from_map(pairs.iter().copied()).unwrap()
    }

    fn request(options: &Options) -> WorkerRequest {
        let machine = Machine { cores: NonZeroU32::MIN, memory_limit: None };
        let spec = worker_resource_spec(options, &machine).unwrap();
        let memory = task_manager_memory_for(options, &spec).unwrap();
        WorkerRequest { request: 1, spec, memory }
    }

    fn credentials() -> Credentials {
        let mut all = Credentials::new();
        all.add("", Token::new(b"am".to_vec(), b"p".to_vec(), kinds::AM_RM, ""));
        all.add("fs", Token::new(b"fs".to_vec(), b"p".to_vec(), kinds::HDFS_DELEGATION, "h"));
        all.add_secret(CLUSTER_SECRET, Secret::new(b"hush-hush-hush".to_vec()));
        all.add_secret("flott.rest.token", Secret::new(b"rest-rest-rest".to_vec()));
        all
    }

    fn plan(options: &Options, files: &[&str]) -> LaunchPlan {
        let files: Vec<_> = files.iter().map(|name| file(name)).collect();
        LaunchPlan::new(options, &files, &credentials(), Some("alice".to_owned())).unwrap()
    }

    fn command(launch: &ContainerLaunchContext) -> String {
        launch.command.join(" ")
    }

    /// A TaskManager with its own `flott.yaml` and the arguments offers what was asked for, to the byte.
    #[test]
    fn a_taskmanager_is_made_of_what_was_asked_for() {
        let configured: [&[(&str, &str)]; 5] = [
            &[],
            &[("taskmanager.memory.process.size", "1000000001b")],
            &[("taskmanager.memory.flink.size", "1g"), ("taskmanager.numberOfTaskSlots", "3")],
            &[
                ("taskmanager.memory.task.heap.size", "100m"),
                ("taskmanager.memory.task.off-heap.size", "28m"),
                ("taskmanager.memory.framework.heap.size", "64m"),
                ("taskmanager.memory.framework.off-heap.size", "64m"),
            ],
            &[("taskmanager.memory.network.max", "64m"), ("external-resource.gpu.amount", "2")],
        ];
        for pairs in configured {
            let options = options(pairs);
            let request = request(&options);
            let defines = sizes(&request.spec, &request.memory);
            let own = options.overlaid(defines, "command line").unwrap();
            assert_eq!(task_manager_memory(&own, None).unwrap(), request.memory, "{pairs:?}");
            let machine = Machine { cores: NonZeroU32::MIN, memory_limit: None };
            assert_eq!(worker_resource_spec(&own, &machine).unwrap(), request.spec, "{pairs:?}");
        }
    }

    #[test]
    fn containers_are_large_enough_and_have_the_resources_that_have_a_name() {
        let set = [
            ("taskmanager.memory.process.size", "1000000001b"),
            ("taskmanager.cpu.cores", "1.5"),
            ("external-resource.gpu.amount", "2"),
            ("external-resource.fpga.amount", "1"),
            ("external-resource.gpu.yarn.config-key", "yarn.io/gpu"),
        ];
        let with = |more: &[(&str, &str)]| {
            let options = options(&[&set[..], more].concat());
            plan(&options, &[]).size(&request(&options))
        };
        let others = BTreeMap::from([("yarn.io/gpu".to_owned(), 2)]);
        assert_eq!(with(&[]), Size { memory_mib: 954, vcores: 2, others });
        assert_eq!(with(&[("yarn.containers.vcores", "5")]).vcores, 5);
        let asked = resource(&with(&[]));
        assert_eq!((asked.memory, asked.virtual_cores), (Some(954), Some(2)));
        assert_eq!(asked.resource_value_map[0].key, "yarn.io/gpu");
    }

    #[test]
    fn nothing_secret_is_in_arguments_or_environment() {
        let options = options(&[
            ("program.db-password", "hunter2"),
            ("jobmanager.rpc.address", "node-1"),
            ("jobmanager.rpc.port", "40001"),
            ("containerized.taskmanager.env.GREETING", "say \"$X\""),
        ]);
        let launch = plan(&options, &["flott", "flott.yaml"])
            .launch(&ResourceId::new("container_1_0001_01_000002".to_owned()), &request(&options));
        let text = command(&launch);
        assert!(text.starts_with("./flott taskmanager --config-dir . -D taskmanager.resource-id="));
        assert!(text.contains("-D jobmanager.rpc.port=40001") && text.contains("<LOG_DIR>"));
        assert!(!text.contains("hunter2") && !text.contains("hush"), "{text}");
        let env: BTreeMap<_, _> = launch
            .environment
            .iter()
            .map(|pair| (pair.key.clone().unwrap(), pair.value.clone().unwrap()))
            .collect();
        let expected = [
            ("GREETING", "say \\\"\\$X\\\""),
            ("HADOOP_CONF_DIR", "{{PWD}}/hadoop-conf"),
            ("HADOOP_USER_NAME", "alice"),
        ];
        let expected = expected.map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(env, BTreeMap::from(expected));
        let given = Credentials::from_bytes(&launch.tokens.unwrap()).unwrap();
        assert_eq!(given.tokens().map(|(alias, _)| alias).collect::<Vec<_>>(), ["fs"]);
        assert_eq!(given.secrets().map(|(a, _)| a).collect::<Vec<_>>(), [CLUSTER_SECRET]);
        assert_eq!(launch.local_resources.len(), 2);
    }

    #[test]
    fn where_the_program_is_shipped_taskmanagers_are_the_program() {
        let options = Options::default();
        for files in [&["program"][..], &["flott", "program"][..]] {
            let id = ResourceId::new("c".to_owned());
            let launch = plan(&options, files).launch(&id, &request(&options));
            assert!(command(&launch).starts_with("./program taskmanager "));
            let value = |name: &str| {
                let found = launch.environment.iter().find(|v| v.key.as_deref() == Some(name));
                found.and_then(|pair| pair.value.clone())
            };
            assert_eq!(value(ROLE_VARIABLE).as_deref(), Some(CLUSTER_ROLE));
            assert_eq!(value(PROGRAM_HASH_VARIABLE), Some(HASH.to_string()));
        }
    }
}

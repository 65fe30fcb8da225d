use super::*;
use crate::Options;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn options(settings: &[(&str, &str)]) -> Options {
    let own = settings.iter().map(|(k, v)| (format!("taskmanager.memory.{k}"), (*v).to_owned()));
    Options::from_map(own).unwrap()
}
fn parts(settings: &[(&str, &str)]) -> [u64; 5] {
    let memory = task_manager_memory(&options(settings), None).unwrap();
    [memory.framework, memory.task, memory.network, memory.managed, memory.overhead]
        .map(|s| s.0 / MIB)
}
fn complaint(settings: &[(&str, &str)]) -> String {
    task_manager_memory(&options(settings), None).unwrap_err().to_string()
}

#[test]
fn one_number_is_split_by_fractions() {
    let memory = task_manager_memory(&Options::default(), None).unwrap();
    assert_eq!(memory.total(), MemorySize::from_mib(1728));
    // overhead 10 % of 1728; of the other 1555.2: network 10 %, managed 40 %, framework 128, task the rest.
    assert_eq!(parts(&[]), [128, 649, 155, 622, 172]);
    assert_eq!(parts(&[("process.size", "20g")]), [128, 9600, 1945, 7782, 1024]);
}

#[test]
fn without_a_number_the_containers_limit_is_the_process() {
    let memory =
        task_manager_memory(&Options::default(), Some(MemorySize::from_mib(4096))).unwrap();
    assert_eq!(memory.total(), MemorySize::from_mib(4096));
    let set = options(&[("process.size", "2g")]);
    let limit = Some(MemorySize::from_mib(4096));
    assert_eq!(task_manager_memory(&set, limit).unwrap().total(), MemorySize::from_mib(2048));
    let error = task_manager_memory(&set, Some(MemorySize::from_mib(1024))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "taskmanager.memory.process.size of 2g is more than the container's limit of 1g"
    );
}

#[test]
fn task_and_managed_memory_make_the_total_where_they_are_set() {
    // network is 10 % of 128 + 512 + 512 + itself, overhead 10 % of all of it.
    assert_eq!(
        parts(&[("task.size", "512m"), ("managed.size", "512m")]),
        [128, 512, 128, 512, 142]
    );
    assert_eq!(
        parts(&[
            ("task.heap.size", "500m"),
            ("task.off-heap.size", "12m"),
            ("managed.size", "512m")
        ]),
        [128, 512, 128, 512, 142]
    );
}

#[test]
fn what_is_set_leaves_the_rest_to_what_is_not() {
    assert_eq!(parts(&[("flink.size", "1000m")]), [128, 372, 100, 400, 111]);
    assert_eq!(parts(&[("flink.size", "1000m"), ("task.size", "400m")]), [128, 400, 72, 400, 111]);
    assert_eq!(
        parts(&[("flink.size", "1000m"), ("process.size", "1200m")]),
        [128, 372, 100, 400, 200]
    );
    assert_eq!(
        parts(&[
            ("flink.size", "1000m"),
            ("task.size", "400m"),
            ("managed.size", "300m"),
            ("process.size", "1100m")
        ]),
        [128, 400, 172, 300, 100]
    );
}

#[test]
fn too_little_memory_names_every_part() {
    assert_eq!(
        complaint(&[("process.size", "256m")]),
        "taskmanager.memory.process.size of 256m is too little: overhead 64m, taskmanager.memory.framework.size 128m, \
         managed memory 76.8m, network memory 64m, together 332.8m; raise it, or lower these"
    );
    assert!(complaint(&[("process.size", "1k")]).contains("is too little"));
    assert!(complaint(&[("flink.size", "200m"), ("task.size", "400m"), ("managed.size", "1m")]).contains(
        "taskmanager.memory.flink.size of 200m is too little: taskmanager.memory.framework.size 128m, \
         taskmanager.memory.task.size 400m, taskmanager.memory.managed.size 1m, together 529m"
    ));
}

#[test]
fn contradictions_name_the_options() {
    assert_eq!(
        complaint(&[("flink.size", "1g"), ("process.size", "4g")]),
        "taskmanager.memory.process.size 4g, the parts that are set 1g leave 3g for taskmanager.memory.overhead, \
         which is not within taskmanager.memory.overhead.min (64m) and taskmanager.memory.overhead.max (1g)"
    );
    assert!(complaint(&[("flink.size", "2g"), ("process.size", "1g")]).contains("is too little"));
    assert_eq!(
        complaint(&[("network.min", "2g"), ("network.max", "1g")]),
        "taskmanager.memory.network.min (2g) is above taskmanager.memory.network.max (1g)"
    );
    assert_eq!(
        complaint(&[("task.size", "2g"), ("task.heap.size", "1g")]),
        "taskmanager.memory.task.size is 2g, but taskmanager.memory.task.heap.size and \
         taskmanager.memory.task.off-heap.size are 1g together; set one or the other"
    );
    assert!(
        complaint(&[("network.max", "80m"), ("flink.size", "1000m"), ("task.size", "10m")])
            .contains("leave 462m for taskmanager.memory.network")
    );
    assert!(complaint(&[("process.size", "9999999t")]).contains("is more than 1024t"));
}

#[test]
fn a_spec_counts_cores_and_slots() {
    let machine = Machine { cores: NonZeroU32::new(8).unwrap(), memory_limit: None };
    let options = Options::from_map([
        ("taskmanager.numberOfTaskSlots", "auto"),
        ("external-resource.gpu.amount", "2"),
    ])
    .unwrap();
    let spec = worker_resource_spec(&options, &machine).unwrap();
    assert_eq!((spec.slots, spec.cpu_millis, spec.extended["gpu"]), (8, 8000, 2));
    let half = options.with("taskmanager.cpu.cores", "0.5").unwrap();
    assert_eq!(worker_resource_spec(&half, &machine).unwrap().cpu_millis, 500);
}

#[test]
fn a_job_manager_has_a_model_of_its_own() {
    let of = |settings: &[(&str, &str)]| {
        job_manager_memory(&Options::from_map(settings.iter().copied()).unwrap(), None)
    };
    let memory = of(&[]).unwrap();
    assert_eq!((memory.framework.mib(), memory.jobs.mib(), memory.overhead.mib()), (64, 1376, 160));
    assert_eq!(memory.total(), MemorySize::from_mib(1600));
    let memory = of(&[("jobmanager.memory.heap.size", "800m")]).unwrap();
    assert_eq!((memory.framework.mib(), memory.jobs.mib(), memory.overhead.mib()), (64, 800, 96));
    let error = of(&[("jobmanager.memory.process.size", "100m")]).unwrap_err().to_string();
    assert!(error.contains("jobmanager.memory.process.size of 100m is too little"), "{error}");
}

proptest! {
    /// Whatever is set, the parts add up to what was set, or there is an error.
    #[test]
    fn parts_add_up(
        process in proptest::option::of(1_u64..1 << 42),
        flink in proptest::option::of(1_u64..1 << 42),
        task in proptest::option::of(0_u64..1 << 38),
        managed in proptest::option::of(0_u64..1 << 38),
        fractions in (0.0..0.99_f64, 0.0..0.99_f64, 0.0..0.99_f64),
        limit in proptest::option::of(1_u64..1 << 43),
    ) {
        let mut settings = vec![
            ("network.fraction", fractions.0.to_string()),
            ("managed.fraction", fractions.1.to_string()),
            ("overhead.fraction", fractions.2.to_string()),
        ];
        for (key, value) in [("process.size", process), ("flink.size", flink), ("task.size", task), ("managed.size", managed)] {
            settings.extend(value.map(|v| (key, v.to_string())));
        }
        let own = settings.iter().map(|(k, v)| (format!("taskmanager.memory.{k}"), v.clone()));
        let options = Options::from_map(own).unwrap();
        if let Ok(memory) = task_manager_memory(&options, limit.map(MemorySize)) {
            let sum = memory.framework.0 + memory.task.0 + memory.network.0 + memory.managed.0 + memory.overhead.0;
            prop_assert_eq!(sum, memory.total().0);
            if let Some(process) = process {
                prop_assert_eq!(sum, process);
            }
            if let Some(flink) = flink {
                prop_assert_eq!(sum - memory.overhead.0, flink);
            }
            prop_assert!(task.is_none_or(|task| memory.task.0 == task));
            prop_assert!(managed.is_none_or(|managed| memory.managed.0 == managed));
            prop_assert!(memory.network.0 >= 64 * MIB && memory.overhead.0 >= 64 * MIB);
        }
    }

    /// A worker of the kind that is configured is the process that is configured.
    #[test]
    fn the_configured_worker_is_the_configured_process(mib in 400_u64..100_000, slots in 1_u32..9) {
        let options = Options::from_map([
            ("taskmanager.memory.process.size", format!("{mib}m")),
            ("taskmanager.numberOfTaskSlots", slots.to_string()),
        ]).unwrap();
        let machine = Machine { cores: NonZeroU32::MIN, memory_limit: None };
        let spec = worker_resource_spec(&options, &machine).unwrap();
        prop_assert_eq!(task_manager_memory_for(&options, &spec), task_manager_memory(&options, None));
    }
}

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
fn too_little_memory_names_every_part_and_what_will_do() {
    // Parts of 386 - 64 = 322: managed 40 %, the network its minimum, framework as configured, the
    // rest for tasks.
    assert_eq!(
        complaint(&[("process.size", "50m")]),
        "taskmanager.memory.process.size of 50m is too little for taskmanager.memory.framework.size 128m, \
         taskmanager.memory.task.size 1.2m, taskmanager.memory.network 64m, taskmanager.memory.managed 128.8m, \
         taskmanager.memory.overhead 64m, together 386m; set it to at least 386m, or lower these"
    );
    assert_eq!(
        complaint(&[("flink.size", "200m"), ("task.size", "400m"), ("managed.size", "1m")]),
        "taskmanager.memory.flink.size of 200m is too little for taskmanager.memory.framework.size 128m, \
         taskmanager.memory.task.size 400m, taskmanager.memory.network 64m, taskmanager.memory.managed 1m, \
         together 593m; set it to at least 593m, or lower these"
    );
    assert!(complaint(&[("process.size", "1k")]).contains("set it to at least 386m"));
    let none = complaint(&[("network.fraction", "0.5"), ("managed.fraction", "0.6")]);
    assert!(none.contains("of 1728m is too little for "), "{none}");
    assert!(none.ends_with("; a larger one will not do either: lower these"), "{none}");
}

#[test]
fn two_totals_that_are_too_little_are_both_named() {
    let set =
        |flink: &str, process: &str| options(&[("flink.size", flink), ("process.size", process)]);
    let error = task_manager_memory(&set("200m", "300m"), None).unwrap_err().to_string();
    let advice = "; set it to 322m and taskmanager.memory.process.size to 386m, or lower these";
    assert!(error.ends_with(advice), "{error}");
    task_manager_memory(&set("322m", "386m"), None).unwrap();
    assert!(task_manager_memory(&set("321m", "386m"), None).is_err());
    assert!(task_manager_memory(&set("322m", "385m"), None).is_err());
}

#[test]
fn contradictions_name_the_options() {
    assert_eq!(
        complaint(&[("flink.size", "1g"), ("process.size", "4g")]),
        "taskmanager.memory.process.size 4g, the parts that are set 1g leave 3g for taskmanager.memory.overhead, \
         which is not within taskmanager.memory.overhead.min (64m) and taskmanager.memory.overhead.max (1g)"
    );
    assert!(
        complaint(&[("flink.size", "2g"), ("process.size", "1g")])
            .contains("set it to at least 2112m")
    );
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
}

#[test]
fn too_little_memory_of_a_job_manager_names_every_part_and_what_will_do() {
    let of = |key: &str, size: &str| {
        let set = Options::from_map([(format!("jobmanager.memory.{key}"), size)]).unwrap();
        job_manager_memory(&set, None).map_err(|e| e.to_string())
    };
    assert_eq!(
        of("process.size", "100m"),
        Err("jobmanager.memory.process.size of 100m is too little for jobmanager.memory.framework.size 64m, \
             jobmanager.memory.jobs.size 1m, jobmanager.memory.overhead 64m, together 129m; set it to at least 129m, \
             or lower these"
            .to_owned())
    );
    of("process.size", "129m").unwrap();
    assert!(of("process.size", "128m").is_err());
    assert!(of("flink.size", "64m").unwrap_err().contains("together 65m; set it to at least 65m"));
    of("flink.size", "65m").unwrap();
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

    /// A total that a message proposes is accepted, and no smaller one would have been.
    #[test]
    fn what_a_message_says_will_do(
        process in proptest::option::of(1_u64..600),
        flink in proptest::option::of(1_u64..600),
        framework in proptest::option::of(0_u64..700),
        task in proptest::option::of(0_u64..700),
        managed in proptest::option::of(0_u64..700),
        network in proptest::option::of((0_u64..300, 0_u64..300)),
        fractions in proptest::option::of((0.0..0.99_f64, 0.0..0.99_f64, 0.0..0.99_f64)),
    ) {
        let mib = |amount: Option<u64>| amount.map(|mib| format!("{mib}m"));
        let mut settings = Vec::new();
        for (key, value) in [
            ("process.size", mib(process)),
            ("flink.size", mib(flink)),
            ("framework.size", mib(framework)),
            ("task.size", mib(task)),
            ("managed.size", mib(managed)),
            ("network.min", mib(network.map(|n| n.0))),
            ("network.max", mib(network.map(|n| n.0 + n.1))),
            ("network.fraction", fractions.map(|f| f.0.to_string())),
            ("managed.fraction", fractions.map(|f| f.1.to_string())),
            ("overhead.fraction", fractions.map(|f| f.2.to_string())),
        ] {
            settings.extend(value.map(|value| (key, value)));
        }
        let own = settings.iter().map(|(k, v)| (format!("taskmanager.memory.{k}"), v.clone()));
        let options = Options::from_map(own).unwrap();
        let Err(MemoryError::TooLittle { least, .. }) = task_manager_memory(&options, None) else {
            return Ok(());
        };
        let set = |sizes: &[(&'static str, MemorySize)]| {
            sizes.iter().fold(options.clone(), |options, (key, size)| {
                // The text of the message.
                options.with(key, size.show().unwrap()).unwrap()
            })
        };
        if least.is_empty() {
            // No total up to a TiB does.
            for shift in 20..40 {
                let key = if flink.is_some() { "flink.size" } else { "process.size" };
                let key = format!("taskmanager.memory.{key}");
                let larger = options.with(&key, (1_u64 << shift).to_string()).unwrap();
                let too_little = task_manager_memory(&larger, None).is_err();
                prop_assert!(too_little || process.or(flink).is_some_and(|set| set > 1 << (shift - 20)));
            }
            return Ok(());
        }
        prop_assert!(task_manager_memory(&set(&least), None).is_ok());
        for index in 0..least.len() {
            let mut less = least.clone();
            less[index].1 = MemorySize(less[index].1.0.saturating_sub(MIB));
            prop_assert!(task_manager_memory(&set(&less), None).is_err());
        }
    }

    /// The same of a JobManager.
    #[test]
    fn what_a_job_managers_message_says_will_do(
        process in proptest::option::of(1_u64..600),
        flink in proptest::option::of(1_u64..600),
        framework in 0_u64..700,
        jobs in proptest::option::of(0_u64..700),
        fraction in 0.0..0.99_f64,
    ) {
        let mut settings = vec![
            ("framework.size", format!("{framework}m")),
            ("overhead.fraction", fraction.to_string()),
        ];
        for (key, size) in [("process.size", process), ("flink.size", flink), ("jobs.size", jobs)] {
            settings.extend(size.map(|mib| (key, format!("{mib}m"))));
        }
        let own = settings.iter().map(|(k, v)| (format!("jobmanager.memory.{k}"), v.clone()));
        let options = Options::from_map(own).unwrap();
        if let Err(MemoryError::TooLittle { least, .. }) = job_manager_memory(&options, None) {
            prop_assert!(!least.is_empty());
            let set = least.iter().fold(options.clone(), |options, (key, size)| {
                options.with(key, size.show().unwrap()).unwrap()
            });
            prop_assert!(job_manager_memory(&set, None).is_ok());
            let (key, size) = least[0];
            let less = set.with(key, size.0.saturating_sub(MIB).to_string()).unwrap();
            prop_assert!(job_manager_memory(&less, None).is_err());
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

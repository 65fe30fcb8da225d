use super::*;
use crate::{cluster, heartbeat, jobmanager, resourcemanager, rest, taskmanager};
use std::time::Duration;

fn sources(
    yaml: &str,
    env: &[(&str, &str)],
    overrides: &[(&str, &str)],
) -> (tempfile::TempDir, LoadSources) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("flott.yaml"), yaml).unwrap();
    let own = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
    let sources = LoadSources {
        config_dir: Some(dir.path().to_owned()),
        env: env.iter().map(own).collect(),
        overrides: overrides.iter().map(own).collect(),
    };
    (dir, sources)
}

fn message(yaml: &str) -> String {
    Options::from_yaml("flott.yaml", yaml).unwrap_err().to_string()
}

#[test]
fn higher_layers_win_and_each_value_knows_its_place() {
    let yaml = "jobmanager.rpc.port: 1\nrest:\n  port: 2\nheartbeat.interval: 3 s\n";
    let env = [("FLOTT_REST_PORT", "20"), ("FLOTT_HEARTBEAT_INTERVAL", "30 s"), ("PATH", "/bin")];
    let (_dir, sources) =
        sources(yaml, &env, &[("heartbeat.interval", "100 s"), ("heartbeat.interval", "300 s")]);
    let options = Options::load(&sources).unwrap();

    assert_eq!(options.get(&jobmanager::RPC_PORT).first(), 1);
    assert_eq!(options.get(&rest::PORT).first(), 20);
    assert_eq!(options.get(&heartbeat::INTERVAL), Duration::from_secs(300));
    assert_eq!(options.get(&heartbeat::TIMEOUT), Duration::from_secs(5));
    assert!(options.source_of("jobmanager.rpc.port").unwrap().ends_with("flott.yaml line 1"));
    assert_eq!(options.source_of("rest.port"), Some("environment variable FLOTT_REST_PORT"));
    assert_eq!(options.source_of("heartbeat.interval"), Some("command line"));
    assert_eq!(options.source_of("heartbeat.timeout"), None);
}

#[test]
fn an_old_name_in_a_higher_layer_wins_over_the_own_name_in_a_lower_one() {
    let (_dir, sources) = sources("rpc.ask-timeout: 1 s\n", &[], &[("akka.ask.timeout", "2 s")]);
    let options = Options::load(&sources).unwrap();
    assert_eq!(options.get(&crate::rpc::ASK_TIMEOUT), Duration::from_secs(2));
}

#[test]
fn camel_case_keys_and_program_keys_are_reached_from_the_environment() {
    let env = [
        ("FLOTT_TASKMANAGER_NUMBEROFTASKSLOTS", "4"),
        ("FLOTT_PROGRAM_INPUT", "/a"),
        ("FLOTT_program.some.Key", "b"),
        ("FLOTT_INTERNAL_SOCKET", "3"),
    ];
    let (_dir, sources) = sources("", &env, &[]);
    let options = Options::load(&sources).unwrap();
    let four = taskmanager::Slots::Count(4.try_into().unwrap());
    assert_eq!(options.get(&taskmanager::SLOTS), four);
    let expected = [("input", "/a"), ("some.Key", "b")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(options.program(), expected.into());
}

#[test]
fn variables_that_kubernetes_sets_for_a_service_are_no_options() {
    let env = [
        ("FLOTT_REST_PORT", "tcp://10.0.0.1:8081"),
        ("FLOTT_REST_PORT_8081_TCP", "tcp://10.0.0.1:8081"),
        ("FLOTT_REST_PORT_8081_TCP_ADDR", "10.0.0.1"),
        ("FLOTT_REST_SERVICE_HOST", "10.0.0.1"),
        ("FLOTT_REST_SERVICE_PORT_HTTP", "8081"),
    ];
    let (_dir, sources) = sources("", &env, &[]);
    assert_eq!(Options::load(&sources).unwrap(), Options::default());
}

#[test]
fn a_wrong_value_is_named_with_its_place_key_and_what_is_expected() {
    assert_eq!(
        message("a:\nrest.port: 123456\n"),
        "option 'rest.port' (flott.yaml line 2): '123456' is wrong, it takes a port, 0 (any free one), \
         a range or a list of them, e.g. 6123 or 50100-50200,50300"
    );
    assert_eq!(
        message("heartbeat.interval: 0 s"),
        "option 'heartbeat.interval' (flott.yaml line 1): '0 s' is wrong, it takes a duration above zero"
    );
    assert_eq!(
        message("external-resource.gpu.amount: many"),
        "option 'external-resource.gpu.amount' (flott.yaml line 1): 'many' is wrong, it takes a whole number from 0"
    );
}

#[test]
fn an_unknown_option_names_the_nearest_and_a_refused_one_its_successor() {
    assert_eq!(
        message("taskmanager.numberOfTaskSlot: 2"),
        "unknown option 'taskmanager.numberOfTaskSlot' (flott.yaml line 1); did you mean 'taskmanager.numberOfTaskSlots'?"
    );
    assert_eq!(message("zzz: 2"), "unknown option 'zzz' (flott.yaml line 1)");
    assert_eq!(
        message("taskmanager.memory.jvm-metaspace.size: 256m"),
        "option 'taskmanager.memory.jvm-metaspace.size' (flott.yaml line 1) does not exist in Flott: \
         there is no JVM and so no metaspace; drop it"
    );
    assert!(message("env.java.opts.all: -Xmx1g").contains("there is no JVM"));
    assert!(
        message("execution.checkpointing.mode: EXACTLY_ONCE")
            .contains("always exactly once; drop it")
    );
    assert!(message("state.backend.type: rocksdb").contains("in memory; drop it"));
}

#[test]
fn a_key_that_stands_twice_is_refused_under_either_name() {
    assert_eq!(
        message("rest.port: 1\nrest:\n  port: 2\n"),
        "option 'rest.port' is set twice: flott.yaml line 1 and flott.yaml line 3"
    );
    assert!(message("rpc.ask-timeout: 1 s\nakka.ask.timeout: 2 s\n").contains("is set twice"));
}

#[test]
fn an_absent_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let env = [("FLOTT_CONF_DIR".to_owned(), dir.path().display().to_string())];
    let sources = LoadSources { env: env.into(), ..LoadSources::default() };
    let error = Options::load(&sources).unwrap_err();
    assert!(
        matches!(&error, ConfError::Unreadable { path, .. } if path.ends_with("flott.yaml")),
        "{error}"
    );
    assert!(error.to_string().contains("No such file"), "{error}");
}

#[test]
fn a_file_that_is_too_long_is_told_so_wherever_it_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let env = [("FLOTT_CONF_DIR".to_owned(), dir.path().display().to_string())];
    let sources = LoadSources { env: env.into(), ..LoadSources::default() };
    let too_long = |begin: &str| [begin, &"é".repeat(1 << 20)].concat().into_bytes();
    let files = [
        (too_long("#"), "larger than 1 MiB"),
        (too_long("##"), "larger than 1 MiB"),
        (b"# \xff".to_vec(), "invalid utf-8"),
    ];
    for (bytes, why) in files {
        std::fs::write(dir.path().join("flott.yaml"), bytes).unwrap();
        let text = Options::load(&sources).unwrap_err().to_string();
        assert!(text.contains(why) && text.contains("flott.yaml"), "{text}");
    }
}

#[test]
fn what_is_not_set_falls_back() {
    let options =
        Options::from_map([("jobmanager.rpc.address", "jm"), ("slot.request.timeout", "7 s")])
            .unwrap();
    assert_eq!(options.get(&rest::ADDRESS), "jm");
    assert_eq!(options.get(&resourcemanager::START_UP_TIME), Duration::from_secs(7));
    assert!(!options.is_set(&rest::ADDRESS));
}

#[test]
fn secrets_are_masked_for_logs_and_kept_for_other_processes() {
    let options = Options::from_map([
        ("program.db.Password", "x"),
        ("security.cluster-secret-file", "/run/secret"),
    ])
    .unwrap();
    let masked = options.to_masked_map();
    assert_eq!(masked["program.db.Password"], "******");
    assert_eq!(masked["security.cluster-secret-file"], "/run/secret");
    assert_eq!(Options::from_map(options.to_map()).unwrap().to_map(), options.to_map());
}

#[test]
fn of_one_option_under_two_names_the_setting_under_its_own_name_counts() {
    let (own, old) = ("execution.checkpointing.dir", "state.checkpoints.dir");
    let dir = |settings: [(&str, &str); 2]| {
        let options = Options::default().overlaid(settings, "the job").unwrap();
        options.get(&crate::checkpointing::DIRECTORY)
    };
    assert_eq!(dir([(own, "/a"), (old, "/b")]).as_deref(), Some("/a"));
    assert_eq!(dir([(old, "/b"), (own, "/a")]).as_deref(), Some("/a"));
    let map = |settings: &[(&str, &str)]| -> BTreeMap<String, String> {
        settings.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
    };
    let renamed = Options::normalised(map(&[(old, "/b"), ("program.x", "1"), ("odd", "2")]));
    assert_eq!(renamed, map(&[(own, "/b"), ("program.x", "1"), ("odd", "2")]));
    assert_eq!(Options::normalised(map(&[(old, "/b"), (own, "/a")])), map(&[(own, "/a")]));
    let again = Options::default().with(own, "/a").unwrap().with(old, "/b").unwrap();
    assert_eq!(again.get(&crate::checkpointing::DIRECTORY).as_deref(), Some("/b"), "a later call");
}

#[test]
fn each_spelling_of_a_truth_value_or_number_becomes_one_wherever_it_is_set() {
    for (key, text, kept) in [
        ("exchange.force-serialization", "TRUE", "true"),
        ("exchange.force-serialization", " True ", "true"),
        ("exchange.force-serialization", " False ", "false"),
        ("s3.path.style.access", "True", "true"),
        ("state.backend.incremental", "tRuE", "true"),
        ("pipeline.max-parallelism", " 0064", "64"),
        ("pipeline.max-parallelism", "+64", "64"),
        ("execution.checkpointing.num-retained", "03", "3"),
        ("restart-strategy.failure-rate.max-failures-per-interval", "05", "5"),
        ("restart-strategy.exponential-delay.jitter-factor", ".50", "0.5"),
        ("restart-strategy.exponential-delay.jitter-factor", "5e-1", "0.5"),
        ("external-resource.gpu.amount", "02", "2"),
        // Others are kept as they were given.
        ("execution.checkpointing.interval", "1 min", "1 min"),
        ("pipeline.name", " TRUE ", " TRUE "),
        ("program.on", "TRUE", "TRUE"),
    ] {
        let given = BTreeMap::from([(key.to_owned(), text.to_owned())]);
        let ways = [
            Options::from_map(given.clone()).unwrap().to_map(),
            Options::from_yaml("f", &format!("{key}: \"{text}\"")).unwrap().to_map(),
            Options::load(&LoadSources {
                overrides: vec![(key.to_owned(), text.to_owned())],
                ..LoadSources::default()
            })
            .unwrap()
            .to_map(),
            Options::normalised(given),
        ];
        for way in ways {
            assert_eq!(way.values().collect::<Vec<_>>(), [kept], "{key}: '{text}'");
        }
    }
    let wrong = |text: &str| BTreeMap::from([("exchange.force-serialization".into(), text.into())]);
    for text in ["yes", "1", "on", "", "truee"] {
        assert_eq!(Options::normalised(wrong(text)), wrong(text));
        assert!(Options::from_map(wrong(text)).is_err(), "{text}");
    }
}

#[test]
fn only_what_shapes_a_graph_is_handed_to_a_programs_build() {
    let options = Options::from_map([
        ("pipeline.max-parallelism", "64"),
        ("execution.checkpointing.interval", "1s"),
        ("s3.secret-key", "hidden"),
        ("restart-strategy.type", "none"),
    ]);
    let shaping = options.unwrap().shaping();
    let keys: Vec<_> = shaping.keys().map(String::as_str).collect();
    assert_eq!(keys, ["execution.checkpointing.interval", "pipeline.max-parallelism"]);
}

#[test]
fn a_users_key_is_a_name_and_never_a_path() {
    let options = Options::from_yaml("f", "program:\n  \"x[99999999]\": 1\n  a b: 2\n").unwrap();
    assert_eq!(options.program()["x[99999999]"], "1");
    assert_eq!(options.program()["a b"], "2");
}

#[test]
fn values_can_be_set_typed_and_unset() {
    let options = Options::default().with_value(&jobmanager::RPC_PORT, &model::PortSpec::any());
    assert_eq!(options.get(&jobmanager::RPC_PORT), model::PortSpec::any());
    let options = options.with_value(&cluster::ID, &Some("a".to_owned()));
    assert_eq!(options.with_value(&cluster::ID, &None).get(&cluster::ID), None);
}

#[test]
fn the_file_that_users_get_sets_only_what_is_known() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("flott.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    Options::from_yaml("flott.yaml", &text).unwrap();
    // Commented-out settings must be right, too: users will uncomment them.
    let uncommented: String = text
        .lines()
        .filter_map(|line| line.strip_prefix("#"))
        .filter(|line| !line.is_empty() && !line.starts_with([' ', '=']))
        .map(|line| format!("{line}\n"))
        .collect();
    let all = Options::from_yaml("uncommented", &uncommented).unwrap();
    assert!(all.to_map().len() > 20, "{uncommented}");
}

#[test]
fn amounts_of_memory_are_handed_on_to_the_byte() {
    for bytes in [0, 1, 1023, 1 << 10, (1 << 20) + 1, (1 << 30) - 1, 1 << 31, 3 << 29] {
        let size = Some(model::MemorySize(bytes));
        let options = Options::default().with_value(&jobmanager::PROCESS_SIZE, &size);
        assert_eq!(options.get(&jobmanager::PROCESS_SIZE), size);
    }
}

#[test]
fn directories_of_snapshots_are_absolute() {
    for key in ["execution.checkpointing.dir", "execution.checkpointing.savepoint-dir"] {
        for fine in ["/d", "file:/d", "s3://bucket/d", "hdfs://host/d"] {
            assert!(Options::from_map([(key, fine)]).is_ok(), "{fine}");
        }
        let error = Options::from_map([(key, "rel/d")]).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains("an absolute path or a URI"), "{error}");
    }
}

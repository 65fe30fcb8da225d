//! Whole small programs through the harness.

use crate::{
    Args, BuildInputs, BuildProgramError, BuiltJob, Environment, ProgramEntry, Stream, TaskError,
    batch::Batch,
    build,
    harness::{Harness, HarnessError, Outcome},
    operators::{BoxError, Collector, Operator, OperatorContext},
    sinks::FileSink,
    testing,
    time::WatermarkStrategy,
};
use model::{ContentHash, JobId, JobVertex, ShipStrategy};
use std::{collections::BTreeMap, path::Path};

mod facade;
mod moved;

pub(crate) fn inputs(parallelism: u32) -> BuildInputs {
    BuildInputs {
        args: Vec::new(),
        env: None,
        once: None,
        job: None,
        job_id: JobId(0xfeed),
        parallelism,
        options: BTreeMap::new(),
        defaults: BTreeMap::new(),
        embedded: false,
        program_hash: ContentHash([1; 32]),
        program_name: "test".into(),
        program_size: 1,
    }
}

pub(crate) fn built(
    parallelism: u32,
    program: impl Fn(&Environment) + Send + Sync + 'static,
) -> BuiltJob {
    try_built(inputs(parallelism), program).unwrap()
}

pub(crate) fn try_built(
    inputs: BuildInputs,
    program: impl Fn(&Environment) + Send + Sync + 'static,
) -> Result<BuiltJob, BuildProgramError> {
    let entry = ProgramEntry::new().job("test", move |env: &Environment, _: Args| {
        program(env);
        Ok::<(), BoxError>(())
    });
    build(&entry, inputs)
}

pub(crate) fn run(job: &BuiltJob) -> Outcome {
    let tmp = tempfile::tempdir().unwrap();
    Harness::new(tmp.path()).run(job).unwrap()
}

/// The only collect sink's lines, sorted.
pub(crate) fn lines(outcome: &Outcome) -> Vec<String> {
    let mut lines: Vec<String> = outcome
        .collected
        .concat()
        .into_iter()
        .map(|line| String::from_utf8(line).unwrap())
        .collect();
    lines.sort();
    lines
}

fn words(env: &Environment, path: &Path) -> crate::Stream<Vec<u8>> {
    env.read_lines(path).flat_map(|line: Vec<u8>, out| {
        let words = line.split(|b| matches!(b, 9..=13 | 32)).filter(|word| !word.is_empty());
        out.collect_all(words.map(<[u8]>::to_vec));
    })
}

fn expected_counts(text: &[u8]) -> Vec<String> {
    let mut counts: BTreeMap<&[u8], u64> = BTreeMap::new();
    for word in text.split(|b| matches!(b, 9..=13 | 32)).filter(|word| !word.is_empty()) {
        *counts.entry(word).or_default() += 1;
    }
    let line =
        |(word, count): (&&[u8], &u64)| format!("{}\t{count}", String::from_utf8_lossy(word));
    let mut lines: Vec<String> = counts.iter().map(line).collect();
    lines.sort();
    lines
}

const TEXT: &str =
    "一 二 三\r\n to be or not to be\t\x0bthat is\n\n the question 二 一\x0c一\nno end";

#[test]
fn words_are_counted_with_any_parallelism() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("text");
    let text = TEXT.repeat(50);
    std::fs::write(&path, &text).unwrap();
    for parallelism in 1..=16 {
        let path = path.clone();
        let job = built(parallelism, move |env| {
            words(env, &path).key_by(|word| word).at_end().count().collect();
        });
        let plain = Harness::new(tmp.path()).run(&job).unwrap();
        assert_eq!(lines(&plain), expected_counts(text.as_bytes()), "parallelism {parallelism}");
        let narrow = Harness::new(tmp.path()).serialize().channel_batches(1).budget(7);
        let narrow = narrow.run(&job).unwrap();
        assert_eq!(lines(&narrow), expected_counts(text.as_bytes()));
    }
}

#[test]
fn a_failure_is_not_seen_in_the_result() {
    let tmp = tempfile::tempdir().unwrap();
    let (path, result) = (tmp.path().join("text"), tmp.path().join("out"));
    let text = TEXT.repeat(3_000);
    std::fs::write(&path, &text).unwrap();
    let to = result.clone();
    let job = built(3, move |env| {
        let words = words(env, &path).key_by(|word| word);
        words.at_end().count().collect();
        let lines = env.read_lines(&path).rebalance();
        lines.write_text(&to);
    });
    let outcome = Harness::new(tmp.path()).fail_after(&[5, 20, 33]).run(&job).unwrap();
    assert_eq!(lines(&outcome), expected_counts(text.as_bytes()));
    let mut parts: Vec<_> =
        std::fs::read_dir(&result).unwrap().map(|entry| entry.unwrap().path()).collect();
    parts.sort();
    assert_eq!(parts.len(), 3);
    let mut written: Vec<String> = Vec::new();
    for part in parts {
        written.extend(std::fs::read_to_string(part).unwrap().lines().map(str::to_owned));
    }
    let mut read: Vec<&str> = text.lines().collect();
    // `lines` takes the \r of CRLF away on both sides.
    written.sort();
    read.sort_unstable();
    assert_eq!(written, read);
    let left: Vec<_> =
        std::fs::read_dir(tmp.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "nothing of the attempts is left: {left:?}");
}

#[test]
fn every_update_and_at_end() {
    let job = built(1, |env| {
        let numbers = env.sequence(1..=6).key_by_value(|n| n % 2).sum(|n| *n);
        numbers.collect();
        env.sequence(1..=6).key_by_value(|n| n % 2).at_end().sum(|n| *n).collect();
        env.sequence(1..=6)
            .key_by_value(|n| n % 2)
            .at_end()
            .reduce(|kept, n| *kept = (*kept).max(n))
            .collect();
        env.sequence(1..=6)
            .key_by_value(|n| n % 2)
            .at_end()
            .fold(String::new(), |text, n| text.push_str(&n.to_string()))
            .collect();
    });
    let outcome = run(&job);
    let mut sinks = outcome.collected.into_iter().map(|sink| {
        let mut lines: Vec<_> =
            sink.into_iter().map(|line| String::from_utf8(line).unwrap()).collect();
        lines.sort();
        lines.join(" ")
    });
    assert_eq!(sinks.next().unwrap(), "0\t12 0\t2 0\t6 1\t1 1\t4 1\t9");
    assert_eq!(sinks.next().unwrap(), "0\t12 1\t9");
    assert_eq!(sinks.next().unwrap(), "5 6");
    assert_eq!(sinks.next().unwrap(), "0\t246 1\t135");
}

#[test]
fn updates_of_a_key_keep_their_order() {
    let job = built(4, |env| {
        env.sequence(0..10_000).rebalance().key_by_value(|n| n % 10).count().collect();
    });
    let outcome = run(&job);
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    for line in outcome.collected.concat() {
        let line = String::from_utf8(line).unwrap();
        let (key, count) = line.split_once('\t').unwrap();
        let before = last.insert(key.to_owned(), count.parse().unwrap()).unwrap_or(0);
        assert_eq!(before + 1, count.parse::<u64>().unwrap());
    }
    assert!(last.values().all(|count| *count == 1_000));
}

#[test]
fn a_chain_of_hundreds_of_operators_is_cut_before_it_fills_the_stack() {
    let job = built(2, |env: &Environment| {
        let mut numbers = env.sequence(0..10).set_parallelism(3);
        for _ in 0..300 {
            numbers = numbers.map(|n| n + 1);
        }
        numbers.collect();
    });
    let of = |vertex: &JobVertex| (vertex.nodes.len(), vertex.parallelism);
    let chains: Vec<_> = job.graph().vertices.iter().map(of).collect();
    assert_eq!(chains, [(128, 3), (128, 3), (46, 3)]);
    assert!(job.graph().edges.iter().all(|edge| edge.ship == ShipStrategy::Forward));
    let outcome = run(&job);
    assert_eq!(lines(&outcome), (300..310).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn chains_end_where_the_program_says() {
    let job = built(2, |env| {
        let numbers = env.sequence(0..100).map(|n| n + 1).filter(|n| n % 2 == 0).name("even");
        let [left, right] = numbers.split();
        let left = left.map(|n| n * 2).set_parallelism(3);
        let right = right.map(|n| n * 3).slot_sharing_group("other");
        left.union(&right).inspect(|_| {}).broadcast().map(|n| n).discard();
        left.key_by(|n| n).at_end().count().uid("counts").collect().disable_chaining();
    });
    let graph = job.graph();
    let names: Vec<_> = graph.vertices.iter().map(|v| (v.name.as_str(), v.parallelism)).collect();
    assert_eq!(
        names,
        [
            ("sequence -> map -> even", 2),
            ("map", 3),
            ("map", 2),
            ("inspect", 2),
            ("map -> discard", 2),
            ("count at end", 2),
            ("collect", 2)
        ]
    );
    let ships: Vec<_> = graph.edges.iter().map(|e| (e.ship, e.output, e.input)).collect();
    use ShipStrategy::{Broadcast, Forward, Hash, Rebalance};
    assert_eq!(
        ships,
        [
            (Rebalance, 0, 0),
            (Forward, 1, 0),
            (Rebalance, 0, 0),
            (Forward, 0, 1),
            (Broadcast, 0, 0),
            (Hash, 1, 0),
            (Forward, 0, 0)
        ]
    );
    let groups: Vec<_> = graph.vertices.iter().map(|v| v.slot_sharing_group.as_str()).collect();
    assert_eq!(groups, ["default", "default", "other", "default", "default", "default", "default"]);
    assert!(graph.edges.iter().all(|edge| job.edge_codec(edge.id).is_some()));
    let records = run(&job).records;
    // Two maps of 50 records each meet; each of 100 goes to both subtasks behind the broadcast.
    assert_eq!(records["inspect"], (100, 100));
    assert_eq!(records["map -> discard"], (200, 0));
}

#[test]
fn equal_inputs_give_equal_fingerprints_and_others_are_told_apart() {
    let program = |env: &Environment| {
        env.sequence(0..9).map(|n| n).key_by(|n| n).count().collect();
    };
    let one = built(1, program);
    let two = built(16, program);
    assert_eq!(one.graph().fingerprint, two.graph().fingerprint, "parallelism is not part of it");
    assert_eq!(one.difference_from(two.graph()), None);
    let other = built(1, |env| {
        env.sequence(0..9).filter(|_| true).key_by(|n| n).count().collect();
    });
    let difference = one.difference_from(other.graph()).unwrap();
    assert_eq!(difference, "node 1 'map': kind is \"map\" here, \"filter\" there");
    let longer = built(1, |env| {
        env.sequence(0..9).map(|n| n).key_by(|n| n).count().map(|n| n).collect();
    });
    assert!(one.difference_from(longer.graph()).unwrap().contains("node 3"));
    let retyped = built(1, |env| {
        env.sequence(0..9).map(|n| n as i64).key_by(|n| n).count().collect();
    });
    assert!(one.difference_from(retyped.graph()).unwrap().contains("node 1 'map': output"));
}

#[test]
fn mistakes_are_named() {
    let wrong = |program: fn(&Environment)| try_built(inputs(2), program).unwrap_err().to_string();
    assert_eq!(wrong(|_| {}), "the program declares no source");
    assert_eq!(
        wrong(|env| drop(env.read_lines("a/b").discard())),
        "operator 'line source': the path 'a/b' is relative; on a cluster give an absolute path or a URI"
    );
    assert_eq!(
        wrong(|env| drop(env.read_lines("ftp://a/b").discard())),
        "operator 'line source': cannot use 'ftp://a/b': there is no file system for the scheme 'ftp'"
    );
    assert_eq!(
        wrong(|env| drop(env.sequence(0..1).uid("a").map(|n| n).uid("a").discard())),
        "two operators have the uid 'a'"
    );
    assert_eq!(
        wrong(|env| drop(env.sequence(0..1).set_parallelism(200).discard().set_parallelism(0))),
        "operator 'discard': the parallelism must be 1 to 128, not 0"
    );
    assert_eq!(
        wrong(|env| drop(
            env.socket_text("localhost:1").name("lines").set_parallelism(2).discard()
        )),
        "operator 'lines': it can have one subtask only, its parallelism cannot be 2"
    );
    assert_eq!(
        wrong(|env| drop(env.sequence(0..1).rebalance().name("x").discard())),
        "name() must follow an operator, not rebalance(), broadcast(), partition_custom(), union() or side_output()"
    );
    assert_eq!(
        wrong(|env| drop(env.sequence(0..).write_text("/x/y"))),
        "operator 'file sink': a file sink publishes its files when the job finishes, and this job has an unbounded source"
    );
    assert_eq!(
        wrong(|env| drop(env.sequence_with_rate(0..1, 0.0).discard())),
        "operator 'sequence': the rate must be finite and above 0, not 0"
    );
    let panicked = wrong(|_| panic!("no {}", 7));
    assert!(
        panicked.contains("panicked: no 7 (at ") && panicked.contains("tests.rs:"),
        "{panicked}"
    );
}

#[test]
fn with_checkpoints_every_operator_with_state_needs_a_uid() {
    let program = |env: &Environment| {
        let counts = env.sequence(0..9).map(|n| n).key_by(|n| n).count().name("totals");
        counts.map(|n| n).collect().uid("results");
    };
    let with = |options: &[(&str, &str)]| {
        let mut inputs = inputs(1);
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        inputs.options.extend(options.iter().map(own));
        try_built(inputs, program).map(drop).map_err(|error| error.to_string())
    };
    let interval = ("execution.checkpointing.interval", "1s");
    let error = with(&[interval]).unwrap_err();
    assert!(error.contains("without one: 'sequence', 'totals'; add .uid("), "{error}");
    assert_eq!(with(&[interval, ("pipeline.auto-generate-uids", "true")]), Ok(()));
    assert_eq!(with(&[]), Ok(()));
}

/// Emits a running count of its records, which is its state if it has one.
#[derive(Default)]
struct Counted<const HAS_STATE: bool>(u64);

impl<T: Send, const HAS_STATE: bool> Operator<T> for Counted<HAS_STATE> {
    type Out = u64;
    const HAS_STATE: bool = HAS_STATE;
    fn process(
        &mut self,
        batch: &mut Batch<T>,
        out: &mut Collector<u64>,
        _: &OperatorContext,
    ) -> Result<(), TaskError> {
        self.0 += batch.len() as u64;
        batch.clear();
        out.collect(self.0);
        Ok(())
    }
    fn snapshot(&mut self, _: u64, _: &OperatorContext) -> Result<Option<Vec<u8>>, TaskError> {
        Ok(Some(vec![7]))
    }
}

fn timed(numbers: &Stream<u64>) -> Stream<u64> {
    let times = WatermarkStrategy::for_monotonous_timestamps(|n: &u64| *n as i64);
    numbers.assign_timestamps_and_watermarks(times)
}

#[test]
fn sinks_watermarks_and_operators_of_ones_own_need_a_uid_if_they_have_state() {
    type Declares = fn(Stream<u64>);
    let built = |program: Declares| {
        let mut inputs = inputs(1);
        inputs.options.insert("execution.checkpointing.interval".to_owned(), "1s".to_owned());
        let built = try_built(inputs, move |env| program(env.sequence(0..9).uid("numbers")));
        built.map(drop).map_err(|error| error.to_string())
    };
    let cases: [(&str, Declares); 8] = [
        ("'collect'", |s| drop(s.collect())),
        ("'file sink', 'file sink global committer'", |s| drop(s.write_text("/x/y"))),
        ("'sink global committer'", |s| {
            s.map(|n| n.to_string()).sink_to(FileSink::lines("/x/y"));
        }),
        ("'timestamps and watermarks'", |s| drop(timed(&s).print())),
        ("'own'", |s| drop(s.transform("own", Counted::<true>::default).print())),
        ("'own'", |s| drop(s.key_by(|n| n).transform("own", Counted::<true>::default).print())),
        ("'own'", |s| drop(s.connect(&s).transform("own", Counted::<true>::default).print())),
        ("'own'", |s| {
            let keyed = s.key_by(|n| n).connect(&s.key_by(|n| n));
            keyed.transform("own", Counted::<true>::default).print();
        }),
    ];
    for (without, program) in cases {
        let error = built(program).unwrap_err();
        assert!(error.contains(&format!("without one: {without}; add .uid(")), "{error}");
    }
    let named = |s: Stream<u64>| {
        timed(&s).uid("times").collect().uid("results");
        s.map(|n| n.to_string()).sink_to(FileSink::lines("/x/y")).uid("files");
        let own = s.connect(&s).transform("own", Counted::<true>::default).uid("own");
        own.write_text("/x/z").uid("text");
        // Without state.
        s.transform("own", Counted::<false>::default).map(|n| n).print();
    };
    assert_eq!(built(named), Ok(()));
}

#[test]
fn an_operator_that_has_state_without_saying_so_fails_at_the_first_checkpoint() {
    let mut silent = testing::operator(Counted::<false>::default()).open().unwrap();
    silent.push(1_u64).unwrap();
    let error = silent.savepoint(1).unwrap_err().to_string();
    assert!(error.contains("its Operator::HAS_STATE is false"), "{error}");
    let mut says_so = testing::operator(Counted::<true>::default()).open().unwrap();
    says_so.push(1_u64).unwrap();
    assert!(says_so.savepoint(1).is_ok());
}

#[test]
fn embedded_programs_may_use_relative_paths() {
    let mut embedded = inputs(1);
    embedded.embedded = true;
    let job = try_built(embedded, |env| drop(env.read_lines("Cargo.toml").collect())).unwrap();
    assert!(lines(&run(&job)).contains(&"name = \"streaming\"".to_owned()));
}

#[test]
fn once_and_variables_travel_in_the_graph() {
    let program = |first: u64| {
        move |env: &Environment| {
            let number: u64 = env.once("number", || first).unwrap();
            assert!(env.once("number", || 1_u64).is_err());
            let home = env.var("CARGO_PKG_NAME");
            env.from_collection([format!("{number} {home:?}")]).collect();
        }
    };
    let first = built(1, program(7));
    assert_eq!(first.graph().program.env["CARGO_PKG_NAME"], "streaming");
    let mut again = inputs(1);
    again.once = Some(first.graph().program.once.clone());
    again.env = Some(BTreeMap::from([("CARGO_PKG_NAME".to_owned(), "other".to_owned())]));
    let rebuilt = try_built(again, program(8)).unwrap();
    assert_eq!(lines(&run(&rebuilt)), ["7 Some(\"other\")"]);
}

#[test]
fn several_jobs_are_told_apart_by_name() {
    let job = |env: &Environment, _: Args| -> Result<(), BoxError> {
        env.sequence(0..1).discard();
        Ok(())
    };
    let entry = ProgramEntry::new().job("a", job).job("b", job);
    let ask = |name: Option<&str>| {
        let inputs = BuildInputs { job: name.map(str::to_owned), ..inputs(1) };
        build(&entry, inputs).map(|job| job.graph().name.clone())
    };
    assert_eq!(ask(Some("b")).unwrap(), "b");
    assert_eq!(ask(Some("c")).unwrap_err().to_string(), "the program has no job 'c'; it has: a, b");
    let unnamed = ask(None).unwrap_err().to_string();
    assert!(unnamed.starts_with("the program has several jobs: a, b\n"), "{unnamed}");
    for way in ["flott run --job NAME", "FLOTT_PIPELINE_ENTRY=NAME"] {
        assert!(unnamed.contains(way), "{unnamed}");
    }
    let none = build(&ProgramEntry::new(), inputs(1)).map(drop).unwrap_err().to_string();
    assert!(none.starts_with("the program declares no job"), "{none}");
}

#[test]
fn help_of_a_program_with_several_jobs_lists_them() {
    let job = |env: &Environment, args: Args| -> Result<(), BoxError> {
        let cli: Cli = args.parse()?;
        env.sequence(0..cli.count).discard();
        Ok(())
    };
    let entry = ProgramEntry::new().job("a", job).job("b", job);
    let ask = |name: Option<&str>, args: &[&str]| {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        build(&entry, BuildInputs { job: name.map(str::to_owned), args, ..inputs(1) })
    };
    for flag in ["--help", "-h"] {
        let Err(BuildProgramError::Usage { text, help: true }) = ask(None, &[flag]) else {
            panic!("{flag} is no failure")
        };
        for part in ["\n  a\n  b\n", "flott run --job NAME", "FLOTT_PIPELINE_ENTRY=NAME"] {
            assert!(text.contains(part), "{text}");
        }
    }
    // What follows `--` is no flag, and a job that is named has a help of its own.
    assert!(matches!(ask(None, &["--", "--help"]), Err(BuildProgramError::NoSuchJob { .. })));
    let Err(BuildProgramError::Usage { text, help: true }) = ask(Some("a"), &["--help"]) else {
        panic!("help is no failure")
    };
    assert!(text.contains("--count"), "{text}");
}

#[test]
fn the_option_names_the_job_before_the_program_does() {
    let entry = ProgramEntry::new().job("registered", |env: &Environment, args: Args| {
        if args.get(0) == Some("own") {
            env.set_name("own");
        }
        env.sequence(0..1).discard();
        Ok::<(), BoxError>(())
    });
    let name = |args: &[&str], option: Option<&str>| {
        let options = option.map(|name| ("pipeline.name".to_owned(), name.to_owned()));
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let inputs = BuildInputs { args, options: options.into_iter().collect(), ..inputs(1) };
        build(&entry, inputs).unwrap().graph().name.clone()
    };
    assert_eq!(name(&[], None), "registered");
    assert_eq!(name(&["own"], None), "own");
    assert_eq!(name(&["own"], Some("hello")), "hello");
    assert_eq!(name(&[], Some(" ")), "registered");
}

#[test]
fn the_clusters_settings_give_way_to_the_programs_and_these_to_the_clients() {
    const KEY: &str = "pipeline.max-parallelism";
    let entry = ProgramEntry::new().job("sequence", |env: &Environment, args: Args| {
        if let Some(own) = args.get(0) {
            env.set_option(KEY, own);
        }
        env.sequence(0..1).discard();
        Ok::<(), BoxError>(())
    });
    let max = |cluster: Option<&str>, own: Option<&str>, client: Option<&str>| {
        let of = |value: Option<&str>| value.map(|v| (KEY.to_owned(), v.to_owned()));
        let inputs = BuildInputs {
            args: own.map(str::to_owned).into_iter().collect(),
            defaults: of(cluster).into_iter().collect(),
            options: of(client).into_iter().collect(),
            ..inputs(1)
        };
        let job = build(&entry, inputs).unwrap();
        (job.graph().vertices[0].max_parallelism, job.graph().options[KEY].clone())
    };
    assert_eq!(max(Some("7"), None, None), (7, "7".to_owned()));
    assert_eq!(max(Some("7"), Some("8"), None), (8, "8".to_owned()));
    assert_eq!(max(Some("7"), Some("8"), Some("9")), (9, "9".to_owned()));
    assert_eq!(max(None, Some(" 8 "), None).0, 8);
}

#[test]
fn what_a_program_sets_by_a_method_is_above_the_clusters_settings_and_the_same_in_every_process() {
    let entry = ProgramEntry::new().job("sequence", |env: &Environment, _: Args| {
        env.set_name("mine");
        env.set_max_parallelism(16);
        let many = env.option("pipeline.auto-generate-uids").is_some();
        env.sequence(0..1).set_parallelism(if many { 2 } else { 1 }).discard();
        Ok::<(), BoxError>(())
    });
    let of_cluster = [
        ("pipeline.name", "from yaml"),
        ("pipeline.max-parallelism", "64"),
        ("pipeline.auto-generate-uids", "true"),
    ];
    let defaults = of_cluster.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let first = build(&entry, BuildInputs { defaults, ..inputs(1) }).unwrap();
    let graph = first.graph();
    let vertex = &graph.vertices[0];
    assert_eq!((vertex.max_parallelism, vertex.parallelism), (16, 2), "it sees the cluster's");
    assert_eq!(graph.name, "mine");
    let again = BuildInputs { options: graph.options.clone(), ..inputs(1) };
    let again = build(&entry, again).unwrap();
    assert_eq!(again.graph().vertices, graph.vertices);
    assert_eq!(again.graph().name, "mine");
}

/// The own name of an option with two names, and the other one.
const INCREMENTAL: [&str; 2] = ["execution.checkpointing.incremental", "state.backend.incremental"];

/// Knows one other name, and one spelling of the truth values.
fn normalise(options: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let key = |key: String| match key == INCREMENTAL[1] {
        true => INCREMENTAL[0].to_owned(),
        false => key,
    };
    let text = |text: String| match text.trim().to_ascii_lowercase() {
        truth if truth == "true" || truth == "false" => truth,
        _ => text,
    };
    options.into_iter().map(|(name, value)| (key(name), text(value))).collect()
}

#[test]
fn options_are_in_a_jobs_graph_in_one_form_whoever_gives_them_and_under_whichever_name() {
    let entry = ProgramEntry::new().normalising(normalise).job(
        "sequence",
        |env: &Environment, args: Args| {
            if let (Some(key), Some(value)) = (args.get(0), args.get(1)) {
                env.set_option(key, value);
            }
            env.sequence(0..1).discard();
            Ok::<(), BoxError>(())
        },
    );
    let [own, other] = INCREMENTAL;
    let built = |cluster: &[(&str, &str)], program: &[&str], client: &[(&str, &str)]| {
        let map = |of: &[(&str, &str)]| -> BTreeMap<String, String> {
            of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let args = program.iter().map(|arg| (*arg).to_owned()).collect();
        let inputs =
            BuildInputs { args, defaults: map(cluster), options: map(client), ..inputs(1) };
        let graph = build(&entry, inputs.clone()).unwrap().graph().clone();
        let again =
            BuildInputs { options: graph.options.clone(), defaults: BTreeMap::new(), ..inputs };
        assert_eq!(build(&entry, again).unwrap().graph().options, graph.options, "a rebuild");
        assert_eq!(graph.options.get(other), None);
        graph.options.get(own).cloned()
    };
    assert_eq!(built(&[(other, "TRUE")], &[], &[]).unwrap(), "true");
    assert_eq!(built(&[(own, "true")], &[other, " False "], &[]).unwrap(), "false");
    assert_eq!(built(&[(other, "true")], &[own, "FALSE"], &[]).unwrap(), "false");
    assert_eq!(built(&[], &[own, "false"], &[(other, "True")]).unwrap(), "true");
    assert_eq!(built(&[(own, "true")], &[], &[(other, "no")]).unwrap(), "no", "refused later");
    let periodic = [("execution.checkpointing.interval", "1s")];
    let named = ["pipeline.auto-generate-uids", "TRUE"];
    assert_eq!(built(&periodic, &named, &[]), None, "no uid is demanded");
}

#[test]
fn a_cluster_whose_jobs_all_have_checkpoints_requires_uids() {
    let entry = ProgramEntry::new().job("sequence", |env: &Environment, _: Args| {
        env.sequence(0..1).discard();
        Ok::<(), BoxError>(())
    });
    let defaults = [("execution.checkpointing.interval".to_owned(), "1s".to_owned())].into();
    let error = build(&entry, BuildInputs { defaults, ..inputs(1) }).unwrap_err().to_string();
    assert!(error.contains("needs a uid"), "{error}");
}

#[test]
fn a_name_that_two_jobs_have_is_refused_whichever_job_is_started() {
    fn numbers(env: &Environment, _: Args) -> Result<(), BoxError> {
        env.sequence(0..3).discard();
        Ok(())
    }
    let entry = ProgramEntry::new().job("one", numbers).job("two", numbers).job("one", numbers);
    for asked in [None, Some("one"), Some("two")] {
        let inputs = BuildInputs { job: asked.map(str::to_owned), ..inputs(1) };
        let error = build(&entry, inputs).unwrap_err();
        assert!(matches!(error, BuildProgramError::Invalid(_)), "{error:?}");
        assert!(error.to_string().contains("'one'"), "{error}");
    }
}

#[test]
fn the_option_for_the_parallelism_counts_like_set_parallelism() {
    let widths = |job: BuiltJob| -> Vec<u32> {
        job.graph().vertices.iter().map(|vertex| vertex.parallelism).collect()
    };
    let by_option = built(2, |env| {
        env.set_option("parallelism.default", "8");
        assert_eq!(env.parallelism(), 8);
        env.sequence(0..3).discard();
    });
    assert_eq!(by_option.graph().options["parallelism.default"], "2", "for rebuilds");
    assert_eq!(widths(by_option), [8]);
    let last_wins = built(2, |env| {
        env.set_option("parallelism.default", "8");
        env.set_parallelism(3);
        env.sequence(0..3).discard();
    });
    assert_eq!(widths(last_wins), [3]);
    for wrong in ["many", "0", "-1", "32769", "1.5", ""] {
        let error = try_built(inputs(2), move |env| {
            env.set_option("parallelism.default", wrong);
            // An operator that has a parallelism of its own does not make the value right.
            env.sequence(0..3).set_parallelism(1).discard().set_parallelism(1);
        });
        let error = error.unwrap_err().to_string();
        let named =
            error.contains("'parallelism.default'") && error.contains(&format!("'{wrong}'"));
        assert!(named && error.contains("from 1 to 32768"), "{error}");
    }
}

#[derive(clap::Parser)]
struct Cli {
    #[arg(long)]
    count: u64,
}

#[test]
fn arguments_are_parsed_and_help_is_not_an_error() {
    let entry = ProgramEntry::new().job("test", |env: &Environment, args: Args| {
        let cli: Cli = args.parse()?;
        env.sequence(0..cli.count).collect();
        Ok::<(), BoxError>(())
    });
    let with = |args: &[&str]| {
        build(
            &entry,
            BuildInputs { args: args.iter().map(|a| (*a).to_owned()).collect(), ..inputs(1) },
        )
    };
    assert_eq!(lines(&run(&with(&["--count", "3"]).unwrap())), ["0", "1", "2"]);
    assert!(matches!(with(&["--help"]), Err(BuildProgramError::Usage { help: true, .. })));
    let Err(BuildProgramError::Usage { help: false, text }) = with(&["--cuont", "3"]) else {
        panic!("a mistake is one")
    };
    assert!(text.contains("--count"), "{text}");
}

#[test]
fn user_errors_and_panics_fail_the_task_by_name() {
    let failing = |program: fn(&Environment)| {
        let tmp = tempfile::tempdir().unwrap();
        match Harness::new(tmp.path()).run(&built(1, program)) {
            Err(HarnessError::Task { error, .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let error = failing(|env| {
        let parse = |text: String| text.parse::<u32>();
        env.from_collection(["x".to_owned()]).try_map(parse).name("parse").discard();
    });
    assert_eq!(error, "operator 'parse' failed: invalid digit found in string");
    let error = failing(|env| {
        env.sequence(0..9).map(|n| if n == 5 { panic!("five") } else { n }).discard();
    });
    let (what, place) = error.split_once(" (at ").unwrap();
    assert_eq!(what, "the code of chain 'sequence -> map -> discard' panicked: five");
    assert!(place.contains("api/tests.rs:"), "{error}");
    let tmp = tempfile::tempdir().unwrap();
    let absent = built(1, |env| drop(env.read_text_file("/nowhere/at/all").discard()));
    let error = Harness::new(tmp.path()).run(&absent).unwrap_err().to_string();
    assert!(
        error.starts_with("coordinator of 'text source': the input '/nowhere/at/all' can't"),
        "{error}"
    );
}

#[test]
fn barriers_pass_through_everything_and_state_is_written() {
    let job = built(3, |env| {
        let numbers = env.sequence(0..200_000);
        let odd = numbers.rebalance().filter(|n| n % 2 == 1);
        odd.union(&numbers).key_by_value(|n| n % 7).at_end().count().uid("counts").collect();
    });
    let tmp = tempfile::tempdir().unwrap();
    let outcome = Harness::new(tmp.path()).checkpoint_after(&[3, 9, 30]).run(&job).unwrap();
    // 3 × (source, filter, count -> collect); each source, count and sink writes a snapshot.
    assert_eq!(outcome.acknowledged[&1], (9, 9));
    assert!(outcome.acknowledged.len() >= 2, "{:?}", outcome.acknowledged);
    let total: u64 =
        lines(&outcome).iter().map(|l| l.split_once('\t').unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(total, 300_000);
}
